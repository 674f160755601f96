//! What an earlier run left: the state at the end of its last segment.

use std::{fs::File, io, path::Path};

use agent_common::ApiId;
use ledger::{Ledger, concerns_memory};
use trace::{Event, Fact, Reader, fact};

use super::{folder::Folder, standing::Standing};

/// Segments that are looked at, the newest first: one whose header was not written whole tells
/// nothing, and has no events.
const LOOK_AT: usize = 3;

/// The state that an earlier run ended with.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    pub(super) ledger: Ledger,
    pub(super) standing: Standing,
    /// The first `seq` that is free.
    pub(super) next_seq: u64,
    pub(super) events: u64,
    /// The boot whose clocks these are.
    pub(super) boot_id: String,
    /// The last moment that is known of, ns of `CLOCK_MONOTONIC`.
    pub(super) last_moment: u64,
}

/// Reads the last segment that says something; `None` where there is none.
pub(super) fn read(folder: &Folder) -> Option<Resumed> {
    for segment in folder.segments().rev().take(LOOK_AT) {
        let path = folder.path_of(&segment.name);
        match read_segment(&path) {
            Ok(Some(resumed)) => return Some(resumed),
            Ok(None) => tracing::debug!("{} has no whole header", path.display()),
            Err(error) => tracing::warn!("{} cannot be gone on from: {error}", path.display()),
        }
    }
    None
}

fn read_segment(path: &Path) -> Result<Option<Resumed>, trace::ReadError> {
    let file = File::open(path).map_err(|source| trace::ReadError::Io { at: 0, source })?;
    let mut resumed = Resumed::default();
    let mut place = None;
    let mut in_header = true;
    for batch in Reader::new(io::BufReader::new(file))? {
        let batch = batch?;
        for row in 0..batch.len() {
            let api = batch.api().get(row).and_then(ApiId::api);
            let is_fact = batch.text().get(row).is_some();
            if is_fact || api.is_some_and(|api| concerns_memory(api.effect)) {
                let event = batch.event(row);
                let fact = event.text.as_deref().and_then(Fact::parse);
                if let Some(Fact::Segment(segment)) = &fact {
                    place = Some(segment.clone());
                }
                resumed.apply(&event, fact.as_ref());
                // What a segment begins with ends with the checkpoint.
                if in_header && resumed.ledger.checkpoints() > 0 {
                    in_header = false;
                    resumed.next_seq = batch.seq()[row] + 1;
                    continue;
                }
            }
            let (kernel, caller) = (batch.kernel().get(row), batch.caller().get(row));
            resumed.standing.used(kernel, caller);
            resumed.events += u64::from(!in_header);
            resumed.next_seq = batch.seq()[row] + 1;
            let duration = batch.duration().get(row).unwrap_or(0);
            let end = batch.ts()[row].saturating_add(duration);
            resumed.last_moment = resumed.last_moment.max(end);
        }
    }
    let Some(fact::Segment {
        events_before,
        boot_id,
        ..
    }) = place.filter(|_| !in_header)
    else {
        return Ok(None);
    };
    resumed.events += events_before;
    resumed.boot_id = boot_id;
    Ok(Some(resumed))
}

impl Resumed {
    fn apply(&mut self, event: &Event, fact: Option<&Fact>) {
        self.ledger.apply(event);
        if let Some(fact) = fact {
            self.standing.fact(event, fact);
        }
    }
}
