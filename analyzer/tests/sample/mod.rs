//! A small recording with one of everything that a report tells of.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;

use agent_common::launch::Dimensions;
use agent_common::{ApiId, flags};
use trace::fact::{Account, Caller, Clock, Gap, Kernel, Module, Process, Settings};
use trace::{Event, Fact, Kind, Writer};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Timestamp of the first row: 100 s after boot.
pub(crate) const START: u64 = 100 * SECOND;

/// A vLLM engine, traced from its start.
pub(crate) const ENGINE: u32 = 4242;

/// A trainer that ran before it was traced.
pub(crate) const TRAINER: u32 = 5151;

/// A recording in the making, and the account of its rows.
pub(crate) struct Sample {
    pub(crate) events: Vec<Event>,
    accounts: BTreeMap<&'static str, Account>,
}

impl Sample {
    /// An empty recording.
    pub(crate) fn new() -> Self {
        Self {
            events: Vec::new(),
            accounts: BTreeMap::new(),
        }
    }

    /// A fact about `pid`.
    pub(crate) fn fact(&mut self, timestamp: u64, pid: u32, fact: &Fact) {
        let text = Some(fact.to_text());
        let kind = Kind::Fact;
        self.events.push(Event {
            timestamp,
            pid,
            tid: pid,
            kind,
            text,
            ..Event::default()
        });
    }

    /// A row about a call of `api`; `event` has what is not the same in all rows.
    pub(crate) fn row(&mut self, api: &'static str, kind: Kind, event: Event) {
        let account = self.accounts.entry(api).or_default();
        let counter = match kind {
            Kind::Call => Some(&mut account.reported),
            Kind::Abandoned => Some(&mut account.abandoned),
            Kind::InFlight => Some(&mut account.in_flight),
            Kind::Begin | Kind::Fact => None,
        };
        if let Some(counter) = counter {
            *counter += 1;
            account.made += 1;
        }
        let api = ApiId::by_name(api).expect("a function of the probe table");
        let tid = if event.tid == 0 { event.pid } else { event.tid };
        self.events.push(Event {
            api: Some(api),
            kind,
            tid,
            ..event
        });
    }

    /// A call that returned `result` after `duration` ns.
    pub(crate) fn call(&mut self, api: &'static str, result: i32, duration: u64, event: Event) {
        let (result, duration) = (Some(result), Some(duration));
        self.row(
            api,
            Kind::Call,
            Event {
                result,
                duration,
                ..event
            },
        );
    }

    /// A call of `api` was folded into the runtime call that made it.
    pub(crate) fn folded(&mut self, api: &'static str) {
        self.accounts.entry(api).or_default().folded += 1;
    }

    /// The accounts of all rows, as `change` leaves them, and the end.
    pub(crate) fn end(&mut self, timestamp: u64, mut change: impl FnMut(&mut Account)) {
        for (api, mut account) in std::mem::take(&mut self.accounts) {
            api.clone_into(&mut account.api);
            change(&mut account);
            self.fact(timestamp, 0, &Fact::Account(account));
        }
        self.fact(timestamp, 0, &Fact::End);
    }

    /// The file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("memory takes all");
        for event in &self.events {
            writer.push(event).expect("memory takes all");
        }
        writer.finish().expect("memory takes all")
    }
}

/// What `pid` did `ms` after the start.
pub(crate) fn at(pid: u32, ms: u64) -> Event {
    Event {
        timestamp: START + ms * 1_000_000,
        pid,
        ..Event::default()
    }
}

pub(crate) fn process(pid: u32, title: &str, from_start: bool) -> Fact {
    Fact::Process(Process {
        pid,
        namespace_pid: pid - 4000,
        start_time: 9000 + u64::from(pid),
        parent: 1,
        exe: "/usr/bin/python3.12".to_owned(),
        title: title.to_owned(),
        command: format!("{title} --model m"),
        from_start,
        ..Process::default()
    })
}

fn launch(pid: u32, ms: u64, kernel: Option<u32>, grid: [u32; 3], block: [u32; 3]) -> Event {
    let dimensions = Some(Dimensions { grid, block });
    Event {
        kernel,
        dimensions,
        stream: Some(0),
        handle: Some(0x5555_0000),
        ..at(pid, ms)
    }
}

fn alloc(pid: u32, ms: u64, address: u64, size: i64) -> Event {
    Event {
        address: Some(address),
        size: Some(size),
        device: Some(0),
        ..at(pid, ms)
    }
}

fn copy(pid: u32, ms: u64, kind: Option<u8>, size: i64) -> Event {
    Event {
        size: Some(size),
        copy_kind: kind,
        stream: Some(0),
        ..at(pid, ms)
    }
}

const FILL: &str = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE\
                    St5arrayIPcLm1EEEEviT0_T1_";

/// How a recorder was set.
pub(crate) fn settings(max_overhead: Option<f64>) -> Settings {
    Settings {
        version: "0.1.0".to_owned(),
        kernel: "6.18.44".to_owned(),
        host: "gpu-node-7".to_owned(),
        attach: "scoped".to_owned(),
        events: ["memory", "launch", "graph", "copy", "sync", "torch"]
            .map(str::to_owned)
            .to_vec(),
        ring_bytes: 8 << 20,
        max_overhead,
        ..Settings::default()
    }
}

/// Everything once.
pub(crate) fn everything() -> Sample {
    let mut sample = Sample::new();
    sample.fact(START, 0, &Fact::Settings(settings(None)));
    let clock = Clock {
        monotonic: START,
        boottime: START,
        realtime: 1_795_800_000 * SECOND,
    };
    sample.fact(START, 0, &Fact::Clock(clock));
    sample.fact(START, ENGINE, &process(ENGINE, "VLLM::EngineCore", true));
    sample.fact(START, TRAINER, &process(TRAINER, "", false));
    let gap = Gap {
        pid: TRAINER,
        reason: "the process ran before it was traced".to_owned(),
        duration: None,
    };
    sample.fact(START + SECOND / 10, TRAINER, &Fact::Gap(gap));
    sample.fact(
        START + SECOND / 10,
        ENGINE,
        &Fact::Hold {
            duration: 3_200_000,
        },
    );
    let module = Module {
        path: "/opt/cuda/lib/libcudart.so.12".to_owned(),
        dev: 1,
        inode: 2,
        build_id: None,
        probes: vec!["cudaMalloc".to_owned()],
        missing: Vec::new(),
        refused: vec![(
            "cudaLaunchKernelExC_ptsz".to_owned(),
            "the first instruction cannot be probed".to_owned(),
        )],
    };
    sample.fact(START, ENGINE, &Fact::Module(module));
    let caller = Caller {
        id: 0,
        module: Some("/opt/torch/lib/libc10_cuda.so".to_owned()),
    };
    sample.fact(START, ENGINE, &Fact::Caller(caller));
    memory(&mut sample);
    launches(&mut sample);
    copies_and_waits(&mut sample);
    sample.fact(START + 9 * SECOND, TRAINER, &Fact::Exit);
    let hung = Event {
        duration: Some(7 * SECOND),
        tid: 4299,
        ..at(ENGINE, 3000)
    };
    sample.row("cudaDeviceSynchronize", Kind::InFlight, hung);
    let died = Event {
        duration: Some(40_000),
        tid: 5160,
        ..at(TRAINER, 8999)
    };
    sample.row(
        "cudaStreamSynchronize",
        Kind::Abandoned,
        Event {
            stream: Some(0x77),
            ..died
        },
    );
    sample
}

fn memory(sample: &mut Sample) {
    let seen = flags::DRIVER_SEEN | flags::RETURNED;
    for (index, size) in [512, 2 << 20, 2 << 20, 20 << 20, 1 << 30]
        .into_iter()
        .enumerate()
    {
        let index = index as u64;
        let event = alloc(ENGINE, 200 + index, 0x7f00_0000_0000 + (index << 32), size);
        sample.call(
            "cudaMalloc",
            0,
            90_000 + index * 1000,
            Event {
                flags: seen,
                ..event
            },
        );
        sample.folded("cuMemAlloc_v2");
    }
    let refused = Event {
        address: None,
        ..alloc(ENGINE, 300, 0, 64 << 30)
    };
    sample.call("cudaMalloc", 2, 250_000, refused);
    let block = alloc(ENGINE, 400, 0x7f00_0000_0000 + (3 << 32), 0);
    let block = Event {
        size: None,
        device: None,
        ..block
    };
    sample.row("cudaFree", Kind::Begin, block.clone());
    sample.call("cudaFree", 0, 150_000, block);
    let foreign = Event {
        address: Some(0x7e00_0000_0000),
        ..at(TRAINER, 500)
    };
    sample.row("cudaFree", Kind::Begin, foreign.clone());
    sample.call("cudaFree", 0, 120_000, foreign);
    let unknown_device = Event {
        device: None,
        ..alloc(TRAINER, 600, 0x7d00_0000_0000, 6 << 20)
    };
    sample.call("cuMemAlloc_v2", 0, 80_000, unknown_device);
    for (ms, size, allocated) in [(700, 1 << 19, 1 << 19), (710, -(1 << 18), 1 << 18)] {
        let report = Event {
            size: Some(size),
            device: Some(0),
            address: Some(0x7f00_0000_0000 + (1 << 32)),
            allocated: Some(allocated),
            reserved: Some(24 << 20),
            ..at(ENGINE, ms)
        };
        sample.row("c10::reportMemoryUsageToProfiler", Kind::Call, report);
    }
}

fn launches(sample: &mut Sample) {
    for step in 0..6 {
        let event = launch(ENGINE, 1000 + step, Some(0), [1 << step, 1, 1], [128, 1, 1]);
        sample.row("cudaLaunchKernel", Kind::Call, event);
    }
    let triton = launch(ENGINE, 1100, Some(1), [4096, 2, 1], [32, 8, 1]);
    sample.row("cuLaunchKernelEx", Kind::Call, triton);
    let unread = Event {
        dimensions: None,
        flags: flags::ARGS_UNREAD,
        ..at(ENGINE, 1110)
    };
    sample.row(
        "cuLaunchKernelEx",
        Kind::Call,
        Event {
            kernel: Some(2),
            ..unread
        },
    );
    // Names come when they are known, which may be after the launch.
    let kernel = |id, name: Option<&str>, module: Option<&str>| {
        let (name, module) = (name.map(str::to_owned), module.map(str::to_owned));
        Fact::Kernel(Kernel {
            id,
            name,
            module,
            handle: 0x5555_0000 + u64::from(id),
        })
    };
    let torch = Some("/opt/torch/lib/libtorch_cuda.so");
    sample.fact(START + 2 * SECOND, ENGINE, &kernel(0, Some(FILL), torch));
    sample.fact(
        START + 2 * SECOND,
        ENGINE,
        &kernel(1, Some("triton_red_fused_add_0"), None),
    );
    sample.fact(
        START + 2 * SECOND,
        ENGINE,
        &kernel(2, None, Some("/opt/lib/libcublas.so.12")),
    );
    for step in 0..3 {
        let graph = Event {
            handle: Some(0x9000),
            stream: Some(0x88),
            ..at(ENGINE, 1200 + step)
        };
        sample.call("cudaGraphLaunch", 0, 30_000 + step, graph);
    }
}

fn copies_and_waits(sample: &mut Sample) {
    sample.call(
        "cudaMemcpyAsync",
        0,
        9_000,
        copy(ENGINE, 2000, Some(1), 1 << 20),
    );
    sample.call(
        "cudaMemcpyAsync",
        0,
        11_000,
        copy(ENGINE, 2010, Some(1), 3 << 20),
    );
    sample.call(
        "cudaMemcpyAsync",
        1,
        1_000,
        copy(ENGINE, 2020, Some(2), 4096),
    );
    sample.call("cudaMemcpy", 0, 60_000, copy(TRAINER, 2030, None, 0));
    for step in 0..4 {
        let event = Event {
            stream: Some(0),
            ..at(ENGINE, 2100 + step)
        };
        sample.call("cudaStreamSynchronize", 0, 1_000_000 << step, event);
    }
}
