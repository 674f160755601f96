//! Events, facts and recordings to test with.

use agent_common::{ApiId, flags, launch::Dimensions};
use trace::fact::{
    Account, Caller, Clock, Device, Fact, Gap, Kernel, Module, Pod, Process, Segment, Settings,
    Unwritten, Window,
};
use trace::{Event, Kind, Reader, Writer};

/// A recording of several batches, small enough to be cut at every byte.
pub(crate) struct Recording {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the header.
    pub(crate) header: usize,
    /// Where each batch ends, and its events.
    pub(crate) batches: Vec<(usize, Vec<Event>)>,
}

impl Recording {
    pub(crate) fn new() -> Self {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let header = position(&writer);
        let mut seq = 0;
        let batches = [
            vec![launch(), malloc()],
            vec![fact(&Fact::Exec)],
            vec![free(), copy(), map()],
        ]
        .map(|mut events| {
            for event in &mut events {
                event.seq = writer.push(event).unwrap();
                assert_eq!(event.seq, seq);
                seq += 1;
            }
            writer.flush().unwrap();
            (position(&writer), events)
        });
        Self {
            bytes: writer.finish().unwrap(),
            header,
            batches: batches.to_vec(),
        }
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.batches
            .iter()
            .flat_map(|(_, events)| events)
            .cloned()
            .collect()
    }
}

fn position(writer: &Writer<Vec<u8>>) -> usize {
    usize::try_from(writer.written()).unwrap()
}

/// All events of a recording that reads without error, and its reader for what it says of
/// the end.
pub(crate) fn read(bytes: &[u8]) -> (Vec<Event>, Reader<&[u8]>) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut events = Vec::new();
    for batch in reader.by_ref() {
        events.extend(batch.unwrap().iter());
    }
    (events, reader)
}

pub(crate) fn launch() -> Event {
    Event {
        timestamp: 1_000,
        pid: 10,
        tid: 11,
        api: ApiId::by_name("cudaLaunchKernel"),
        device: Some(0),
        stream: Some(0),
        dimensions: Some(Dimensions {
            grid: [1, 2, 3],
            block: [4, 5, 6],
        }),
        shared_memory: Some(0),
        handle: Some(0x5555_5555_0010),
        kernel: Some(7),
        caller: Some(1),
        ..Event::default()
    }
}

pub(crate) fn malloc() -> Event {
    Event {
        timestamp: 2_000,
        duration: Some(30_000),
        pid: 10,
        tid: 12,
        api: ApiId::by_name("cuMemAlloc_v2"),
        parent: ApiId::by_name("cudaFree"),
        result: Some(0),
        address: Some(0x7f00_0000_0000),
        size: Some(2 << 20),
        flags: flags::RETURNED | flags::CALLER_UNREAD,
        ..Event::default()
    }
}

pub(crate) fn free() -> Event {
    Event {
        timestamp: 3_000,
        pid: 10,
        tid: 12,
        kind: Kind::Begin,
        api: ApiId::by_name("cudaFree"),
        address: Some(0x7f00_0000_0000),
        ..Event::default()
    }
}

pub(crate) fn copy() -> Event {
    Event {
        timestamp: 2_500,
        duration: Some(0),
        pid: 10,
        tid: 12,
        api: ApiId::by_name("cudaMemcpyAsync"),
        result: Some(700),
        address: Some(u64::MAX),
        source: Some(0),
        size: Some(i64::MAX),
        copy_kind: Some(4),
        stream: Some(2),
        flags: flags::RETURNED,
        ..Event::default()
    }
}

/// A call of every column that other samples leave null.
pub(crate) fn map() -> Event {
    Event {
        timestamp: 2_700,
        duration: Some(400),
        pid: 10,
        tid: 12,
        api: ApiId::by_name("cuMemMap"),
        result: Some(0),
        device: Some(1),
        source_device: Some(2),
        location: Some(1),
        location_id: Some(-1),
        address: Some(0x7f00_0000_0000),
        size: Some(2 << 20),
        offset: Some(4 << 20),
        count: Some(3),
        handle: Some(0x77),
        related: Some(u64::MAX),
        option: Some(5),
        flags: flags::RETURNED | flags::CAPTURED,
        ..Event::default()
    }
}

pub(crate) fn fact(fact: &Fact) -> Event {
    Event {
        timestamp: 9,
        pid: 10,
        kind: Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}

/// One fact of each kind, no part of it left out.
pub(crate) fn facts() -> Vec<Fact> {
    let facts = vec![
        Fact::Process(Process {
            pid: 10,
            namespace_pid: 1,
            start_time: u64::MAX,
            parent: 2,
            exe: "/usr/bin/python3.12".to_owned(),
            title: "VLLM::EngineCore".to_owned(),
            command: "python -c \"print('ü\u{0}')\"".to_owned(),
            from_start: true,
            visible_devices: Some("1,0".to_owned()),
            container: Some("5f".repeat(32)),
            pod_uid: Some("9cb1c0de-94a1-4a0e-8f3e-2f5b7d2f1a00".to_owned()),
            entry_only: None,
        }),
        Fact::Fork { child: 20 },
        Fact::Exec,
        Fact::Exit,
        Fact::Module(Module {
            path: "/usr/lib/libcudart.so.12".to_owned(),
            dev: 1,
            inode: 2,
            build_id: Some("00ff".to_owned()),
            probes: vec!["cudaMalloc".to_owned()],
            missing: vec!["cudaLaunchKernelExC".to_owned()],
            refused: vec![("cudaFree".to_owned(), "no such symbol".to_owned())],
        }),
        Fact::Device(Device {
            pid: 10,
            ordinal: 0,
            uuid: Some("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f".to_owned()),
            pci_bus_id: Some("0000:1B:00.0".to_owned()),
        }),
        Fact::Kernel(Kernel {
            id: 7,
            name: Some("_Z6kernelPf".to_owned()),
            module: Some("libtorch_cuda.so".to_owned()),
            handle: 0x5555,
        }),
        Fact::Caller(Caller {
            id: 1,
            module: Some("libc10_cuda.so".to_owned()),
        }),
        Fact::Clock(Clock {
            monotonic: 1,
            boottime: 2,
            realtime: 3,
        }),
        Fact::Gap(Gap {
            pid: 10,
            reason: "attached late".to_owned(),
            duration: Some(5),
        }),
        Fact::Hold { duration: 6 },
        Fact::Settings(Settings {
            version: "0.1.0".to_owned(),
            kernel: "6.18.0".to_owned(),
            host: "node".to_owned(),
            attach: "scoped".to_owned(),
            events: vec!["memory".to_owned()],
            ring_bytes: 1 << 24,
            launch_returns: false,
            max_overhead: Some(0.01),
            command: Some(vec!["./train".to_owned()]),
            pod: Some(Pod {
                name: Some("vllm-0".to_owned()),
                namespace: Some("serving".to_owned()),
                uid: Some("9cb1c0de-94a1-4a0e-8f3e-2f5b7d2f1a00".to_owned()),
                node: Some("gpu-node-7".to_owned()),
            }),
            boot_id: Some("0f7ba6a5-4c1c-4d3b-a0b8-1e36be0d0b6f".to_owned()),
            pid_namespace: Some(4_026_531_836),
        }),
        Fact::Account(Account {
            api: "cudaMalloc".to_owned(),
            made: 15,
            folded: 1,
            reported: 1,
            lost_ring: 2,
            lost_pairing: 3,
            abandoned: 4,
            in_flight: 5,
            lost_extra: 6,
            carried_in: 7,
            carried_out: 8,
        }),
        Fact::RecursionMisses { count: 8 },
        Fact::Checkpoint {
            part: serde_json::json!({ "part": "end" }),
        },
        Fact::Vanished,
        Fact::Segment(Segment {
            number: 12,
            events_before: 1000,
            boot_id: "0f7ba6a5-4c1c-4d3b-a0b8-1e36be0d0b6f".to_owned(),
            forgotten_facts: 9,
        }),
        Fact::Unwritten(Unwritten {
            events: 10,
            cause: "disk_full".to_owned(),
        }),
        Fact::Window(Window {
            since: 1_000,
            until: 3_000,
            families: vec!["launch".to_owned()],
            weight: 4.5,
        }),
        Fact::TorchSampled,
        Fact::MemorySampled,
        Fact::End,
    ];
    // A new kind must be added above, and then here.
    for fact in &facts {
        match fact {
            Fact::Process(_)
            | Fact::Fork { .. }
            | Fact::Exec
            | Fact::Exit
            | Fact::Module(_)
            | Fact::Device(_)
            | Fact::Kernel(_)
            | Fact::Caller(_)
            | Fact::Clock(_)
            | Fact::Gap(_)
            | Fact::Hold { .. }
            | Fact::Settings(_)
            | Fact::Account(_)
            | Fact::RecursionMisses { .. }
            | Fact::Checkpoint { .. }
            | Fact::Vanished
            | Fact::Segment(_)
            | Fact::Unwritten(_)
            | Fact::Window(_)
            | Fact::TorchSampled
            | Fact::MemorySampled
            | Fact::End => {}
        }
    }
    facts
}
