//! The wordings of PyTorch's out-of-memory messages.
//!
//! Old, to PyTorch 2.0, with `cached` (to 1.3: bytes not handed out) or `reserved in total by
//! PyTorch` (all bytes held), and from 1.8 on `allowed`:
//!
//! ```text
//! CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 6.87 GiB
//! already allocated; 10.44 MiB free; 7.00 GiB reserved in total by PyTorch) If reserved ...
//! ```
//!
//! New, from 2.1 on, as sentences:
//!
//! ```text
//! CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.19 GiB of
//! which 39.06 MiB is free. Process 12 has 1.00 GiB memory in use. Including non-PyTorch
//! memory, this process has 78.10 GiB memory in use. 70.00 GiB allowed; Of the allocated memory
//! 72.36 GiB is allocated by PyTorch, with 436.00 MiB allocated in private pools (e.g., CUDA
//! Graphs), and 71.59 MiB is reserved by PyTorch but unallocated. If reserved ...
//! ```

use super::amount::{self, Amount};

/// A process on the device, as a message lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) pid: u64,
    /// `None`: NVML did not tell.
    pub(super) bytes: Option<Amount>,
}

/// Which wording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wording {
    /// No numbers.
    #[default]
    Bare,
    /// In parentheses.
    Old,
    /// As sentences.
    New,
}

/// What a message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) wording: Wording,
    pub(super) device: Option<u32>,
    pub(super) asked: Option<Amount>,
    /// More than any address space.
    pub(super) is_absurd: bool,
    pub(super) total: Option<Amount>,
    pub(super) free: Option<Amount>,
    pub(super) allocated: Option<Amount>,
    pub(super) reserved: Option<Amount>,
    pub(super) unallocated: Option<Amount>,
    pub(super) allowed: Option<Amount>,
    pub(super) private_pools: Option<Amount>,
    /// All that this process holds, PyTorch or not.
    pub(super) this_process: Option<Amount>,
    pub(super) listed: Vec<Listed>,
    pub(super) advises_split_size: bool,
    pub(super) variable: Option<&'static str>,
}

/// Reads a message without blanks.
pub(super) fn parse(text: &str) -> Message {
    let mut message = Message::default();
    let Some((_, rest)) = text.split_once("Triedtoallocate") else {
        return message;
    };
    message.is_absurd = rest.starts_with("morethan1EB");
    message.asked = amount::at_start(rest).map(|(asked, _)| asked);
    message.variable = [
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_HIP_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
    ]
    .into_iter()
    .find(|name| rest.contains(name));
    message.advises_split_size = rest.contains("max_split_size_mb");
    if let Some(start) = rest.find("(GPU") {
        old(&rest[start + 1..], &mut message);
    } else if rest.contains("totalcapac") {
        new(rest, &mut message);
    }
    message
}

/// The size before the first `tag`.
fn before(text: &str, tag: &str) -> Option<Amount> {
    amount::at_end(&text[..text.find(tag)?])
}

fn device(text: &str) -> Option<u32> {
    let number = text.split_once("GPU")?.1;
    let end = number.find(|c: char| !c.is_ascii_digit());
    number[..end.unwrap_or(number.len())].parse().ok()
}

fn old(text: &str, message: &mut Message) {
    let text = text.split_once(')').map_or(text, |(text, _)| text);
    message.wording = Wording::Old;
    message.device = device(text);
    for part in text.split(';') {
        let field = [
            ("totalcapacity", &mut message.total),
            ("alreadyallocated", &mut message.allocated),
            ("free", &mut message.free),
            ("allowed", &mut message.allowed),
            ("cached", &mut message.unallocated),
            ("reservedintotalbyPyTorch", &mut message.reserved),
        ]
        .into_iter()
        .find_map(|(tag, field)| Some((part.strip_suffix(tag)?, field)));
        if let Some((amount, field)) = field {
            *field = amount::at_end(amount);
        }
    }
    let sum = |a: Amount, b: Amount| Amount {
        bytes: a.bytes.saturating_add(b.bytes),
        rounding: a.rounding + b.rounding,
    };
    let difference = |a: Amount, b: Amount| Amount {
        bytes: a.bytes.saturating_sub(b.bytes),
        rounding: a.rounding + b.rounding,
    };
    match (message.allocated, message.reserved, message.unallocated) {
        (Some(allocated), Some(reserved), None) => {
            message.unallocated = Some(difference(reserved, allocated));
        }
        (Some(allocated), None, Some(cached)) => message.reserved = Some(sum(allocated, cached)),
        (_, _, _) => {}
    }
}

fn new(text: &str, message: &mut Message) {
    message.wording = Wording::New;
    message.device = device(text);
    // PyTorch 2.1 writes "capacty".
    message.total = ["totalcapacityof", "totalcapactyof"]
        .iter()
        .find_map(|tag| amount::at_start(text.split_once(tag)?.1))
        .map(|(total, _)| total);
    message.free = before(text, "isfree");
    message.allowed = before(text, "allowed;");
    message.allocated = before(text, "isallocatedbyPyTorch");
    message.private_pools = before(text, "allocatedinprivatepools");
    message.unallocated = before(text, "isreservedbyPyTorchbutunallocated");
    if let (Some(allocated), Some(unallocated)) = (message.allocated, message.unallocated) {
        message.reserved = Some(Amount {
            bytes: allocated.bytes.saturating_add(unallocated.bytes),
            rounding: allocated.rounding + unallocated.rounding,
        });
    }
    for (end, _) in text.match_indices("memoryinuse") {
        let Some(start) = text[..end].rfind("has") else {
            continue;
        };
        let bytes = amount::at_start(&text[start + 3..end]).map(|(amount, _)| amount);
        let who = &text[..start];
        if who.ends_with("thisprocess") || who.ends_with("Thisprocess") {
            message.this_process = bytes;
        } else if let Some(process) = who.rfind("Process")
            && let Ok(pid) = who[process + 7..].parse()
        {
            message.listed.push(Listed { pid, bytes });
        }
    }
}
