//! What to do next, with the names of the PyTorch at hand.

use serde::Serialize;

use super::facts::Facts;
use super::verdict::Verdict;

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextStep {
    /// What to do.
    pub text: String,
    /// The allocator setting that helps; null: none does.
    pub setting: Option<Setting>,
}

/// A setting in an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The variable.
    pub variable: &'static str,
    /// Whether the message, or the snapshot, names it; otherwise it is that of PyTorch 2.10 and
    /// later, and `PYTORCH_CUDA_ALLOC_CONF` before.
    pub named: bool,
    /// Its value.
    pub value: &'static str,
}

pub(super) fn next_step(verdict: Verdict, facts: &Facts) -> NextStep {
    let setting = |value| Setting {
        variable: match facts.variable {
            Some(variable) => variable,
            None if facts.is_old() => "PYTORCH_CUDA_ALLOC_CONF",
            None => "PYTORCH_ALLOC_CONF",
        },
        named: facts.variable.is_some() || facts.is_old(),
        value,
    };
    let only = |text: &str| NextStep {
        text: text.to_owned(),
        setting: None,
    };
    match verdict {
        Verdict::Capacity => only(
            "Hold less: a smaller batch or sequence, quantized weights, offloading, or more GPUs \
             (tensor parallel). `cudasnoop snapshot` shows who holds what",
        ),
        Verdict::Fragmentation => fragmentation(facts, setting),
        Verdict::OtherProcess => {
            let pids: Vec<String> = facts
                .others
                .iter()
                .take(8)
                .map(|(pid, _)| pid.to_string())
                .collect();
            NextStep {
                text: if pids.is_empty() {
                    "Find who else uses the device (nvidia-smi, on the host) and end it, or choose \
                     another with CUDA_VISIBLE_DEVICES"
                        .to_owned()
                } else {
                    format!(
                        "End process {} if it is not wanted (an orphan of a server that was \
                         killed keeps its memory), or choose another device with \
                         CUDA_VISIBLE_DEVICES",
                        pids.join(", ")
                    )
                },
                setting: None,
            }
        }
        Verdict::Limit => only(
            "Raise the limit: torch.cuda.set_per_process_memory_fraction(), or \
             per_process_memory_fraction in the allocator's settings",
        ),
        Verdict::PendingFree => only(
            "Catch the error, call torch.cuda.synchronize() and try again; free tensors earlier \
             that other streams use (record_stream)",
        ),
        Verdict::HostSpill => only(
            "Hold less, and forbid the driver to spill (Windows: NVIDIA Control Panel, CUDA - \
             Sysmem Fallback Policy: Prefer No Sysmem Fallback), so that this shows early",
        ),
        Verdict::GraphMemory => only(
            "Capture fewer or smaller CUDA graphs, let them share a pool, or capture none (vLLM: \
             cudagraph_capture_sizes, --enforce-eager)",
        ),
        Verdict::Unknown => only(
            "Run it again under `cudasnoop record`, or with a snapshot \
             (torch.cuda.memory._record_memory_history, _dump_snapshot), and give these to \
             `cudasnoop oom` too",
        ),
    }
}

fn fragmentation(facts: &Facts, setting: impl Fn(&'static str) -> Setting) -> NextStep {
    if facts.is_expandable == Some(true) {
        return NextStep {
            text: "Segments can grow already: free what pins them (`cudasnoop snapshot` names \
                   it), or keep streams and pools together"
                .to_owned(),
            setting: None,
        };
    }
    if facts.is_old() {
        return NextStep {
            text: if facts.advises_split_size {
                "Do not split large blocks; PyTorch 2.1 and later can let segments grow instead \
                 (expandable_segments:True)"
                    .to_owned()
            } else {
                "Use PyTorch 2.1 or later with expandable_segments:True; this one may not know \
                 the setting (1.10 and later do)"
                    .to_owned()
            },
            setting: Some(setting("max_split_size_mb:128")),
        };
    }
    NextStep {
        text: "Let segments grow instead of leaving gaps (not together with vLLM's sleep mode)"
            .to_owned(),
        setting: Some(setting("expandable_segments:True")),
    }
}
