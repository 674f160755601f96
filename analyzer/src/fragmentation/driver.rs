//! What a process holds from the driver, and which of it is page waste.

use std::collections::BTreeMap;

use ledger::{Device, Limits, MemoryKind, Process, Ranged};

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
#[derive(Debug)]
struct Page {
    number: u64,
    bytes: u64,
    parts: Vec<(Group, u64)>,
}

impl Page {
    /// Charges the unused bytes of the page to the blocks on it, in proportion to their bytes.
    fn charge(&mut self, shares: &mut BTreeMap<Group, Share>) {
        let used: u64 = self.parts.iter().map(|&(_, bytes)| bytes).sum();
        let waste = self.bytes.saturating_sub(used);
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
    limits: &Limits,
    caller: impl Fn(u32) -> Option<String>,
) -> Driver {
    let mut shares: BTreeMap<Group, Share> = BTreeMap::new();
    let page_bytes = limits.page_bytes.get();
    let mut page = Page {
        number: 0,
        bytes: page_bytes,
        parts: Vec::new(),
    };
    for block in process
        .blocks()
        .iter()
        .filter(|block| block.device() == ordinal && block.kind().is_own_device_memory())
    {
        let range = block.range();
        let page_bytes = limits.page_of(block.kind()).get();
        let group = (block.origin.caller, size_class(range.size()));
        let share = shares.entry(group).or_default();
        share.blocks += 1;
        share.live += range.size();
        // Blocks come by address. Of a block's pages, only the first and the last can have
        // room for others or for waste.
        let (first, last) = (range.start() / page_bytes, (range.end() - 1) / page_bytes);
        for number in [first, last] {
            if (number, page_bytes) != (page.number, page.bytes) {
                page.charge(&mut shares);
                (page.number, page.bytes) = (number, page_bytes);
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
    page.charge(&mut shares);
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
    // Where these lie, nobody knows: small ones share pages, as tightly as can be.
    let mut shared = Vec::new();
    for (origin, size) in arrays.chain(physical) {
        let size = size.unwrap_or(0);
        let group = (origin.caller, size_class(size));
        let share = shares.entry(group).or_default();
        share.blocks += 1;
        share.live = share.live.saturating_add(size);
        if size < page_bytes {
            shared.push((group, size));
        } else {
            let whole = size.checked_next_multiple_of(page_bytes).unwrap_or(size);
            share.waste = share.waste.saturating_add(whole - size);
        }
    }
    let bytes: u64 = shared.iter().map(|&(_, size)| size).sum();
    Page {
        number: 0,
        bytes: bytes.next_multiple_of(page_bytes),
        parts: shared,
    }
    .charge(&mut shares);
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
        pool_page_bytes: limits.pool_page_bytes.get(),
        pool_live_bytes: device.of_kind(MemoryKind::Pool).bytes,
        held_by,
    }
}
