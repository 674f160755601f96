//! Memory that is held and cannot be used: inside PyTorch's segments, and inside pages.

use std::collections::BTreeMap;

use serde_json::Number;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::fragmentation::{Device, Driver, Pinned, Process, Strand, Torch};
use crate::text::{bytes, count, counted, duration, percent};

/// Fewer bytes are no matter.
const FEWEST_BYTES: u64 = 64 << 20;

/// Nor is a smaller share of what is reserved.
const SHARE_PERCENT: u64 = 10;

/// From this share on, what lies free beside live blocks is worth a note.
const UNUSED_PERCENT: u64 = 25;

/// From this share of what pages hold on, waste is worth a warning.
const WASTE_PERCENT: u64 = 20;

/// Most groups that are named.
const GROUPS: usize = 3;

const EXPANDABLE: &str = "PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF \
                          before PyTorch 2.10)";

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let report = figures.report;
    let is_lossy = report.recording.lost.any() == Some(true);
    of_processes(&report.fragmentation, is_lossy)
}

/// What the state of these processes means.
pub(super) fn of_processes(processes: &[Process], is_lossy: bool) -> Vec<Finding> {
    let devices = processes.iter().flat_map(|process| {
        let devices = process.devices.iter();
        devices.map(move |device| (process, device))
    });
    devices
        .flat_map(|(process, device)| {
            let about = About {
                process,
                device,
                is_lossy,
            };
            let mut found = Vec::new();
            if let Some(torch) = &device.torch {
                found.extend(about.pinned(torch));
                found.extend(about.strands(torch));
                if found.is_empty() {
                    found.extend(about.unused(torch));
                }
            }
            found.extend(
                device
                    .driver
                    .as_ref()
                    .and_then(|driver| about.pages(driver)),
            );
            found
        })
        .collect()
}

struct About<'a> {
    process: &'a Process,
    device: &'a Device,
    is_lossy: bool,
}

impl About<'_> {
    /// Segments that few live bytes keep from being given back.
    fn pinned(&self, torch: &Torch) -> Option<Finding> {
        let Pinned {
            segments,
            reserved,
            allocated,
            free,
            expandable_would_free,
            blocks,
            oldest_age_ns,
        } = torch.pinned;
        let share = percent(free, torch.reserved);
        if free < FEWEST_BYTES || share < SHARE_PERCENT {
            return None;
        }
        let oldest = oldest_age_ns.map_or_else(String::new, |age| {
            format!(", the oldest for {}", duration(age))
        });
        let expandable = if expandable_would_free > 0 {
            format!(
                "Or {EXPANDABLE}: it gives back what is free around a block, about {} here;",
                bytes(expandable_would_free)
            )
        } else {
            "expandable_segments:True gives back pieces of 20 MiB, of which none is wholly free \
             here;"
                .to_owned()
        };
        let numbers = [
            ("pinned_segments", segments),
            ("pinned_reserved_bytes", reserved),
            ("pinned_live_bytes", allocated),
            ("pinned_free_bytes", free),
            ("reserved_bytes", torch.reserved),
            ("expandable_would_free_bytes", expandable_would_free),
        ];
        Some(self.finding(
            "pinned_segments",
            Severity::Warning,
            format!(
                "{} of PyTorch's memory ({}) cannot be given back: {} of live blocks pin {}.",
                bytes(free),
                self.whose(),
                bytes(allocated),
                counted(segments, "segment")
            ),
            &numbers,
            vec![self.at(format!(
                "{} in {} of {} ({share} % of all reserved){oldest}; `fragmentation` lists them by \
                 size, age and address",
                counted(blocks, "live block"),
                counted(segments, "segment"),
                bytes(reserved)
            ))],
            vec![
                "Which tensors these are: a snapshot (torch.cuda.memory._dump_snapshot) names the \
                 lines of code."
                    .to_owned(),
            ],
            format!(
                "Make long-lived tensors before the large short-lived ones, so that they get \
                 segments of their own. {expandable} garbage_collection_threshold frees whole \
                 segments only, and would not help."
            ),
            self.of_map(torch),
        ))
    }

    /// Free blocks that no request fits.
    fn strands(&self, torch: &Torch) -> Option<Finding> {
        let total = torch
            .strands
            .iter()
            .map(|strand| strand.total)
            .fold(0, u64::saturating_add);
        let first = *torch.strands.first()?;
        let Strand {
            size,
            blocks,
            requests,
            fitting_requests,
            beside_size,
            ..
        } = first;
        if total < FEWEST_BYTES || percent(total, torch.reserved) < SHARE_PERCENT {
            return None;
        }
        // Larger blocks are not split then; 20 MiB is the least that PyTorch takes.
        let split = 20;
        let fits = match fitting_requests {
            0 => "no request ever fits".to_owned(),
            fitting => format!(
                "only {} of {} requests fit",
                count(fitting),
                count(requests)
            ),
        };
        let size_of = |size: Option<u64>| size.map_or_else(|| "unknown".to_owned(), bytes);
        let numbers = [
            ("stranded_bytes", total),
            ("remainder_bytes", size),
            ("remainders", blocks),
            ("requests", requests),
            ("fitting_requests", fitting_requests),
            ("reserved_bytes", torch.reserved),
            ("max_split_size_would_free_bytes", total),
        ];
        let evidence = torch.strands.iter().take(GROUPS).map(|strand| {
            self.at(format!(
                "{} of {} = {}, beside blocks of {} in segments of {}",
                counted(strand.blocks, "free block"),
                bytes(strand.size),
                bytes(strand.total),
                size_of(strand.beside_size),
                size_of(strand.segment_size)
            ))
        });
        Some(self.finding(
            "stranded",
            Severity::Warning,
            format!(
                "Split remainders of {} x {} = {} lie idle ({}): {fits}.",
                bytes(size),
                count(blocks),
                bytes(first.total),
                self.whose()
            ),
            &numbers,
            evidence.collect(),
            vec![
                "Sizes before rounding, and requests to come: a smaller one could still use them."
                    .to_owned(),
            ],
            format!(
                "Blocks of {} were cut out of larger ones for requests of {}. With \
                 PYTORCH_ALLOC_CONF=max_split_size_mb:{split} (PYTORCH_CUDA_ALLOC_CONF before PyTorch \
                 2.10) larger blocks stay whole and go back to the device: about {} here. \
                 expandable_segments:True helps as well.",
                bytes(size),
                size_of(beside_size),
                bytes(total)
            ),
            self.of_map(torch),
        ))
    }

    /// Much that is free beside live blocks, for no one reason.
    fn unused(&self, torch: &Torch) -> Option<Finding> {
        let would_free = torch.expandable_would_free;
        let share = percent(would_free, torch.reserved);
        if would_free < FEWEST_BYTES * 4 || share < UNUSED_PERCENT {
            return None;
        }
        let numbers = [
            ("expandable_would_free_bytes", would_free),
            ("unused_bytes", torch.unused),
            ("releasable_bytes", torch.releasable),
            ("reserved_bytes", torch.reserved),
            ("largest_free_bytes", torch.largest_free),
        ];
        Some(self.finding(
            "partly_free_segments",
            Severity::Info,
            format!(
                "{} ({share} % of what PyTorch reserved, {}) lies free beside live blocks, in segments \
                 that cannot shrink.",
                bytes(would_free),
                self.whose()
            ),
            &numbers,
            vec![self.at(format!(
                "unused {}, the largest free block {}, wholly free segments {}",
                bytes(torch.unused),
                bytes(torch.largest_free),
                bytes(torch.releasable)
            ))],
            vec![
                "Whether the program needs it again at once: between two steps that is normal."
                    .to_owned(),
            ],
            format!(
                "If the device runs short: {EXPANDABLE}; it could give back about {} at this moment.",
                bytes(would_free)
            ),
            self.of_map(torch),
        ))
    }

    /// Pages that are held for a part of them.
    fn pages(&self, driver: &Driver) -> Option<Finding> {
        let Driver {
            live_bytes,
            held_bytes,
            waste_bytes,
            page_bytes,
            pool_page_bytes,
            pool_live_bytes,
            ..
        } = *driver;
        let share = percent(waste_bytes, held_bytes);
        if waste_bytes < FEWEST_BYTES || share < WASTE_PERCENT {
            return None;
        }
        let packed = live_bytes
            .checked_next_multiple_of(page_bytes.max(1))
            .unwrap_or(live_bytes);
        let would_free = held_bytes.saturating_sub(packed);
        let groups = driver.held_by.iter().filter(|held| held.waste_bytes > 0);
        let evidence = groups.take(GROUPS).map(|held| Evidence {
            caller: held.caller.clone(),
            ..self.at(format!(
                "{} of up to {}: {} live, {} wasted",
                counted(held.blocks, "block"),
                bytes(held.size_class_bytes),
                bytes(held.live_bytes),
                bytes(held.waste_bytes)
            ))
        });
        let pools = if pool_live_bytes > 0 {
            format!(", memory pools in pieces of {}", bytes(pool_page_bytes))
        } else {
            String::new()
        };
        let numbers = [
            ("waste_bytes", waste_bytes),
            ("held_bytes", held_bytes),
            ("live_bytes", live_bytes),
            ("page_bytes", page_bytes),
            ("packing_would_free_bytes", would_free),
        ];
        Some(self.finding(
            "page_waste",
            Severity::Warning,
            format!(
                "{share} % of the device memory from the driver ({}) is waste: {} live keep {}.",
                self.whose(),
                bytes(live_bytes),
                bytes(held_bytes)
            ),
            &numbers,
            evidence.collect(),
            vec![
                "Which blocks share which page of the device: it is computed from their addresses."
                    .to_owned(),
            ],
            format!(
                "The device gives out pages of {}{pools}; a page comes back with the last block on it. \
                 Take such blocks from one large allocation (a caching allocator, an arena) and free \
                 them together; packed, they would hold {} less.",
                bytes(page_bytes),
                bytes(would_free)
            ),
            self.of_process(),
        ))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a finding")]
    fn finding(
        &self,
        kind: &str,
        severity: Severity,
        claim: String,
        numbers: &[(&'static str, u64)],
        evidence: Vec<Evidence>,
        mut unknowns: Vec<String>,
        next_step: String,
        confidence: Confidence,
    ) -> Finding {
        let device = self.device.device;
        let ordinal = device.map_or_else(|| "unknown".to_owned(), |device| device.to_string());
        if self.process.late_start.is_some() {
            unknowns.push("What was allocated before tracing began.".to_owned());
        }
        Finding {
            id: format!("fragmentation.{kind}:{}:{ordinal}", self.process.pid),
            family: Family::Fragmentation,
            severity,
            claim,
            numbers: numbers
                .iter()
                .map(|(key, value)| (*key, Number::from(*value)))
                .collect::<BTreeMap<_, _>>(),
            confidence,
            evidence,
            unknowns,
            next_step,
        }
    }

    fn whose(&self) -> String {
        let pid = self.process.pid;
        match self.device.device {
            Some(device) => format!("process {pid}, device {device}"),
            None => format!("process {pid}, device unknown"),
        }
    }

    fn at(&self, what: String) -> Evidence {
        Evidence {
            pid: Some(self.process.pid),
            device: self.device.device,
            to_ns: Some(self.process.at_ns),
            ..Evidence::new(what)
        }
    }

    fn of_process(&self) -> Confidence {
        if self.is_lossy || self.process.gaps > 0 || self.process.late_start.is_some() {
            Confidence::Low
        } else {
            Confidence::High
        }
    }

    fn of_map(&self, torch: &Torch) -> Confidence {
        if torch.map.complete {
            self.of_process()
        } else {
            Confidence::Low
        }
    }
}
