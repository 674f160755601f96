//! A program that takes and gives back memory of all kinds at random, keeps a list of what it
//! holds, and writes down the rows that a recorder would.

use std::ptr;

use agent_common::{ApiId, fingerprint, flags};
use ledger::MemoryKind;
use trace::{Event, Fact, Kind, fact};

use super::driver::{
    self, AllocationNode, ArrayDescriptor, CAPACITY, DEVICES, Properties, SharedHandle,
};

pub(crate) const PID: u32 = 100;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;
/// Most things held at a time: the list is searched from end to end.
const MOST: usize = 160;

/// The functions that it calls.
pub(crate) const APIS: [&str; 27] = [
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolCreate",
    "cuMemPoolTrimTo",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuArrayCreate_v2",
    "cuArrayDestroy",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemMap",
    "cuMemUnmap",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuIpcCloseMemHandle",
    "cuGraphAddMemAllocNode",
    "cuGraphDestroy",
    "cuDevicePrimaryCtxReset_v2",
];

/// xorshift64: the same numbers each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    fn device(&mut self) -> i32 {
        i32::try_from(self.below(2)).unwrap()
    }

    fn size(&mut self) -> u64 {
        match self.below(4) {
            0 => 1 + self.below(4096),
            1 => 1 + self.below(MIB),
            2 => MIB + self.below(3 * MIB),
            _ => PAGE * (1 + self.below(8)),
        }
    }
}

/// What something is to the driver.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Freed by `cuMemFree_v2` or `cuMemFreeAsync`, whatever it was allocated by.
    Block(u64),
    Host(u64),
    Registered(u64),
    Array(u64),
    Physical(Physical),
    /// An allocation node's address, and its graph.
    Graph(usize),
    Ipc(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Physical {
    handle: u64,
    references: u64,
    /// Address of each mapping; all have the whole size, in a reservation of its own.
    mapped: Vec<u64>,
}

/// Something that is held.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) device: Option<i32>,
    pub(crate) kind: MemoryKind,
    pub(crate) size: u64,
    what: What,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) events: Vec<Event>,
    pub(crate) held: Vec<Held>,
    random: Random,
    clock: u64,
    /// Pools that it made, with their devices; `None` is the host.
    pools: Vec<(usize, Option<i32>)>,
    /// The row of a return that is yet to come.
    pending: Option<Event>,
    next_registered: u64,
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

impl Program {
    pub(crate) fn new() -> Self {
        let mut program = Self {
            events: Vec::new(),
            held: Vec::new(),
            random: Random(0x1234_5678_9abc_def1),
            clock: 0,
            pools: Vec::new(),
            pending: None,
            next_registered: 0x5000_0000_0000,
        };
        driver::select(0);
        let process = Fact::Process(fact::Process {
            pid: PID,
            start_time: 77,
            from_start: true,
            ..fact::Process::default()
        });
        program.push(Event {
            kind: Kind::Fact,
            text: Some(process.to_text()),
            ..Event::default()
        });
        program
    }

    fn push(&mut self, event: Event) {
        self.clock += 1000;
        self.events.push(Event {
            seq: self.events.len() as u64,
            timestamp: self.clock,
            pid: PID,
            ..event
        });
    }

    /// The row of a call that returned.
    fn call(&mut self, api: &str, result: i32, event: Event) {
        let tid = 1 + u32::try_from(self.random.below(8)).unwrap();
        let event = Event {
            tid,
            kind: Kind::Call,
            api: Some(ApiId::by_name(api).unwrap()),
            result: Some(result),
            duration: Some(500),
            flags: flags::RETURNED,
            ..event
        };
        self.push(event);
    }

    /// The rows of a call that gives something back. A successful one may return after the next
    /// step: what it gave back may be handed out before.
    fn give_back(&mut self, api: &str, subject: &Event, run: impl FnOnce() -> i32) -> bool {
        self.settle();
        let tid = 100 + u32::try_from(self.random.below(8)).unwrap();
        let begin = Event {
            tid,
            kind: Kind::Begin,
            api: Some(ApiId::by_name(api).unwrap()),
            ..subject.clone()
        };
        self.push(begin.clone());
        let result = run();
        let returned = Event {
            kind: Kind::Call,
            result: Some(result),
            duration: Some(500),
            // The thread's own device, not the block's.
            device: Some(self.random.device()),
            flags: flags::RETURNED,
            ..begin
        };
        self.pending = Some(returned);
        if result != 0 || self.random.below(4) != 0 {
            self.settle();
        }
        result == 0
    }

    fn settle(&mut self) {
        if let Some(returned) = self.pending.take() {
            self.push(returned);
        }
    }

    pub(crate) fn step(&mut self) {
        let earlier = self.pending.take();
        let gives_back = match self.held.len() {
            0..10 => false,
            10..MOST => self.random.below(2) == 0,
            _ => true,
        };
        if gives_back {
            if let Some(earlier) = earlier {
                self.push(earlier);
            }
            self.give_something_back();
        } else {
            self.take_something();
            if let Some(earlier) = earlier {
                self.push(earlier);
            }
        }
    }

    fn hold(&mut self, device: Option<i32>, kind: MemoryKind, size: u64, what: What) {
        self.held.push(Held {
            device,
            kind,
            size,
            what,
        });
    }

    fn take_something(&mut self) {
        let device = self.random.device();
        driver::select(device);
        let bytes = self.random.size();
        match self.random.below(20) {
            0..4 => self.take_block(device, bytes),
            4 => self.take_block(device, CAPACITY * 2), // fails
            5 => self.take_managed(device, bytes),
            6 => self.take_host(device, bytes),
            7 => self.register(device, bytes),
            8..11 => self.take_from_pool(device, bytes),
            11 => self.take_array(device),
            12..15 => self.create(device, bytes.next_multiple_of(PAGE)),
            15 => self.create(device, 6912), // fails
            16..18 => self.use_physical(),
            18 => self.share(device),
            _ => self.take_graph(device, bytes),
        }
    }

    fn take_block(&mut self, device: i32, bytes: u64) {
        let mut address = 0;
        // SAFETY: the pointer is valid.
        let result = unsafe { driver::cuMemAlloc_v2(&raw mut address, size(bytes)) };
        self.took("cuMemAlloc_v2", result, device, bytes, address);
        if result == 0 {
            let what = What::Block(address);
            self.hold(Some(device), MemoryKind::Device, bytes, what);
        }
    }

    /// The row of an allocation at an address.
    fn took(&mut self, api: &str, result: i32, device: i32, bytes: u64, address: u64) {
        let event = Event {
            device: Some(device),
            address: (result == 0).then_some(address),
            size: Some(bytes.cast_signed()),
            ..Event::default()
        };
        self.call(api, result, event);
    }

    fn take_managed(&mut self, device: i32, bytes: u64) {
        let mut address = 0;
        // SAFETY: the pointer is valid.
        let result = unsafe { driver::cuMemAllocManaged(&raw mut address, size(bytes), 1) };
        self.took("cuMemAllocManaged", result, device, bytes, address);
        let what = What::Block(address);
        self.hold(Some(device), MemoryKind::Managed, bytes, what);
    }

    fn take_host(&mut self, device: i32, bytes: u64) {
        let mut address = 0;
        // SAFETY: the pointer is valid.
        let result = unsafe { driver::cuMemHostAlloc(&raw mut address, size(bytes), 0) };
        self.took("cuMemHostAlloc", result, device, bytes, address);
        let what = What::Host(address);
        self.hold(Some(device), MemoryKind::PinnedHost, bytes, what);
    }

    fn register(&mut self, device: i32, bytes: u64) {
        self.next_registered += 64 * MIB;
        let address = self.next_registered;
        let result = driver::cuMemHostRegister_v2(address, size(bytes), 0);
        self.took("cuMemHostRegister_v2", result, device, bytes, address);
        let what = What::Registered(address);
        self.hold(Some(device), MemoryKind::RegisteredHost, bytes, what);
    }

    fn take_from_pool(&mut self, device: i32, bytes: u64) {
        let mut address = 0;
        if self.pools.len() < 6 && self.random.below(3) == 0 {
            self.make_pool();
        }
        let named = self.random.below(2) == 0 && !self.pools.is_empty();
        if !named {
            // SAFETY: the pointer is valid.
            let result = unsafe { driver::cuMemAllocAsync(&raw mut address, size(bytes), 5) };
            self.took("cuMemAllocAsync", result, device, bytes, address);
            let what = What::Block(address);
            return self.hold(Some(device), MemoryKind::Pool, bytes, what);
        }
        let (pool, place) = self.pools[self.random.index(self.pools.len())];
        // SAFETY: the pointer is valid.
        let result =
            unsafe { driver::cuMemAllocFromPoolAsync(&raw mut address, size(bytes), pool, 5) };
        assert_eq!(result, 0);
        let event = Event {
            device: Some(device),
            address: Some(address),
            size: Some(bytes.cast_signed()),
            related: Some(pool as u64),
            ..Event::default()
        };
        self.call("cuMemAllocFromPoolAsync", result, event);
        self.hold(place, MemoryKind::Pool, bytes, What::Block(address));
    }

    fn make_pool(&mut self) {
        let device = self.random.device();
        let properties = Properties {
            kind: 1,
            handle_types: 0,
            location: [1, device],
            rest: [0; 9],
        };
        let mut pool = 0;
        // SAFETY: the pointers are valid.
        let result = unsafe { driver::cuMemPoolCreate(&raw mut pool, &raw const properties) };
        let event = Event {
            handle: Some(pool as u64),
            location: Some(1),
            location_id: Some(device),
            device: Some(self.random.device()),
            ..Event::default()
        };
        self.call("cuMemPoolCreate", result, event);
        self.pools.push((pool, Some(device)));
    }

    fn take_array(&mut self, device: i32) {
        let (width, height) = (1 + self.random.below(3000), self.random.below(500));
        let descriptor = ArrayDescriptor {
            width: size(width),
            height: size(height),
            format: 0x20,
            channels: 4,
        };
        let bytes = width * height.max(1) * 16;
        let mut handle = 0;
        // SAFETY: the pointers are valid.
        let result = unsafe { driver::cuArrayCreate_v2(&raw mut handle, &raw const descriptor) };
        let event = Event {
            device: Some(device),
            handle: Some(handle as u64),
            size: Some(bytes.cast_signed()),
            ..Event::default()
        };
        self.call("cuArrayCreate_v2", result, event);
        let what = What::Array(handle as u64);
        self.hold(Some(device), MemoryKind::Device, bytes, what);
    }

    fn create(&mut self, device: i32, bytes: u64) {
        let on_host = self.random.below(5) == 0;
        let location = if on_host { [2, 0] } else { [1, device] };
        let properties = Properties {
            kind: 1,
            handle_types: 0,
            location,
            rest: [0; 9],
        };
        let mut handle = 0;
        // SAFETY: the pointers are valid.
        let result =
            unsafe { driver::cuMemCreate(&raw mut handle, size(bytes), &raw const properties, 0) };
        let event = Event {
            handle: (result == 0).then_some(handle),
            size: Some(bytes.cast_signed()),
            location: Some(if on_host { 2 } else { 1 }),
            location_id: Some(location[1]),
            device: (!on_host).then_some(device),
            ..Event::default()
        };
        self.call("cuMemCreate", result, event);
        if result != 0 {
            return;
        }
        let what = What::Physical(Physical {
            handle,
            references: 1,
            mapped: Vec::new(),
        });
        if on_host {
            self.hold(None, MemoryKind::PinnedHost, bytes, what);
        } else {
            self.hold(Some(device), MemoryKind::Vmm, bytes, what);
        }
    }

    /// Maps some physical memory once more, or takes another reference to it.
    fn use_physical(&mut self) {
        let physical: Vec<usize> = (0..self.held.len())
            .filter(|index| matches!(&self.held[*index].what, What::Physical(_)))
            .collect();
        if physical.is_empty() {
            return;
        }
        let index = physical[self.random.index(physical.len())];
        let bytes = self.held[index].size;
        let What::Physical(Physical {
            handle,
            references,
            mapped,
        }) = self.held[index].what.clone()
        else {
            return;
        };
        let event = |address| Event {
            address: Some(address),
            handle: Some(handle),
            ..Event::default()
        };
        if let (Some(&address), 0) = (mapped.first(), self.random.below(2)) {
            let mut retained = 0;
            // SAFETY: the pointer is valid; the address is only a number to the fake.
            let result = unsafe {
                driver::cuMemRetainAllocationHandle(
                    &raw mut retained,
                    ptr::without_provenance(size(address)),
                )
            };
            assert_eq!((result, retained), (0, handle));
            self.call("cuMemRetainAllocationHandle", 0, event(address));
            if let What::Physical(physical) = &mut self.held[index].what {
                physical.references += 1;
            }
            return;
        }
        if references == 0 || mapped.len() > 3 {
            return;
        }
        let mut address = 0;
        // SAFETY: the pointer is valid.
        let result = unsafe { driver::cuMemAddressReserve(&raw mut address, size(bytes), 0, 0, 0) };
        self.took("cuMemAddressReserve", result, 0, bytes, address);
        let result = driver::cuMemMap(address, size(bytes), 0, handle, 0);
        let event = Event {
            size: Some(bytes.cast_signed()),
            offset: Some(0),
            ..event(address)
        };
        self.call("cuMemMap", result, event);
        if let What::Physical(physical) = &mut self.held[index].what {
            physical.mapped.push(address);
        }
    }

    /// Shows a block, and opens it: as if another process had shown it.
    fn share(&mut self, device: i32) {
        let block = self
            .held
            .iter()
            .filter(|held| held.kind == MemoryKind::Device)
            .find_map(|held| match held.what {
                What::Block(address) => Some((address, held.size)),
                _ => None,
            });
        let Some((shown, bytes)) = block else { return };
        let mut words = SharedHandle([0; 8]);
        // SAFETY: the pointer is valid.
        let result = unsafe { driver::cuIpcGetMemHandle(&raw mut words, shown) };
        let name = fingerprint(words.0);
        let event = Event {
            address: Some(shown),
            handle: Some(name),
            ..Event::default()
        };
        self.call("cuIpcGetMemHandle", result, event);
        let mut address = 0;
        // SAFETY: the pointer is valid.
        let result = unsafe { driver::cuIpcOpenMemHandle_v2(&raw mut address, words, 1) };
        let event = Event {
            device: Some(device),
            address: Some(address),
            handle: Some(name),
            ..Event::default()
        };
        self.call("cuIpcOpenMemHandle_v2", result, event);
        let what = What::Ipc(address);
        self.hold(Some(device), MemoryKind::Ipc, bytes, what);
    }

    fn take_graph(&mut self, device: i32, bytes: u64) {
        let mut graph = 0;
        let mut node = 0;
        let mut parameters = AllocationNode {
            before: [0; 13],
            size: size(bytes),
            address: 0,
        };
        // SAFETY: the pointers are valid.
        let result = unsafe {
            assert_eq!(driver::cuGraphCreate(&raw mut graph, 0), 0);
            driver::cuGraphAddMemAllocNode(
                &raw mut node,
                graph,
                ptr::null(),
                0,
                &raw mut parameters,
            )
        };
        let event = Event {
            device: Some(device),
            address: Some(parameters.address),
            size: Some(bytes.cast_signed()),
            related: Some(graph as u64),
            ..Event::default()
        };
        self.call("cuGraphAddMemAllocNode", result, event);
        self.hold(Some(device), MemoryKind::Graph, bytes, What::Graph(graph));
    }

    fn give_something_back(&mut self) {
        if self.random.below(400) == 0 {
            return self.reset();
        }
        driver::select(self.random.device());
        if self.random.below(20) == 0 {
            return self.free_nonsense();
        }
        let index = self.random.index(self.held.len());
        let held = self.held[index].clone();
        let at = |address| Event {
            address: Some(address),
            ..Event::default()
        };
        let of = |handle| Event {
            handle: Some(handle),
            ..Event::default()
        };
        match held.what {
            What::Physical(physical) => return self.give_physical_back(index, &physical),
            What::Block(address) if held.kind == MemoryKind::Managed => {
                self.give_back("cuMemFree_v2", &at(address), || {
                    driver::cuMemFree_v2(address)
                });
            }
            What::Block(address) if self.random.below(2) == 0 => {
                self.give_back("cuMemFree_v2", &at(address), || {
                    driver::cuMemFree_v2(address)
                });
            }
            What::Block(address) => {
                self.give_back("cuMemFreeAsync", &at(address), || {
                    driver::cuMemFreeAsync(address, 5)
                });
                self.trim();
            }
            What::Host(address) => {
                self.give_back("cuMemFreeHost", &at(address), || {
                    driver::cuMemFreeHost(address)
                });
            }
            What::Registered(address) => {
                self.give_back("cuMemHostUnregister", &at(address), || {
                    driver::cuMemHostUnregister(address)
                });
            }
            What::Array(handle) => {
                self.give_back("cuArrayDestroy", &of(handle), || {
                    driver::cuArrayDestroy(size(handle))
                });
            }
            What::Ipc(address) => {
                self.give_back("cuIpcCloseMemHandle", &at(address), || {
                    driver::cuIpcCloseMemHandle(address)
                });
            }
            What::Graph(graph) => {
                let result = driver::cuGraphDestroy(graph);
                self.call("cuGraphDestroy", result, of(graph as u64));
            }
        }
        self.held.swap_remove(index);
    }

    /// A reference or a mapping less: the memory goes with the last of them.
    fn give_physical_back(&mut self, index: usize, physical: &Physical) {
        let bytes = self.held[index].size;
        let mut left = physical.clone();
        let unmaps = left.references == 0 || self.random.below(2) == 0;
        if unmaps && let Some(address) = left.mapped.pop() {
            let event = Event {
                address: Some(address),
                size: Some(bytes.cast_signed()),
                ..Event::default()
            };
            self.give_back("cuMemUnmap", &event, || {
                driver::cuMemUnmap(address, size(bytes))
            });
            self.give_back("cuMemAddressFree", &event, || {
                driver::cuMemAddressFree(address, size(bytes))
            });
        } else {
            let handle = left.handle;
            let event = Event {
                handle: Some(handle),
                ..Event::default()
            };
            self.give_back("cuMemRelease", &event, || driver::cuMemRelease(handle));
            left.references -= 1;
        }
        if left.references == 0 && left.mapped.is_empty() {
            self.held.swap_remove(index);
        } else {
            self.held[index].what = What::Physical(left);
        }
    }

    /// Frees that fail, and frees of null.
    fn free_nonsense(&mut self) {
        let address = if self.random.below(2) == 0 { 0 } else { 0x1000 };
        let event = Event {
            address: Some(address),
            ..Event::default()
        };
        // The runtime takes null; the driver does not.
        let freed = self.give_back("cuMemFree_v2", &event, || driver::cuMemFree_v2(address));
        assert!(!freed);
    }

    /// Pools give the device what they do not use: else it would be held unseen.
    fn trim(&mut self) {
        let mut pools: Vec<usize> = self.pools.iter().map(|(pool, _)| *pool).collect();
        for device in 0..DEVICES {
            let mut pool = 0;
            // SAFETY: the pointer is valid.
            let result = unsafe { driver::cuDeviceGetDefaultMemPool(&raw mut pool, device) };
            assert_eq!(result, 0);
            pools.push(pool);
        }
        for pool in pools {
            let result = driver::cuMemPoolTrimTo(pool, 0);
            let event = Event {
                handle: Some(pool as u64),
                size: Some(0),
                ..Event::default()
            };
            self.call("cuMemPoolTrimTo", result, event);
        }
    }

    /// A device's context ends, and with it what was taken there.
    fn reset(&mut self) {
        let device = self.random.device();
        self.settle();
        let result = driver::cuDevicePrimaryCtxReset_v2(device);
        let event = Event {
            device: Some(device),
            ..Event::default()
        };
        self.call("cuDevicePrimaryCtxReset_v2", result, event);
        self.pools.retain(|(_, place)| *place != Some(device));
        self.held.retain(|held| held.device != Some(device));
    }
}
