//! `cuInit`, which comes before everything else: here a process that has its libraries, and had
//! no use for them, begins to use CUDA.

use agent_common::RecordKind;
use aya_ebpf::{helpers::bpf_get_current_pid_tgid, macros::uprobe, programs::ProbeContext};

use crate::{
    config,
    hit::{self, is_traced, now},
    ids::Ids,
    maps::STARTED,
    tasks::emit,
};

#[inline(always)]
fn start_entry() -> Option<()> {
    let traced = is_traced(hit::tgid(bpf_get_current_pid_tgid()));
    // It may be chosen in a moment.
    if !traced && config::tell_of_starts() == 0 {
        return None;
    }
    let ids = Ids::current();
    // SAFETY: only presence is asked for. Each copy of the runtime in a process calls it.
    if !ids.known || unsafe { STARTED.get(&ids.pid) }.is_some() {
        return None;
    }
    let _ = STARTED.insert(&ids.pid, &now(), 0);
    if traced {
        emit(RecordKind::CudaStarted, &ids, 0);
    }
    None
}

/// For multi links alone: single uprobes are few, and have no idle ones to spare.
#[uprobe(multi)]
pub(crate) fn start_entry_multi(_ctx: ProbeContext) -> u32 {
    let _ = start_entry();
    0
}
