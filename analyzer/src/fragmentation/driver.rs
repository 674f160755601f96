//! What a process holds from the driver, and which of it is page waste.

use std::collections::BTreeMap;

use ledger::{Device, MemoryKind, Process, Ranged};

use super::report::{Driver, HeldBy};

/// Who a block is counted with: its caller's id and its size class.
type Group = (Option<u32>, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    blocks: u64,
    live: u64,
    waste: u64,
}

/// The blocks that touch one page, and with how many bytes.
#[derive(Debug, Default)]
struct Page {
    number: u64,
    parts: Vec<(Group, u64)>,
}

impl Page {
    /// Charges the unused bytes of the page to the blocks on it, in proportion to their bytes.
    fn charge(&mut self, page_bytes: u64, shares: &mut BTreeMap<Group, Share>) {
        let used: u64 = self.parts.iter().map(|&(_, bytes)| bytes).sum();
        let waste = page_bytes.saturating_sub(used);
        let mut left = waste;
        let last = self.parts.len().saturating_sub(1);
        for (index, (group, bytes)) in self.parts.drain(..).enumerate() {
            let proportion = u128::from(waste) * u128::from(bytes) / u128::from(used.max(1));
            let part = if index == last {
                left
            } else {
                u64::try_from(proportion).unwrap_or(left)
            };
            left -= part;
            shares.entry(group).or_default().waste += part;
        }
    }
}

/// The smallest power of two that is not below `size`.
fn size_class(size: u64) -> u64 {
    size.checked_next_power_of_two().unwrap_or(u64::MAX)
}

/// The state of `device`, known as `ordinal`, of `process`. `caller` names a caller id.
pub(super) fn report(
    process: &Process,
    ordinal: Option<i32>,
    device: &Device,
    page_bytes: u64,
    caller: impl Fn(u32) -> Option<String>,
) -> Driver {
    let mut shares: BTreeMap<Group, Share> = BTreeMap::new();
    let mut page = Page::default();
    for block in process
        .blocks()
        .iter()
        .filter(|block| block.device() == ordinal && block.kind().is_own_device_memory())
    {
        let range = block.range();
        let group = (block.origin.caller, size_class(range.size()));
        let share = shares.entry(group).or_default();
        share.blocks += 1;
        share.live += range.size();
        // Blocks come by address. Of a block's pages, only the first and the last can have
        // room for others or for waste.
        let (first, last) = (range.start() / page_bytes, (range.end() - 1) / page_bytes);
        for number in [first, last] {
            if number != page.number {
                page.charge(page_bytes, &mut shares);
                page.number = number;
            }
            let start = range.start().max(number * page_bytes);
            let end = range
                .end()
                .min((number * page_bytes).saturating_add(page_bytes));
            page.parts.push((group, end - start));
            if first == last {
                break;
            }
        }
    }
    page.charge(page_bytes, &mut shares);
    let arrays = process
        .arrays()
        .filter(|array| array.device() == ordinal)
        .map(|array| (&array.origin, array.size));
    let physical = process
        .vmm()
        .physical()
        .filter(|physical| physical.device() == ordinal)
        .filter(|physical| physical.kind() == Some(MemoryKind::Vmm))
        .map(|physical| (&physical.origin, physical.size));
    for (origin, size) in arrays.chain(physical) {
        let size = size.unwrap_or(0);
        let whole = size.checked_next_multiple_of(page_bytes).unwrap_or(size);
        let share = shares.entry((origin.caller, size_class(size))).or_default();
        share.blocks += 1;
        share.live = share.live.saturating_add(size);
        share.waste = share.waste.saturating_add(whole - size);
    }
    let mut held_by: Vec<HeldBy> = shares
        .into_iter()
        .map(
            |(
                (id, size_class_bytes),
                Share {
                    blocks,
                    live,
                    waste,
                },
            )| HeldBy {
                caller: id.and_then(&caller),
                size_class_bytes,
                blocks,
                live_bytes: live,
                waste_bytes: waste,
            },
        )
        .collect();
    held_by.sort_by_key(|held| std::cmp::Reverse((held.waste_bytes, held.live_bytes)));
    Driver {
        blocks: device.live().count,
        live_bytes: device.live().bytes,
        held_bytes: device.held_bytes(),
        waste_bytes: device.waste_bytes(),
        page_bytes,
        held_by,
    }
}
