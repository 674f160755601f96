//! The kernel's array of attach points.

use std::{collections::HashMap, fmt};

use agent_common::{ApiId, Effect, Probe, ProbeClass, Site};
use aya::maps::{Array, MapData, MapError};
use thiserror::Error;

use crate::{
    discover::Library,
    programs::{CallProgram, MAX_SITES, PodSite},
};

/// Why an attach point could not be set.
#[derive(Debug, Error)]
pub enum SiteError {
    /// Too many files.
    #[error(
        "more than {MAX_SITES} different attach points: start cudasnoop anew to trace more builds of \
         CUDA's libraries"
    )]
    Full,
    /// The map refused.
    #[error("writing an attach point: {0}")]
    Map(#[from] MapError),
}

/// Gives attach points their indices: equal ones the same, for a library that is in many container
/// images has a file in each, and a dynamic linker is watched anew for each process.
pub struct Sites {
    map: Array<MapData, PodSite>,
    indices: HashMap<Site, u32>,
    launch_returns: bool,
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites")
            .field("indices", &self.indices.len())
            .finish_non_exhaustive()
    }
}

impl Sites {
    /// `launch_returns`: launches are probed at return, too.
    pub fn new(map: Array<MapData, PodSite>, launch_returns: bool) -> Self {
        Self {
            map,
            indices: HashMap::new(),
            launch_returns,
        }
    }

    /// Sets one site, unless there is such a one; gives its index.
    pub fn add(&mut self, site: Site) -> Result<u32, SiteError> {
        if let Some(index) = self.indices.get(&site) {
            return Ok(*index);
        }
        let index = u32::try_from(self.indices.len()).unwrap_or(MAX_SITES);
        if index >= MAX_SITES {
            return Err(SiteError::Full);
        }
        self.map.set(index, &PodSite(site), 0)?;
        self.indices.insert(site, index);
        Ok(index)
    }

    /// Sets the sites of those of a library's points that are traced, `entry_only` or where the
    /// table has them; gives each with its index.
    pub fn add_library(
        &mut self,
        library: &Library,
        entry_only: bool,
        is_traced: impl Fn(ApiId) -> bool,
    ) -> Result<Vec<Placed>, SiteError> {
        let mut placed = Vec::new();
        for point in library.points.iter().filter(|point| is_traced(point.api)) {
            let Some(api) = point.api.api() else {
                continue;
            };
            let has_return =
                api.probe != Probe::Entry || (self.launch_returns && api.effect == Effect::Launch);
            let returns = has_return && !entry_only;
            let mut site = point.site;
            if returns && api.probe == Probe::Entry {
                site.probe = Probe::Return as u8;
            } else if !returns {
                site.probe = Probe::Entry as u8;
            }
            let index = self.add(site)?;
            placed.push(Placed {
                program: CallProgram::of(api.shape),
                offset: point.offset,
                site: index,
                returns,
                api: point.api,
                class: api.class(),
            });
        }
        Ok(placed)
    }
}

/// A point that has its site.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Which program serves it.
    pub program: CallProgram,
    /// File offset to attach at.
    pub offset: u64,
    /// Index of its site.
    pub site: u32,
    /// Whether its return is probed.
    pub returns: bool,
    /// The function.
    pub api: ApiId,
    /// What it is switched together with.
    pub class: ProbeClass,
}
