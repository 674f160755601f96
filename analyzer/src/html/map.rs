//! What memory consists of at one moment: allocations, and segments with the blocks in them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ledger::{CachingAllocator, MemoryKind, Origin, Process, Ranged};

use super::curve::whose;
use super::supplement::{Bar, Cell, Inside, Map, Rest};

/// Most maps of a page.
const MAPS: usize = 24;

/// Most pieces of a map that are bars, the largest ones.
const BARS: usize = 400;

/// Most cells of a map.
const CELLS: usize = 6000;

/// Fewest cells that a segment may have, however many there are.
const FEWEST_CELLS: usize = 12;

/// Maps of a process, one for each device; `caller` names the file of a call site.
pub(super) fn of_process(
    process: &Process,
    now: u64,
    ended: Option<&'static str>,
    is_wanted: impl Fn(Option<i32>) -> bool,
    caller: impl Fn(u32) -> Option<String>,
) -> Vec<Map> {
    if !process.knows_memory() {
        return Vec::new();
    }
    let mut devices: BTreeSet<Option<i32>> = process.devices().keys().copied().collect();
    devices.extend(process.allocators().keys().copied().map(Some));
    devices.retain(|device| is_wanted(*device));
    let maps = devices.into_iter().map(|device| {
        let mut holders = Holders::default();
        let mut holder = |id: Option<u32>| holders.place(caller(id?)?);
        let bars = bars(process, device, now, &mut holder);
        let (bars, rest) = largest(bars);
        Map {
            whose: whose(process, device),
            at_ns: Some(now),
            ended,
            holders: holders.names,
            bars,
            rest,
        }
    });
    maps.filter(|map| !map.bars.is_empty()).collect()
}

/// Sorts maps by their bytes, and drops those for which there is no room; how many these are.
pub(super) fn keep_largest(maps: &mut Vec<Map>) -> u64 {
    maps.sort_by_cached_key(|map| Reverse(map.bytes()));
    let surplus = maps.len().saturating_sub(MAPS);
    maps.truncate(MAPS);
    surplus as u64
}

/// Names, each once.
#[derive(Debug, Default)]
pub(super) struct Holders {
    names: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Holders {
    /// The place of a name; `None`: there are too many.
    pub(super) fn place(&mut self, name: String) -> Option<usize> {
        const NAMES: usize = 1024;
        if let Some(place) = self.places.get(&name) {
            return Some(*place);
        }
        let place = self.names.len();
        (place < NAMES).then(|| {
            self.names.push(name.clone());
            self.places.insert(name, place);
            place
        })
    }

    /// The names, by place.
    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }
}

fn bars(
    process: &Process,
    device: Option<i32>,
    now: u64,
    holder: &mut impl FnMut(Option<u32>) -> Option<usize>,
) -> Vec<Bar> {
    let allocator = device.and_then(|device| process.allocators().get(&device));
    let mut bar =
        |kind: MemoryKind, address: Option<u64>, size: Option<u64>, origin: &Origin| Bar {
            address,
            size,
            kind: kind.name(),
            api: origin.api.api().map(|api| api.name),
            holder: holder(origin.caller),
            age_ns: Some(now.saturating_sub(origin.returned)),
            segment: None,
        };
    let mut bars: Vec<Bar> = Vec::new();
    for block in process
        .blocks()
        .iter()
        .filter(|block| block.device() == device)
    {
        let address = block.range().start();
        let mut bar = bar(block.kind(), Some(address), block.size(), &block.origin);
        let segment = allocator.and_then(|allocator| allocator.segments().get(address));
        bar.segment = allocator
            .zip(segment)
            .map(|(allocator, segment)| inside(allocator, segment, now));
        bars.push(bar);
    }
    for array in process.arrays().filter(|array| array.device() == device) {
        bars.push(bar(MemoryKind::Device, None, array.size, &array.origin));
    }
    // Physical memory inside of a segment is shown as that segment.
    let is_in_segment =
        |range| allocator.is_some_and(|allocator| allocator.segments().containing(range).is_some());
    let mut mapped: BTreeMap<u64, Option<u64>> = BTreeMap::new();
    let mut first_in_segment: BTreeMap<u64, Origin> = BTreeMap::new();
    for mapping in process.vmm().mappings().iter() {
        let range = mapping.range();
        if let Some(physical) = process.vmm().mapped_at(range) {
            let made = physical.origin.at.seq;
            let address = (!is_in_segment(range)).then(|| range.start());
            mapped.insert(made, address);
            if let Some(segment) = allocator.and_then(|torch| torch.segments().containing(range)) {
                let start = segment.range().start();
                first_in_segment.entry(start).or_insert(physical.origin);
            }
        }
    }
    for physical in process
        .vmm()
        .physical()
        .filter(|physical| physical.device() == device)
    {
        let address = match mapped.get(&physical.origin.at.seq) {
            Some(None) => continue,
            Some(Some(address)) => Some(*address),
            None => None,
        };
        if let Some(kind) = physical.kind() {
            bars.push(bar(kind, address, physical.size, &physical.origin));
        }
    }
    let expandable = allocator.into_iter().flat_map(|allocator| {
        let segments = allocator.segments().iter();
        segments.map(move |segment| (allocator, segment))
    });
    for (allocator, segment) in expandable.filter(|(_, segment)| segment.is_expandable) {
        let start = segment.range().start();
        let origin = first_in_segment.get(&start);
        bars.push(Bar {
            address: Some(start),
            size: Some(segment.range().size()),
            kind: MemoryKind::Vmm.name(),
            api: origin
                .and_then(|origin| origin.api.api())
                .map(|api| api.name),
            holder: holder(origin.and_then(|origin| origin.caller)),
            age_ns: Some(now.saturating_sub(segment.at.timestamp)),
            segment: Some(inside(allocator, segment, now)),
        });
    }
    bars
}

fn inside(allocator: &CachingAllocator, segment: &ledger::Segment, now: u64) -> Inside {
    let start = segment.range().start();
    let cells: Vec<Cell> = allocator
        .blocks_in(segment)
        .map(|block| Cell {
            offset: block.range().start().saturating_sub(start),
            size: block.range().size(),
            live: block.range().size(),
            blocks: 1,
            pending: 0,
            age_ns: Some(now.saturating_sub(block.at.timestamp)),
            holder: None,
        })
        .collect();
    Inside {
        pool: Some(segment.pool.name()),
        expandable: segment.is_expandable,
        allocated: live_bytes(&cells),
        blocks: cells.len() as u64,
        cells,
    }
}

/// Of all cells; sizes can be anything, so their sum is at most the most there is.
pub(super) fn live_bytes(cells: &[Cell]) -> u64 {
    let live = cells.iter().map(|cell| cell.live);
    live.fold(0, u64::saturating_add)
}

/// The largest bars, by address, with as many cells as a page has room for; and what is left.
pub(super) fn largest(mut bars: Vec<Bar>) -> (Vec<Bar>, Vec<Rest>) {
    bars.sort_by_key(|bar| Reverse(bar.size));
    let small = bars.split_off(BARS.min(bars.len()));
    let mut rest: BTreeMap<(&'static str, Option<usize>), Rest> = BTreeMap::new();
    for bar in small {
        let entry = rest.entry((bar.kind, bar.holder)).or_insert(Rest {
            kind: bar.kind,
            holder: bar.holder,
            pieces: 0,
            bytes: 0,
        });
        entry.pieces += 1;
        entry.bytes = entry.bytes.saturating_add(bar.size.unwrap_or(0));
    }
    let mut room = CELLS;
    let mut segments: Vec<&mut Inside> = bars
        .iter_mut()
        .filter_map(|bar| bar.segment.as_mut())
        .collect();
    // Whoever needs few leaves room for the others.
    segments.sort_by_key(|segment| segment.cells.len());
    let count = segments.len();
    for (place, segment) in segments.into_iter().enumerate() {
        let share = (room / (count - place)).max(FEWEST_CELLS);
        merge_cells(&mut segment.cells, share);
        room = room.saturating_sub(segment.cells.len());
    }
    bars.sort_by_key(|bar| (bar.address.is_none(), bar.address, Reverse(bar.size)));
    let mut rest: Vec<Rest> = rest.into_values().collect();
    rest.sort_by_key(|rest| Reverse(rest.bytes));
    (bars, rest)
}

/// Makes one cell of neighbours until there are at most `most`: of all, those with the smallest
/// holes between them, so that large holes stay to be seen.
fn merge_cells(cells: &mut Vec<Cell>, most: usize) {
    if cells.len() <= most {
        return;
    }
    let end = |cell: &Cell| cell.offset.saturating_add(cell.size);
    let mut holes: Vec<(u64, usize)> = cells
        .windows(2)
        .map(|pair| pair[1].offset.saturating_sub(end(&pair[0])))
        .zip(1..)
        .collect();
    // The largest ones stay; of equal ones, some all over the segment.
    holes.sort_unstable_by_key(|&(hole, place)| Reverse((hole, place.reverse_bits())));
    let kept: BTreeSet<usize> = holes
        .iter()
        .take(most - 1)
        .map(|&(_, place)| place)
        .collect();
    let mut merged: Vec<Cell> = Vec::with_capacity(most);
    for (place, cell) in std::mem::take(cells).into_iter().enumerate() {
        match merged.last_mut() {
            Some(last) if !kept.contains(&place) => {
                last.size = end(&cell).saturating_sub(last.offset);
                last.live = last.live.saturating_add(cell.live);
                last.blocks += cell.blocks;
                last.pending = last.pending.saturating_add(cell.pending);
                last.age_ns = last.age_ns.max(cell.age_ns);
                last.holder = last.holder.filter(|_| last.holder == cell.holder);
            }
            Some(_) | None => merged.push(cell),
        }
    }
    *cells = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(offset: u64, size: u64) -> Cell {
        Cell {
            offset,
            size,
            live: size,
            blocks: 1,
            pending: 0,
            age_ns: Some(offset),
            holder: None,
        }
    }

    fn bar(size: u64, cells: Option<Vec<Cell>>) -> Bar {
        Bar {
            address: Some(size << 32),
            size: Some(size),
            kind: "device",
            api: None,
            holder: None,
            age_ns: None,
            segment: cells.map(|cells| Inside {
                pool: None,
                expandable: false,
                allocated: 0,
                blocks: cells.len() as u64,
                cells,
            }),
        }
    }

    #[test]
    fn merged_cells_keep_bytes_blocks_and_the_largest_holes() {
        let mut cells: Vec<Cell> = (0..100).map(|n| cell(n * 10 + n / 50 * 500, 8)).collect();
        merge_cells(&mut cells, 2);
        let [first, second] = cells[..] else {
            panic!("{cells:?}")
        };
        assert_eq!(
            (first.offset, first.size, first.live, first.blocks),
            (0, 498, 400, 50)
        );
        assert_eq!(
            (second.offset, second.blocks, second.age_ns),
            (1000, 50, Some(1490))
        );
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let many = (1..=1000).map(|size| bar(size, None)).collect();
        let (bars, rest) = largest(many);
        assert_eq!(bars.len(), BARS);
        assert_eq!(rest.len(), 1);
        let shown: u64 = bars.iter().filter_map(|bar| bar.size).sum();
        assert_eq!(shown + rest[0].bytes, 1000 * 1001 / 2);
        assert_eq!(rest[0].pieces, 600);
    }

    #[test]
    fn a_map_has_so_many_cells_and_no_more() {
        let full = |count| Some((0..count).map(|n| cell(n * 2, 1)).collect());
        let mut many = vec![bar(1 << 20, full(50_000)), bar(1 << 19, full(100))];
        many.extend((0..100).map(|n| bar(n, full(3))));
        let (bars, _) = largest(many);
        let segments = bars.iter().filter_map(|bar| bar.segment.as_ref());
        let cells: usize = segments.map(|segment| segment.cells.len()).sum();
        assert_eq!(cells, CELLS);
        let [.., largest] = &bars[..] else { panic!() };
        let inside = largest.segment.as_ref().expect("a segment");
        assert_eq!(
            inside.cells.iter().map(|cell| cell.blocks).sum::<u64>(),
            50_000
        );
    }
}
