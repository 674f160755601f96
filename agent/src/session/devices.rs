//! Which device a call is about: the one that its thread works on.

use std::collections::HashMap;

use agent_common::{Api, Effect, Field, Layer, PlaceKind};
use rustc_hash::FxHashMap;
use trace::{Event, fact};

/// `CU_MEM_LOCATION_TYPE_DEVICE` (cuda.h).
const ON_DEVICE: u8 = 1;

/// Most contexts, and most identities, that are kept.
const MAX_KEPT: usize = 1 << 16;
/// Deepest stack of contexts of a thread that is kept.
const MAX_STACK: usize = 64;

/// The devices that threads have chosen.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// A thread's stack; the last one is current.
    threads: FxHashMap<u32, Vec<Current>>,
    /// The device of a context, by process and handle.
    contexts: FxHashMap<(u32, u64), i32>,
    /// Processes traced from before their first call: device 0 until they choose.
    from_start: FxHashMap<u32, Start>,
    /// What was told of devices, by process and ordinal.
    identities: HashMap<(u32, i32), fact::Device>,
}

/// What a thread works on. A context may be used before the call is seen that says which device
/// it is on, for the runtime gets its own by other ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    Device(i32),
    Context(u64),
    /// No context.
    Nothing,
}

impl Current {
    fn of(event: &Event) -> Self {
        match (event.device, event.handle) {
            (Some(device), _) => Self::Device(device),
            (None, Some(context)) if context != 0 => Self::Context(context),
            (None, _) => Self::Nothing,
        }
    }
}

/// What a process traced from its start has used of devices.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// The device of its only primary context, or contexts.
    only: Option<i32>,
    /// It has contexts on several devices.
    several: bool,
}

impl Devices {
    /// Fills in the device of a call, and takes note of what it changes.
    pub(super) fn call(&mut self, api: &Api, event: &mut Event) {
        let succeeded = event.result == Some(0);
        let stated = event.handle.filter(|_| states_context(api));
        let stated = stated.and_then(|context| self.of_context(event.pid, context));
        if api.effect == Effect::SelectDevice {
            event.device = event.device.or(stated);
            if succeeded {
                let stack = self.threads.entry(event.tid).or_default();
                stack.pop();
                stack.push(Current::of(event));
            }
        } else if api.effect == Effect::ContextPush {
            event.device = stated;
            if succeeded {
                self.push(event.tid, Current::of(event));
            }
        } else if api.effect == Effect::ContextPop {
            event.device = self.current(api, event);
            if succeeded && let Some(stack) = self.threads.get_mut(&event.tid) {
                stack.pop();
            }
        } else if matches!(api.effect, Effect::ContextRetain | Effect::ContextCreate) {
            if let (true, Some(context), Some(device)) = (succeeded, event.handle, event.device) {
                self.context_is_on(event.pid, context, device);
                if api.effect == Effect::ContextCreate {
                    self.push(event.tid, Current::Device(device));
                }
            }
        } else if api.effect == Effect::PhysicalCreate {
            event.device = event
                .location_id
                .filter(|_| event.location == Some(ON_DEVICE));
        } else if states_context(api) {
            let source = event.related;
            event.device = stated;
            event.source_device = source.and_then(|context| self.of_context(event.pid, context));
        } else if event.device.is_none() {
            event.device = self.current(api, event);
        }
    }

    fn push(&mut self, thread: u32, current: Current) {
        let stack = self.threads.entry(thread).or_default();
        if stack.len() < MAX_STACK {
            stack.push(current);
        }
    }

    /// What a call told of a device, if that is news: all that is known of it.
    pub(super) fn identified(&mut self, told: fact::Device) -> Option<fact::Device> {
        let key = (told.pid, told.ordinal);
        let known = self.identities.get(&key);
        let fact::Device {
            pid,
            ordinal,
            uuid,
            pci_bus_id,
        } = told;
        let all = fact::Device {
            pid,
            ordinal,
            uuid: uuid.or_else(|| known?.uuid.clone()),
            pci_bus_id: pci_bus_id.or_else(|| known?.pci_bus_id.clone()),
        };
        if known == Some(&all) || self.identities.len() >= MAX_KEPT {
            return None;
        }
        self.identities.insert(key, all.clone());
        Some(all)
    }

    /// The process is traced from before its first call.
    pub(super) fn starts(&mut self, pid: u32) {
        self.from_start.entry(pid).or_default();
    }

    /// Whether it is.
    pub(super) fn is_from_start(&self, pid: u32) -> bool {
        self.from_start.contains_key(&pid)
    }

    /// A forked child's only thread works on what its parent's did.
    pub(super) fn fork(&mut self, parent: u32, parent_thread: u32, child: u32) {
        if let Some(stack) = self.threads.get(&parent_thread).cloned() {
            self.threads.insert(child, stack);
        }
        if self.is_from_start(parent) {
            self.starts(child);
        }
    }

    /// The process has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.from_start.remove(&pid);
        self.threads.remove(&pid);
        self.contexts.retain(|(owner, _), _| *owner != pid);
        self.identities.retain(|(owner, _), _| *owner != pid);
    }

    fn of_context(&self, pid: u32, context: u64) -> Option<i32> {
        self.contexts.get(&(pid, context)).copied()
    }

    fn context_is_on(&mut self, pid: u32, context: u64, device: i32) {
        if self.contexts.len() < MAX_KEPT {
            self.contexts.insert((pid, context), device);
        }
        if let Some(start) = self.from_start.get_mut(&pid) {
            start.several |= start.only.is_some_and(|only| only != device);
            start.only = Some(device);
        }
    }

    /// The device that the calling thread works on.
    fn current(&self, api: &Api, event: &Event) -> Option<i32> {
        let current = self.threads.get(&event.tid).and_then(|stack| stack.last());
        let current = current.copied().unwrap_or(Current::Nothing);
        let known = match current {
            Current::Device(device) => Some(device),
            Current::Context(context) => self.of_context(event.pid, context),
            Current::Nothing => None,
        };
        let start = self.from_start.get(&event.pid).copied();
        known.or_else(|| match (api.layer, current) {
            // The runtime works on device 0 until told otherwise.
            (Layer::Runtime, Current::Nothing) => start.map(|_| 0),
            (Layer::Runtime | Layer::Driver, _) => start.filter(|start| !start.several)?.only,
            (Layer::Torch, _) => None,
        })
    }
}

/// Whether the call names the context that it is about, rather than using the current one.
fn states_context(api: &Api) -> bool {
    let is_context = |value: &agent_common::Value| {
        value.field == Field::Context && value.place.kind != PlaceKind::Out
    };
    api.values.iter().any(is_context)
}

#[cfg(test)]
mod tests {
    use agent_common::ApiId;

    use super::*;

    /// The device of a successful call of thread `tid` of process 1, told `device` and `handle`.
    fn call(
        devices: &mut Devices,
        tid: u32,
        name: &str,
        device: Option<i32>,
        handle: Option<u64>,
    ) -> Option<i32> {
        let id = ApiId::by_name(name).expect("in the table");
        let mut event = Event {
            pid: 1,
            tid,
            api: Some(id),
            result: Some(0),
            device,
            handle,
            ..Event::default()
        };
        devices.call(id.api().expect("in the table"), &mut event);
        event.device
    }

    fn malloc(devices: &mut Devices, tid: u32) -> Option<i32> {
        call(devices, tid, "cudaMalloc", None, None)
    }

    #[test]
    fn each_thread_chooses_its_own() {
        let mut devices = Devices::default();
        let d = &mut devices;
        assert_eq!(malloc(d, 1), None, "a process that was there before us");
        call(d, 1, "cudaSetDevice", Some(3), None);
        assert_eq!((malloc(d, 1), malloc(d, 2)), (Some(3), None));
        d.starts(1);
        assert_eq!((malloc(d, 1), malloc(d, 2)), (Some(3), Some(0)));
        d.forget(1);
        assert_eq!(malloc(d, 2), None);
    }

    #[test]
    fn a_context_may_be_used_before_it_is_told_of() {
        let mut devices = Devices::default();
        let d = &mut devices;
        assert_eq!(call(d, 1, "cuCtxSetCurrent", None, Some(0x10)), None);
        assert_eq!(malloc(d, 1), None);
        call(d, 1, "cuDevicePrimaryCtxRetain", Some(2), Some(0x10));
        assert_eq!(malloc(d, 1), Some(2));
        assert_eq!(call(d, 1, "cuCtxSetCurrent", None, Some(0x10)), Some(2));
    }

    #[test]
    fn contexts_are_a_stack() {
        let mut devices = Devices::default();
        let d = &mut devices;
        call(d, 1, "cuDevicePrimaryCtxRetain", Some(0), Some(0x10));
        call(d, 1, "cuDevicePrimaryCtxRetain", Some(1), Some(0x20));
        call(d, 1, "cuCtxSetCurrent", None, Some(0x10));
        call(d, 1, "cuCtxPushCurrent_v2", None, Some(0x20));
        assert_eq!(malloc(d, 1), Some(1));
        assert_eq!(call(d, 1, "cuCtxPopCurrent_v2", None, Some(0x20)), Some(1));
        assert_eq!(malloc(d, 1), Some(0));
    }

    #[test]
    fn a_driver_call_works_on_the_only_context_of_a_process_seen_from_its_start() {
        let mut devices = Devices::default();
        let d = &mut devices;
        d.starts(1);
        let alloc = |d: &mut Devices| call(d, 9, "cuMemAlloc_v2", None, None);
        assert_eq!(alloc(d), None);
        call(d, 1, "cuDevicePrimaryCtxRetain", Some(5), Some(0x10));
        assert_eq!(alloc(d), Some(5));
        call(d, 1, "cuDevicePrimaryCtxRetain", Some(6), Some(0x20));
        assert_eq!(alloc(d), None);
    }

    #[test]
    fn what_is_told_of_a_device_adds_up() {
        let mut devices = Devices::default();
        let told = |uuid: Option<&str>, bus: Option<&str>| fact::Device {
            pid: 1,
            ordinal: 0,
            uuid: uuid.map(str::to_owned),
            pci_bus_id: bus.map(str::to_owned),
        };
        let uuid = told(Some("GPU-1"), None);
        assert_eq!(devices.identified(uuid.clone()), Some(uuid.clone()));
        assert_eq!(devices.identified(uuid), None);
        let both = told(Some("GPU-1"), Some("0000:1B:00.0"));
        assert_eq!(
            devices.identified(told(None, Some("0000:1B:00.0"))),
            Some(both)
        );
    }
}
