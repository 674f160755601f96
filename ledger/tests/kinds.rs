//! Each kind of memory, case by case.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod consistency;

use agent_common::{ApiId, flags};
use consistency::assert_consistent;
use ledger::{HostMemory, Ledger, MemoryKind, Process, Ranged};
use trace::{Event, Fact, Kind, fact};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;
const ONE: u32 = 1;
const TWO: u32 = 2;

/// A ledger that is told row by row.
#[derive(Default)]
struct Story {
    ledger: Ledger,
    seq: u64,
}

impl Story {
    /// Process 1, traced from its start.
    fn new() -> Self {
        let mut story = Self::default();
        story.introduce(ONE);
        story
    }

    fn introduce(&mut self, pid: u32) {
        let fact = Fact::Process(fact::Process {
            pid,
            start_time: 7,
            from_start: true,
            ..fact::Process::default()
        });
        self.row(Event {
            pid,
            kind: Kind::Fact,
            text: Some(fact.to_text()),
            ..Event::default()
        });
    }

    fn row(&mut self, event: Event) {
        self.seq += 1;
        self.ledger.apply(&Event {
            seq: self.seq,
            timestamp: self.seq * 1000,
            ..event
        });
    }

    fn call(&mut self, api: &str, event: Event) {
        self.row(Event {
            api: Some(ApiId::by_name(api).unwrap()),
            kind: Kind::Call,
            result: Some(event.result.unwrap_or(0)),
            duration: Some(100),
            tid: 1,
            ..event
        });
    }

    /// Both rows of a call that gives something back.
    fn back(&mut self, api: &str, event: Event) {
        self.row(Event {
            api: Some(ApiId::by_name(api).unwrap()),
            kind: Kind::Begin,
            tid: 1,
            result: None,
            flags: 0,
            ..event.clone()
        });
        self.call(api, event);
    }

    fn create(&mut self, handle: u64, size: u64, location: u8) {
        self.call(
            "cuMemCreate",
            Event {
                handle: Some(handle),
                location: Some(location),
                location_id: Some(0),
                ..sized(size)
            },
        );
    }

    fn map(&mut self, address: u64, size: u64, handle: u64) {
        self.call(
            "cuMemMap",
            Event {
                handle: Some(handle),
                offset: Some(0),
                ..at(address, size)
            },
        );
    }

    fn unmap(&mut self, address: u64, size: u64) {
        self.back("cuMemUnmap", at(address, size));
    }

    fn release(&mut self, handle: u64) {
        self.back("cuMemRelease", of(handle));
    }

    fn report(&mut self, address: u64, size: i64, totals: (u64, u64)) {
        self.row(Event {
            api: ApiId::by_name("c10::reportMemoryUsageToProfiler"),
            size: Some(size),
            allocated: Some(totals.0),
            reserved: Some(totals.1),
            result: None,
            ..at(address, 0)
        });
    }

    fn process(&self) -> &Process {
        self.ledger.process(ONE).unwrap()
    }

    fn bytes(&self, kind: MemoryKind) -> u64 {
        let devices = self.process().devices().values();
        devices.map(|device| device.of_kind(kind).bytes).sum()
    }

    fn live(&self) -> u64 {
        let device = self.process().devices().get(&Some(0));
        device.map_or(0, |device| device.live().bytes)
    }
}

fn sized(size: u64) -> Event {
    Event {
        pid: ONE,
        device: Some(0),
        size: Some(size.cast_signed()),
        ..Event::default()
    }
}

fn at(address: u64, size: u64) -> Event {
    Event {
        address: Some(address),
        ..sized(size)
    }
}

fn of(handle: u64) -> Event {
    Event {
        handle: Some(handle),
        size: None,
        ..sized(0)
    }
}

#[test]
fn a_reservation_is_no_memory_and_failed_creates_change_nothing() {
    let mut story = Story::new();
    story.call("cuMemAddressReserve", at(A, 90 << 30));
    for _ in 0..144 {
        story.call(
            "cuMemCreate",
            Event {
                result: Some(2),
                location: Some(1),
                ..sized(20 * MIB)
            },
        );
    }
    assert_eq!(story.live(), 0);
    assert_eq!(story.process().vmm().reserved_address_bytes(), 90 << 30);
    let failed = story.process().counters().failed_allocations;
    assert_eq!((failed.count, failed.bytes), (144, 144 * 20 * MIB));
}

#[test]
fn physical_memory_lives_as_long_as_a_handle_or_a_mapping() {
    let mut story = Story::new();
    story.create(0x10, 4 * MIB, 1);
    story.call("cuMemAddressReserve", at(A, 64 * MIB));
    story.map(A, 4 * MIB, 0x10);
    story.map(A + 8 * MIB, 4 * MIB, 0x10);
    story.release(0x10);
    assert_eq!(story.live(), 4 * MIB, "still mapped twice");
    story.unmap(A, 4 * MIB);
    assert_eq!(story.live(), 4 * MIB, "still mapped once");
    // NCCL: retains, and releases around the unmap.
    story.call(
        "cuMemRetainAllocationHandle",
        Event {
            handle: Some(0x10),
            ..at(A + 8 * MIB, 0)
        },
    );
    story.unmap(A + 8 * MIB, 4 * MIB);
    assert_eq!(story.live(), 4 * MIB, "still retained");
    story.release(0x10);
    assert_eq!(story.live(), 0);
    assert_eq!(story.process().ended().freed.count, 1);
    assert_eq!(story.process().counters().unknown_frees, 0);
    // Once too often.
    story.release(0x10);
    assert_eq!(story.process().counters().unknown_frees, 1);
}

#[test]
fn a_failed_release_or_unmap_changes_nothing() {
    let mut story = Story::new();
    story.create(0x10, 4 * MIB, 1);
    let failed = |event: Event| Event {
        result: Some(1),
        ..event
    };
    story.back("cuMemRelease", failed(of(0x10)));
    assert_eq!(story.live(), 4 * MIB);
    story.map(A, 4 * MIB, 0x10);
    story.release(0x10);
    story.back("cuMemUnmap", failed(at(A, 4 * MIB)));
    assert_eq!(story.live(), 4 * MIB);
    story.unmap(A, 4 * MIB);
    assert_eq!(story.live(), 0);
    assert_eq!(story.process().ended().freed.count, 1);
}

#[test]
fn physical_memory_of_the_host_is_host_memory() {
    let mut story = Story::new();
    story.create(0x10, 4 * MIB, 3);
    story.map(A, 4 * MIB, 0x10);
    assert_eq!(story.live(), 0);
    assert_eq!(story.bytes(MemoryKind::PinnedHost), 4 * MIB);
    assert_eq!(
        story.process().host_memory(A + MIB, MIB),
        HostMemory::Pinned
    );
}

/// vLLM: weights and cache go at sleep and come back at wake; PyTorch is not told.
#[test]
fn sleep_and_wake_show_as_physical_bytes_falling_and_returning() {
    let mut story = Story::new();
    let blocks: Vec<u64> = (0..72).map(|n| A + n * 64 * MIB).collect();
    let reserved = 72 * 20 * MIB;
    for (n, &address) in (0x100_u64..).zip(&blocks) {
        story.call("cuMemAddressReserve", at(address, 20 * MIB));
        story.create(n, 20 * MIB, 1);
        story.map(address, 20 * MIB, n);
        let so_far = (n - 0xff) * 20 * MIB;
        story.report(address, 20 << 20, (so_far, so_far));
    }
    for round in 1..=5_u64 {
        assert_eq!(story.live(), reserved);
        for (n, &address) in (round * 0x100..).zip(&blocks) {
            story.unmap(address, 20 * MIB);
            story.release(n);
        }
        assert_eq!(story.live(), 0, "asleep");
        for (n, &address) in (round * 0x100 + 0x100..).zip(&blocks) {
            story.create(n, 20 * MIB, 1);
            story.map(address, 20 * MIB, n);
        }
    }
    let allocator = &story.process().allocators()[&0];
    assert_eq!(allocator.segments().len(), 72);
    assert!(allocator.completeness().is_complete());
    assert_eq!(story.process().ended().lost_free.count, 0);
    let device = &story.process().devices()[&Some(0)];
    assert_eq!(device.peak().bytes, reserved);
}

/// PyTorch with `expandable_segments:True`: one reservation for each pool, mapped piece by piece.
#[test]
fn mapped_pieces_of_a_reservation_are_one_segment_that_grows_and_shrinks() {
    let mut story = Story::new();
    let large = A + (1 << 40);
    story.call("cuMemAddressReserve", at(A, 90 << 30));
    story.call("cuMemAddressReserve", at(large, 90 << 30));
    // The small pool grows by 2 MiB, the large one by 20 MiB.
    for n in 0..2 {
        story.create(0x10 + n, 2 * MIB, 1);
        story.map(A + n * 2 * MIB, 2 * MIB, 0x10 + n);
        story.report(
            A + n * 2 * MIB,
            2 << 20,
            ((n + 1) * 2 * MIB, (n + 1) * 2 * MIB),
        );
    }
    for n in 0..3 {
        story.create(0x20 + n, 20 * MIB, 1);
        story.map(large + n * 20 * MIB, 20 * MIB, 0x20 + n);
    }
    story.report(large, 50 << 20, (54 * MIB, 64 * MIB));
    let segments = |story: &Story| -> Vec<(u64, u64, bool)> {
        let allocator = &story.process().allocators()[&0];
        assert!(allocator.completeness().is_complete());
        let segments = allocator.segments().iter();
        segments
            .map(|one| (one.range().start(), one.range().size(), one.is_expandable))
            .collect()
    };
    assert_eq!(
        segments(&story),
        [(A, 4 * MIB, true), (large, 60 * MIB, true)]
    );
    assert_eq!(story.process().allocators()[&0].largest_free(), 10 * MIB);
    // It grows where the next block does not fit.
    story.create(0x23, 20 * MIB, 1);
    story.map(large + 60 * MIB, 20 * MIB, 0x23);
    story.report(large + 50 * MIB, 25 << 20, (79 * MIB, 84 * MIB));
    assert_eq!(segments(&story)[1], (large, 80 * MIB, true));
    // The first block goes, and what it alone used is unmapped.
    story.report(large, -(50 << 20), (29 * MIB, 84 * MIB));
    for n in 0..2 {
        story.unmap(large + n * 20 * MIB, 20 * MIB);
        story.release(0x20 + n);
    }
    assert_eq!(segments(&story)[1], (large + 40 * MIB, 40 * MIB, true));
    let allocator = &story.process().allocators()[&0];
    assert_eq!(allocator.reserved(), 44 * MIB);
    assert_eq!(allocator.lost_frees().count, 0);
}

/// Events were lost that mapped its next piece: a block that reaches out of it shows that it grew.
#[test]
fn a_segment_whose_growth_was_not_seen_grows_with_its_blocks() {
    let mut story = Story::new();
    story.call("cuMemAddressReserve", at(A, 90 << 30));
    story.create(0x10, 20 * MIB, 1);
    story.map(A, 20 * MIB, 0x10);
    story.report(A, 18 << 20, (18 * MIB, 20 * MIB));
    let segments = |story: &Story| -> Vec<(u64, u64)> {
        assert_consistent(&story.ledger);
        let segments = story.process().allocators()[&0].segments().iter();
        segments
            .map(|segment| (segment.range().start() - A, segment.range().size()))
            .collect()
    };
    story.report(A + 18 * MIB, 6 << 20, (24 * MIB, 40 * MIB));
    assert_eq!(segments(&story), [(0, 24 * MIB)]);
    // The piece after the lost one is seen. A block in both has no segment until one lies in it.
    story.create(0x12, 20 * MIB, 1);
    story.map(A + 40 * MIB, 20 * MIB, 0x12);
    story.report(A + 24 * MIB, 20 << 20, (44 * MIB, 60 * MIB));
    assert_eq!(segments(&story), [(0, 24 * MIB)]);
    story.report(A + 50 * MIB, 2 << 20, (46 * MIB, 60 * MIB));
    assert_eq!(segments(&story), [(0, 24 * MIB), (24 * MIB, 36 * MIB)]);
    assert!(
        story.process().allocators()[&0]
            .completeness()
            .is_complete()
    );
    assert_eq!(story.process().allocators()[&0].lost_frees().count, 0);
}

/// All events were lost that ended it: memory of others at its addresses shows that it is gone.
#[test]
fn a_segment_whose_addresses_are_handed_out_anew_is_gone() {
    let mut story = Story::new();
    story.call("cuMemAddressReserve", at(A, 90 << 30));
    for n in 0..2 {
        story.create(0x10 + n, 20 * MIB, 1);
        story.map(A + n * 20 * MIB, 20 * MIB, 0x10 + n);
        story.release(0x10 + n);
    }
    story.report(A, 30 << 20, (30 * MIB, 40 * MIB));
    story.call("cudaMalloc", at(A + 10 * MIB, 4 * MIB));
    assert_consistent(&story.ledger);
    let allocator = &story.process().allocators()[&0];
    assert_eq!(allocator.segments().len(), 0);
    assert_eq!(allocator.reserved(), 0);
    assert_eq!(allocator.lost_frees().bytes, 30 * MIB);
    // Nothing is known to have ended the second piece.
    assert_eq!(story.live(), 24 * MIB);
}

#[test]
fn frees_may_cross_between_streams_and_not() {
    let mut story = Story::new();
    story.call("cudaMallocAsync", at(A, MIB));
    story.call("cudaMalloc", at(A + 4 * MIB, MIB));
    assert_eq!(
        (story.bytes(MemoryKind::Pool), story.live()),
        (MIB, 2 * MIB)
    );
    story.back("cudaFree", at(A, 0));
    story.back("cudaFreeAsync", at(A + 4 * MIB, 0));
    assert_eq!(story.live(), 0);
    assert_eq!(story.process().ended().freed.count, 2);
    assert_eq!(story.process().counters().unknown_frees, 0);
}

#[test]
fn a_named_pool_knows_its_device_and_what_it_may_keep() {
    let mut story = Story::new();
    story.call(
        "cudaMemPoolCreate",
        Event {
            location: Some(1),
            location_id: Some(3),
            ..of(0x99)
        },
    );
    story.call(
        "cudaMemPoolSetAttribute",
        Event {
            option: Some(4),
            size: Some(-1),
            ..of(0x99)
        },
    );
    story.call(
        "cudaMallocFromPoolAsync",
        Event {
            related: Some(0x99),
            ..at(A, MIB)
        },
    );
    story.call("cudaMemPoolTrimTo", of(0x99));
    let pool = story.process().pools().next().unwrap();
    assert_eq!((pool.live.bytes, pool.trims), (MIB, 1));
    assert_eq!(pool.release_threshold, Some(u64::MAX));
    assert_eq!(story.process().devices()[&Some(3)].live().bytes, MIB);
}

#[test]
fn what_a_captured_stream_allocates_is_its_graphs() {
    let mut story = Story::new();
    let captured = |event: Event| Event {
        stream: Some(5),
        flags: flags::CAPTURED,
        ..event
    };
    story.call("cudaMalloc", at(A + 64 * MIB, MIB));
    story.call("cudaMallocAsync", captured(at(A, 8 * MIB)));
    story.back("cudaFreeAsync", captured(at(A + 64 * MIB, 0)));
    assert_eq!(story.bytes(MemoryKind::Graph), 8 * MIB);
    assert_eq!(story.live(), MIB, "freed when the graph runs");
    assert_eq!(story.process().counters().captured_frees, 1);
    let stream = Some(5);
    story.call("cudaStreamEndCapture", Event { stream, ..of(0x60) });
    let related = Some(0x60);
    story.call(
        "cudaGraphInstantiate",
        Event {
            related,
            ..of(0x61)
        },
    );
    story.call("cudaGraphDestroy", of(0x60));
    assert_eq!(story.bytes(MemoryKind::Graph), 8 * MIB, "it can run");
    story.call("cudaGraphExecDestroy", of(0x61));
    assert_eq!(story.bytes(MemoryKind::Graph), 0);
    assert_eq!(story.process().devices()[&Some(0)].peak().bytes, MIB);
}

#[test]
fn a_block_of_another_process_is_not_owned_and_has_its_size_from_there() {
    let mut story = Story::new();
    story.introduce(TWO);
    story.call("cudaMalloc", at(A, 6 * MIB));
    story.call(
        "cudaIpcGetMemHandle",
        Event {
            handle: Some(0xfeed),
            ..at(A + MIB, 0)
        },
    );
    let theirs = |address, handle| Event {
        pid: TWO,
        handle: Some(handle),
        size: None,
        ..at(address, 0)
    };
    story.call("cudaIpcOpenMemHandle", theirs(A + (1 << 36), 0xfeed));
    story.call("cudaIpcOpenMemHandle", theirs(A + (1 << 36), 0xfeed));
    story.call("cudaIpcOpenMemHandle", theirs(A + (1 << 37), 0xbad));
    let process = |story: &Story| story.ledger.process(TWO).unwrap().clone();
    let device = |story: &Story| process(story).devices()[&Some(0)].clone();
    let ipc = device(&story).of_kind(MemoryKind::Ipc);
    assert_eq!((ipc.count, ipc.bytes), (2, 6 * MIB));
    assert_eq!(device(&story).live().bytes, 0);
    assert_eq!(device(&story).held_bytes(), 0);
    assert_eq!(process(&story).counters().unsized_allocations, 1);
    // Opened twice: closed twice.
    story.back("cudaIpcCloseMemHandle", theirs(A + (1 << 36), 0));
    assert_eq!(device(&story).of_kind(MemoryKind::Ipc).count, 2);
    story.back("cudaIpcCloseMemHandle", theirs(A + (1 << 36), 0));
    story.back("cudaIpcCloseMemHandle", theirs(A + (1 << 37), 0));
    assert_eq!(device(&story).of_kind(MemoryKind::Ipc).count, 0);
    assert_eq!(process(&story).counters().unknown_frees, 0);
}

#[test]
fn imported_memory_is_not_owned() {
    let mut story = Story::new();
    story.call("cuMemImportFromShareableHandle", of(0x40));
    story.map(A, 20 * MIB, 0x40);
    assert_eq!(story.live(), 0);
    assert_eq!(story.bytes(MemoryKind::Ipc), 20 * MIB);
    story.release(0x40);
    story.unmap(A, 20 * MIB);
    assert_eq!(story.bytes(MemoryKind::Ipc), 0);
}

#[test]
fn a_reset_ends_what_lies_on_its_device_and_is_no_leak() {
    let mut story = Story::new();
    for n in 0..3 {
        story.call("cudaMalloc", at(A + n * 4 * MIB, MIB));
    }
    let other = Event {
        device: Some(1),
        ..at(A + 64 * MIB, MIB)
    };
    story.call("cudaMalloc", other);
    story.create(0x10, 4 * MIB, 1);
    story.back("cudaDeviceReset", sized(0));
    assert_eq!(story.live(), 0);
    assert_eq!(story.process().devices()[&Some(1)].live().bytes, MIB);
    let ended = story.process().ended();
    assert_eq!((ended.implicit.count, ended.implicit.bytes), (4, 7 * MIB));
    story.call("cudaMalloc", at(A, MIB));
    assert_eq!(story.live(), MIB);
    assert_eq!(story.process().ended().lost_free.count, 0);
}

#[test]
fn a_made_context_takes_only_its_own_memory_with_it() {
    let mut story = Story::new();
    story.call("cuMemAlloc_v2", at(A, MIB));
    story.call("cuCtxCreate_v2", of(0xc0));
    story.call("cuMemAlloc_v2", at(A + 4 * MIB, MIB));
    story.call("cuCtxPopCurrent_v2", of(0xc0));
    story.call("cuMemAlloc_v2", at(A + 8 * MIB, MIB));
    story.back("cuCtxDestroy_v2", of(0xc0));
    assert_eq!(story.live(), 2 * MIB);
    assert_eq!(story.process().ended().implicit.bytes, MIB);
}

#[test]
fn the_last_reference_to_a_primary_context_ends_it() {
    let mut story = Story::new();
    story.call("cuDevicePrimaryCtxRetain", of(0xc0));
    story.call("cuDevicePrimaryCtxRetain", of(0xc0));
    story.call("cuMemAlloc_v2", at(A, MIB));
    story.back("cuDevicePrimaryCtxRelease_v2", sized(0));
    assert_eq!(story.live(), MIB);
    story.back("cuDevicePrimaryCtxRelease_v2", sized(0));
    assert_eq!(story.live(), 0);
}

#[test]
fn host_memory_is_told_from_what_it_was_made_by() {
    let mut story = Story::new();
    story.call("cudaMallocHost", at(0x1000_0000, MIB));
    story.call("cudaHostRegister", at(0x2000_0000, MIB));
    story.call("cudaMallocManaged", at(0x3000_0000, MIB));
    let of = |story: &Story, address| story.process().host_memory(address, 4096);
    assert_eq!(of(&story, 0x1000_0000 + 4096), HostMemory::Pinned);
    assert_eq!(of(&story, 0x2000_0000), HostMemory::Registered);
    assert_eq!(of(&story, 0x3000_0000), HostMemory::Managed);
    assert_eq!(of(&story, 0x4000_0000), HostMemory::Pageable);
    // Half of it is pinned.
    assert_eq!(of(&story, 0x1000_0000 - 2048), HostMemory::Unknown);
    story.back("cudaFreeHost", at(0x1000_0000, 0));
    story.back("cudaHostUnregister", at(0x2000_0000, 0));
    assert_eq!(of(&story, 0x1000_0000), HostMemory::Pageable);
    assert_eq!(of(&story, 0x2000_0000), HostMemory::Pageable);
    assert_eq!(story.live(), 0);
}

#[test]
fn an_array_is_device_memory_without_an_address() {
    let mut story = Story::new();
    let array = |size| Event { size, ..of(0x70) };
    story.call("cudaMallocArray", array(Some(3 << 20)));
    let device = &story.process().devices()[&Some(0)];
    assert_eq!(
        (device.live().bytes, device.held_bytes()),
        (3 * MIB, 4 * MIB)
    );
    story.back("cudaFreeArray", of(0x70));
    story.call("cudaMallocMipmappedArray", array(None));
    assert_eq!(story.live(), 0);
    assert_eq!(story.process().counters().unsized_allocations, 1);
}

#[test]
fn what_the_driver_says_beyond_what_is_held_is_unattributed() {
    let mut story = Story::new();
    story.create(0x10, 4 * MIB, 1);
    story.call("cudaMallocAsync", at(A, MIB));
    let reading = |free| Event {
        device_free: Some(free),
        device_total: Some(100 * MIB),
        ..sized(0)
    };
    // In use: 46 MiB, of which 4 are physical memory and 32 the piece that the pool took.
    story.call("cudaMemGetInfo", reading(54 * MIB));
    let last = |story: &Story| story.process().devices()[&Some(0)].reading().unwrap();
    assert_eq!(last(&story).unattributed(), Some(10 * MIB));
    // Less in use than is known: no number is made up.
    story.call("cudaMemGetInfo", reading(99 * MIB));
    assert_eq!(last(&story).unattributed(), None);
}

#[test]
fn holders_are_told_by_module_kind_and_size() {
    let mut story = Story::new();
    let by = |caller, event: Event| Event {
        caller: Some(caller),
        ..event
    };
    for n in 0..3 {
        story.call("cudaMalloc", by(1, at(A + n * 4 * MIB, 3 * MIB)));
    }
    story.call(
        "cuMemCreate",
        by(
            2,
            Event {
                location: Some(1),
                location_id: Some(0),
                size: Some(20 << 20),
                ..of(0x10)
            },
        ),
    );
    let holders = story.process().holders(Some(0));
    let told: Vec<_> = holders
        .iter()
        .map(|one| (one.caller, one.kind, one.size_class, one.live.count))
        .collect();
    assert_eq!(
        told,
        [
            (Some(2), MemoryKind::Vmm, 32 * MIB, 1),
            (Some(1), MemoryKind::Device, 4 * MIB, 3)
        ]
    );
}

#[test]
fn a_full_ledger_counts_objects_that_it_cannot_keep() {
    let mut story = Story {
        ledger: Ledger::new(ledger::Limits {
            blocks_per_process: 2,
            objects_per_process: 1,
            ..ledger::Limits::default()
        }),
        seq: 0,
    };
    story.create(0x10, MIB, 1);
    story.create(0x11, MIB, 1);
    story.create(0x12, MIB, 1);
    story.call("cuMemAddressReserve", at(A, 64 * MIB));
    for pool in 0..3 {
        story.call("cudaMemPoolTrimTo", of(0x90 + pool));
    }
    let counters = story.process().counters();
    assert_eq!(
        (counters.untracked.count, counters.untracked.bytes),
        (1, MIB)
    );
    assert_eq!(counters.untracked_mappings, 1);
    assert_eq!(counters.untracked_objects, 2);
}

#[test]
fn contexts_go_through_a_checkpoint() {
    let mut story = Story::new();
    story.call("cuCtxCreate_v2", of(0xc0));
    story.call("cuDevicePrimaryCtxRetain", of(0xc1));
    story.call("cudaMalloc", at(A, 6 * MIB));
    let text = |ledger: &Ledger| -> Vec<String> {
        let facts = ledger.checkpoint();
        facts.iter().map(Fact::to_text).collect()
    };
    let told = text(&story.ledger);
    assert!(told.iter().any(|part| part.contains("contexts")));
    let mut resumed = Ledger::default();
    for part in &told {
        resumed.apply(&Event {
            kind: Kind::Fact,
            text: Some(part.clone()),
            ..Event::default()
        });
    }
    assert_eq!(resumed.damaged_checkpoints(), 0);
    assert_eq!(text(&resumed), told);
}

/// What a checkpoint looks like: others read it.
#[test]
fn a_checkpoint_is_as_documented() {
    let mut story = Story::new();
    story.call("cudaMalloc", at(A, 6 * MIB));
    story.call("cuMemAddressReserve", at(A + (1 << 36), 64 * MIB));
    story.create(0x10, 4 * MIB, 1);
    story.map(A + (1 << 36), 4 * MIB, 0x10);
    story.report(A, 512, (512, 6 * MIB));
    let facts = story.ledger.checkpoint();
    let text: String = facts.iter().map(|fact| fact.to_text() + "\n").collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/checkpoint.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap_or_default());
}

/// Contexts are kept by device and by thread, which JSON has no keys for.
#[test]
fn contexts_come_through_a_checkpoint() {
    let mut story = Story::new();
    let on_device = |device, handle| Event {
        device: Some(device),
        ..of(handle)
    };
    story.call("cuDevicePrimaryCtxRetain", on_device(0, 0x10));
    story.call("cuDevicePrimaryCtxRetain", on_device(0, 0x10));
    story.call("cuCtxCreate_v2", on_device(0, 0x20));
    story.call("cuMemAlloc_v2", at(A, 6 * MIB));
    let facts = story.ledger.checkpoint();
    let mut resumed = Story {
        seq: story.seq,
        ..Story::default()
    };
    for fact in &facts {
        resumed.ledger.apply(&Event {
            kind: Kind::Fact,
            text: Some(fact.to_text()),
            ..Event::default()
        });
    }
    assert_eq!(resumed.ledger.damaged_checkpoints(), 0);
    assert_eq!(resumed.ledger.checkpoints(), 1);
    assert_eq!(resumed.ledger.checkpoint(), facts);
    resumed.back("cuCtxDestroy_v2", of(0x20));
    let blocks = resumed.process().blocks();
    assert!(blocks.is_empty(), "it lay in that context");
}
