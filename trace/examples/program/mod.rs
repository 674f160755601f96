//! A made-up program, whose calls are recorded: about 100,000 a second, from four threads. A thread
//! that is in a call makes no other.
#![allow(dead_code, reason = "each example uses its part")]

use agent_common::{ApiId, flags, launch::Dimensions};
use trace::{Event, Kind};

/// The program.
pub(crate) const PID: u32 = 4_242;

const THREADS: usize = 4;

/// Files that call: what [`Event::caller`] stands for.
pub(crate) const CALLERS: [&str; 5] = [
    "/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so",
    "/venv/lib/python3.12/site-packages/torch/lib/libc10_cuda.so",
    "/venv/lib/python3.12/site-packages/vllm/_C.abi3.so",
    "/root/.triton/cache/3f/__triton_launcher.cpython-312-x86_64-linux-gnu.so",
    "/venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12",
];
const TORCH: u32 = 0;
const TORCH_ALLOCATOR: u32 = 1;
const EXTENSION: u32 = 2;
const TRITON: u32 = 3;
const CUBLAS: u32 = 4;

/// Blocks that may be live at a time, of which half are.
const BLOCKS: usize = 2_000;
/// From one of them to the next; none is larger.
const BLOCK_STRIDE: u64 = 128 << 20;
const FIRST_BLOCK: u64 = 0x7f12_0000_0000;

/// Likewise, of `PyTorch`'s blocks, in segments of 20 MiB.
const TORCH_BLOCKS: usize = 10_240;
const TORCH_STRIDE: u64 = 512 << 10;
const SEGMENT: u64 = 20 << 20;
const FIRST_SEGMENT: u64 = 0x7e00_0000_0000;

/// Pinned memory that copies go through.
const PINNED: u64 = 0x7ffc_1000_0000;
const PINNED_BYTES: u64 = 32 * PAGE;
const PAGE: u64 = 4_096;

/// In what order the calls come.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// As programs are: a loop makes the same 500 calls again and again, and one call in 50 comes
    /// from elsewhere.
    Loop,
    /// The worst case.
    Random,
}

/// Of how many calls in a hundred a program consists.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    /// Kernel launches; the rest waits.
    launches: u64,
    /// Of so many kernels.
    pub(crate) kernels: u32,
    /// Calls that allocate or free.
    memory: u64,
    copies: u64,
    /// `PyTorch`'s reports of what it hands out and takes back.
    torch: u64,
}

impl Mix {
    /// Calls to CUDA alone.
    pub(crate) const PLAIN: Self = Self {
        launches: 70,
        kernels: 20,
        memory: 10,
        copies: 12,
        torch: 0,
    };
    /// As `PyTorch` and vLLM drive a device.
    pub(crate) const PYTORCH: Self = Self {
        launches: 58,
        kernels: 200,
        memory: 4,
        copies: 8,
        torch: 24,
    };
    /// Copies, mostly.
    pub(crate) const COPIES: Self = Self {
        launches: 15,
        kernels: 20,
        memory: 5,
        copies: 60,
        torch: 0,
    };
}

/// A made-up program.
pub(crate) struct Program {
    order: Order,
    mix: Mix,
    random: Random,
    /// When the last call was entered, ns.
    now: u64,
    /// When the last call of each thread returned, or will.
    returns_at: [u64; THREADS],
    /// The calls of the loop.
    calls: Vec<Call>,
    next_call: usize,
    /// Which blocks are live.
    live: Vec<bool>,
    /// Sizes of `PyTorch`'s live blocks; 0: it is not.
    torch_blocks: Vec<u64>,
    torch_allocated: u64,
    /// Segments that `PyTorch` has taken.
    segments: u64,
    is_pinned: bool,
    /// The end of a free that has begun.
    freed: Option<Event>,
}

#[derive(Clone, Copy)]
enum Call {
    Launch {
        kernel: u32,
    },
    /// Allocates a block, or frees it.
    Memory {
        size: u64,
    },
    Copy {
        size: u64,
        kind: u8,
    },
    /// `PyTorch` hands a block out, or takes it back.
    Torch {
        size: u64,
    },
    Wait,
}

impl Program {
    pub(crate) fn new(order: Order, mix: Mix) -> Self {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let calls = (0..500).map(|_| Call::random(&mut random, mix)).collect();
        Self {
            order,
            mix,
            random,
            now: 86_400_000_000_000,
            returns_at: [0; THREADS],
            calls,
            next_call: 0,
            live: vec![false; BLOCKS],
            torch_blocks: vec![0; TORCH_BLOCKS],
            torch_allocated: 0,
            segments: 0,
            is_pinned: false,
            freed: None,
        }
    }

    /// The time of the last event.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn next_event(&mut self) -> Event {
        if let Some(freed) = self.freed.take() {
            return freed;
        }
        let is_in_loop = match self.order {
            Order::Loop => self.random.below(50) > 0,
            Order::Random => false,
        };
        let (call, thread) = if is_in_loop {
            self.next_call = (self.next_call + 1) % self.calls.len();
            (self.calls[self.next_call], 0)
        } else {
            (
                Call::random(&mut self.random, self.mix),
                self.random.index(THREADS),
            )
        };
        self.now = self.now.max(self.returns_at[thread]) + 3_000 + self.random.below(8_000);
        let event = self.make(
            call,
            Event {
                timestamp: self.now,
                pid: PID,
                tid: PID + 3 * u32::try_from(thread).expect("small"),
                device: Some(0),
                ..Event::default()
            },
        );
        let duration = self.freed.as_ref().unwrap_or(&event).duration;
        self.returns_at[thread] = self.now + duration.unwrap_or(0);
        event
    }

    fn make(&mut self, call: Call, event: Event) -> Event {
        match call {
            Call::Launch { kernel } => launch(kernel, event),
            Call::Memory { size } => self.memory(size, event),
            Call::Copy { size, kind } => self.copy(size, kind, event),
            Call::Torch { size } => self.torch(size, event),
            Call::Wait => Event {
                api: api("cudaStreamSynchronize"),
                stream: Some(0),
                ..self.returned(TORCH, 20_000, event)
            },
        }
    }

    /// A call that has returned, after at most so many ns.
    fn returned(&mut self, caller: u32, longest: u64, event: Event) -> Event {
        Event {
            duration: Some(1_000 + self.random.below(longest)),
            result: Some(0),
            flags: flags::RETURNED,
            caller: Some(caller),
            ..event
        }
    }

    fn memory(&mut self, size: u64, event: Event) -> Event {
        let index = self.random.index(BLOCKS);
        let address = Some(FIRST_BLOCK + BLOCK_STRIDE * index as u64);
        self.live[index] = !self.live[index];
        let returned = self.returned(EXTENSION, 20_000, event.clone());
        if self.live[index] {
            return Event {
                api: api("cudaMalloc"),
                address,
                size: Some(size.cast_signed()),
                ..returned
            };
        }
        self.freed = Some(Event {
            api: api("cudaFree"),
            address,
            ..returned
        });
        Event {
            api: api("cudaFree"),
            address,
            kind: Kind::Begin,
            caller: Some(EXTENSION),
            ..event
        }
    }

    fn copy(&mut self, size: u64, kind: u8, event: Event) -> Event {
        if !self.is_pinned {
            self.is_pinned = true;
            return Event {
                api: api("cudaHostAlloc"),
                address: Some(PINNED),
                size: Some(PINNED_BYTES.cast_signed()),
                ..self.returned(TORCH, 20_000, event)
            };
        }
        // Half of it is pinned.
        let host = PINNED + self.random.below(64) * PAGE;
        let device = FIRST_SEGMENT + self.random.below(64) * TORCH_STRIDE;
        let (address, source) = if kind == 1 {
            (device, host)
        } else {
            (host, device)
        };
        Event {
            api: api("cudaMemcpyAsync"),
            address: Some(address),
            source: Some(source),
            size: Some(size.cast_signed()),
            copy_kind: Some(kind),
            stream: Some(0),
            ..self.returned(TORCH, 8_000, event)
        }
    }

    fn torch(&mut self, size: u64, event: Event) -> Event {
        let index = self.random.index(TORCH_BLOCKS);
        let address = FIRST_SEGMENT + TORCH_STRIDE * index as u64;
        if FIRST_SEGMENT + self.segments * SEGMENT <= address {
            let segment = FIRST_SEGMENT + self.segments * SEGMENT;
            self.segments += 1;
            return Event {
                api: api("cudaMalloc"),
                address: Some(segment),
                size: Some(SEGMENT.cast_signed()),
                ..self.returned(TORCH_ALLOCATOR, 20_000, event)
            };
        }
        let block = &mut self.torch_blocks[index];
        let change = if *block == 0 {
            *block = size;
            size.cast_signed()
        } else {
            -std::mem::take(block).cast_signed()
        };
        self.torch_allocated = self.torch_allocated.strict_add_signed(change);
        Event {
            api: api("c10::reportMemoryUsageToProfiler"),
            address: Some(address),
            size: Some(change),
            allocated: Some(self.torch_allocated),
            reserved: Some(self.segments * SEGMENT),
            ..event
        }
    }
}

fn launch(kernel: u32, event: Event) -> Event {
    let is_large = kernel.is_multiple_of(3);
    Event {
        api: api(if kernel % 20 < 15 {
            "cudaLaunchKernel"
        } else {
            "cuLaunchKernelEx"
        }),
        kernel: Some(kernel),
        handle: Some(handle(kernel)),
        stream: Some(if kernel.is_multiple_of(4) {
            0x5581_3c00_1230
        } else {
            0
        }),
        shared_memory: Some(if is_large { 49_152 } else { 0 }),
        dimensions: Some(Dimensions {
            grid: [kernel * 32 + 1, if is_large { 8 } else { 1 }, 1],
            block: [128 << (kernel % 3), 1, 1],
        }),
        caller: Some(match kernel % 6 {
            0..4 => TORCH,
            4 => TRITON,
            _ => CUBLAS,
        }),
        ..event
    }
}

/// What a kernel is launched by.
pub(crate) fn handle(kernel: u32) -> u64 {
    0x5581_2000_0000 + u64::from(kernel) * 0x1a40
}

impl Call {
    fn random(random: &mut Random, mix: Mix) -> Self {
        let Mix {
            launches,
            kernels,
            memory,
            copies,
            torch,
        } = mix;
        let mut rest = random.below(100);
        let mut is_one_of = |share: u64| {
            let is_one = rest < share;
            rest = rest.wrapping_sub(share);
            is_one
        };
        if is_one_of(launches) {
            let kernel = random.below(kernels.into());
            Self::Launch {
                kernel: u32::try_from(kernel).expect("small"),
            }
        } else if is_one_of(memory) {
            Self::Memory {
                size: random.size(2 << 20, 64),
            }
        } else if is_one_of(copies) {
            Self::Copy {
                size: random.size(4, 1 << 18),
                kind: if random.below(4) == 0 { 2 } else { 1 },
            }
        } else if is_one_of(torch) {
            Self::Torch {
                size: random.size(512, 1 << 10),
            }
        } else {
            Self::Wait
        }
    }
}

fn api(name: &str) -> Option<ApiId> {
    let api = ApiId::by_name(name);
    assert!(api.is_some(), "{name} is in the table");
    api
}

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("small")
    }

    fn size(&mut self, unit: u64, most: u64) -> u64 {
        unit * (1 + self.below(most))
    }
}
