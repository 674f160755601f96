//! What a file is to us: which functions of the probe table it has, and where.

use std::{collections::HashMap, path::Path};

use agent_common::{ApiId, Layer, Site, SiteFile};
use trace::fact;

use super::{
    elf::{Elf, ElfError, Symbol},
    file::{FileIdentity, TargetFile},
    prologue::{self, Moment, Unprobeable},
};

/// A file belongs to a layer when it defines one of these, whatever its name: libraries are
/// renamed, copied, linked into other files, and stand-ins export nothing.
const fn sentinels(layer: Layer) -> [&'static str; 2] {
    match layer {
        Layer::Runtime => ["cudaMalloc", "cudaLaunchKernel"],
        Layer::Driver => ["cuInit", "cuMemAlloc_v2"],
        Layer::Torch => [
            "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
            "_ZN3c1029reportOutOfMemoryToProfilerElmmNS_6DeviceE",
        ],
    }
}

/// Why a function that is there is not traced.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A probe would never fire.
    #[error(transparent)]
    Unprobeable(#[from] Unprobeable),
    /// Another name for code that has a probe already.
    #[error("the same code as {0}")]
    SameCode(&'static str),
    /// Its calls go on into a function that has a probe.
    #[error("only a jump to {0}: a probe on both would count calls twice")]
    JumpsTo(&'static str),
    /// The symbol is not the function but what chooses it.
    #[error("chosen at load time (an indirect function): its symbol is not its code")]
    Indirect,
    /// The file is damaged there.
    #[error(transparent)]
    Elf(#[from] ElfError),
}

/// A place for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePoint {
    /// The function.
    pub api: ApiId,
    /// The symbol: the function's, or its twin's.
    pub symbol: &'static str,
    /// The file offset to attach at.
    pub offset: u64,
    /// Whether the kernel carries out the instruction there itself: a cheap probe.
    pub emulated: bool,
    /// What the kernel side needs to know; its distances are those from `offset`.
    pub site: Site,
}

/// A file with functions of the probe table. Holds the file open.
#[derive(Debug)]
pub struct Library {
    /// The file.
    pub file: TargetFile,
    /// The layers that it implements.
    pub layers: Vec<Layer>,
    /// Where probes go, in the order of the table.
    pub points: Vec<ProbePoint>,
    /// Where the function is that comes before all others, `cuInit`, from the file's begin.
    pub start: Option<u64>,
    /// Symbols of its layers that it lacks: normal, for CUDA versions differ.
    pub missing: Vec<&'static str>,
    /// Symbols that it has and that cannot be traced.
    pub refused: Vec<(&'static str, Refusal)>,
    /// The name that it gives itself.
    pub soname: Option<String>,
    /// Its build id, in hexadecimal. Not all CUDA libraries have one.
    pub build_id: Option<String>,
}

/// A function that the file exports, before it is decided whether a probe goes there.
struct Candidate {
    api: ApiId,
    name: &'static str,
    symbol: Symbol,
}

impl Library {
    /// Looks for functions of the probe table in `file`; `None` where it has none.
    pub fn resolve(file: TargetFile) -> Result<Option<Self>, ElfError> {
        let elf = Elf::open(&file)?;
        let mut layers = Vec::new();
        for layer in Layer::ALL {
            if implements(&elf, layer)? {
                layers.push(layer);
            }
        }
        if layers.is_empty() {
            return Ok(None);
        }
        let (mut candidates, mut missing, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        let ids = ApiId::all().filter_map(|id| Some((id, id.api()?)));
        for (id, api) in ids.filter(|(_, api)| layers.contains(&api.layer)) {
            for name in api.symbols {
                match elf.function(name) {
                    Ok(Some(symbol)) if symbol.indirect => refused.push((*name, Refusal::Indirect)),
                    Ok(Some(symbol)) => candidates.push(Candidate {
                        api: id,
                        name,
                        symbol,
                    }),
                    Ok(None) => missing.push(*name),
                    Err(error) => refused.push((*name, Refusal::Elf(error))),
                }
            }
        }
        // Only the runtime of CUDA 12 has this function; what changed its arguments with CUDA 13
        // came with 12.8.
        let before_13 = elf.function("cudaGetDeviceProperties_v2")?.is_some();
        let points = place(&candidates, before_13, &mut refused);
        let start = elf
            .function("cuInit")
            .ok()
            .flatten()
            .and_then(|symbol| start(&symbol));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (soname, build_id) = (elf.soname()?.map(text), elf.build_id()?);
        Ok(Some(Self {
            file,
            layers,
            points,
            start,
            missing,
            refused,
            soname,
            build_id,
        }))
    }

    /// Whether a file has functions of the runtime or the driver.
    pub(super) fn is_cuda(elf: &Elf<'_>) -> Result<bool, ElfError> {
        Ok(implements(elf, Layer::Runtime)? || implements(elf, Layer::Driver)?)
    }

    /// Which content the file has.
    pub const fn identity(&self) -> FileIdentity {
        self.file.identity()
    }

    /// The fact for the recording: `path` as the process that maps the file sees it, `traced`
    /// tells which functions are traced.
    pub fn fact(&self, path: &Path, traced: impl Fn(ApiId) -> bool) -> fact::Module {
        let probes = self.points.iter().filter(|point| traced(point.api));
        fact::Module {
            path: path.to_string_lossy().into_owned(),
            dev: self.identity().device,
            inode: self.identity().inode,
            build_id: self.build_id.clone(),
            probes: probes.map(|point| point.symbol.to_owned()).collect(),
            missing: self.missing.iter().map(|name| (*name).to_owned()).collect(),
            refused: self
                .refused
                .iter()
                .map(|(name, refusal)| ((*name).to_owned(), refusal.to_string()))
                .collect(),
        }
    }
}

/// Where in the file a function can be probed at its entry.
fn start(symbol: &Symbol) -> Option<u64> {
    let placement = prologue::place(&symbol.first_bytes, symbol.address, Moment::Entry).ok()?;
    (!symbol.indirect).then(|| symbol.file_offset + placement.offset)
}

fn implements(elf: &Elf<'_>, layer: Layer) -> Result<bool, ElfError> {
    for name in sentinels(layer) {
        if elf.function(name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One probe for each piece of code, so that no call is counted twice.
fn place(
    candidates: &[Candidate],
    before_13: bool,
    refused: &mut Vec<(&'static str, Refusal)>,
) -> Vec<ProbePoint> {
    let mut owners = HashMap::new();
    for candidate in candidates {
        owners
            .entry(candidate.symbol.address)
            .or_insert(candidate.name);
    }
    let mut points = Vec::new();
    for candidate in candidates {
        match point(candidate, before_13, &owners) {
            Ok(point) => points.extend(point),
            Err(refusal) => refused.push((candidate.name, refusal)),
        }
    }
    points
}

fn point(
    candidate: &Candidate,
    before_13: bool,
    owners: &HashMap<u64, &'static str>,
) -> Result<Option<ProbePoint>, Refusal> {
    let Candidate {
        api: id,
        name,
        symbol,
    } = candidate;
    let owner = owners
        .get(&symbol.address)
        .copied()
        .filter(|owner| owner != name);
    if let Some(owner) = owner {
        return Err(Refusal::SameCode(owner));
    }
    let Some(api) = id.api() else { return Ok(None) };
    // Runtime and driver functions may be probed at return as well, at the same place.
    let moment = match api.layer {
        Layer::Runtime | Layer::Driver => Moment::Return,
        Layer::Torch => Moment::Entry,
    };
    let placement = prologue::place(&symbol.first_bytes, symbol.address, moment)?;
    let target = placement
        .jumps_to
        .and_then(|address| owners.get(&address).copied());
    if let Some(target) = target.filter(|target| target != name) {
        return Err(Refusal::JumpsTo(target));
    }
    let offset = placement.offset;
    let file = SiteFile {
        text_before: symbol.text_before + offset,
        text_after: symbol.text_after - offset,
        before_13,
    };
    Ok(Site::new(*id, name, file).map(|site| ProbePoint {
        api: *id,
        symbol: name,
        offset: symbol.file_offset + offset,
        emulated: placement.emulated,
        site,
    }))
}
