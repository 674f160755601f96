//! Memory that belongs to graphs. An allocation node has an address from the start; a ready
//! graph takes its pages at its first launch, keeps them until it is ended, and the device has
//! them back when it is asked to trim.

use std::{
    collections::{HashMap, HashSet},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports, layout::AllocationNode};

use crate::{
    devices::{self, Device},
    graph::{self, Node},
};

#[derive(Default)]
struct GraphMemory {
    addresses: HashSet<u64>,
    /// What ready graphs hold: device and bytes.
    held: HashMap<usize, (&'static Device, u64)>,
    /// What ended graphs left, by device.
    unused: HashMap<i32, u64>,
}

static MEMORY: LazyLock<Mutex<GraphMemory>> = LazyLock::new(Mutex::default);

fn memory() -> MutexGuard<'static, GraphMemory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new address for an allocation of a graph.
pub(crate) fn address_for(bytes: u64) -> Result<u64, Code> {
    let address = devices::reserve_addresses(bytes)?.start;
    memory().addresses.insert(address);
    Ok(address)
}

/// Whether a graph allocates at this address.
pub(crate) fn is_of_graph(address: u64) -> bool {
    memory().addresses.contains(&address)
}

/// A ready graph is launched: it takes its pages, if it does not hold them already.
pub(crate) fn run(device: &'static Device, executable: usize, bytes: u64) -> Outcome {
    let mut memory = memory();
    if memory.held.contains_key(&executable) {
        return Ok(());
    }
    if !device.memory().take_physical(bytes) {
        return Err(Code::OUT_OF_MEMORY);
    }
    memory.held.insert(executable, (device, bytes));
    Ok(())
}

/// A ready graph is ended.
pub(crate) fn end(executable: usize) {
    let mut memory = memory();
    if let Some((device, bytes)) = memory.held.remove(&executable) {
        *memory.unused.entry(device.ordinal()).or_default() +=
            bytes.next_multiple_of(crate::device_memory::PAGE);
    }
}

/// Forgets what graphs hold on a device.
pub(crate) fn forget(device: &'static Device) {
    let mut memory = memory();
    memory
        .held
        .retain(|_, (other, _)| !std::ptr::eq(*other, device));
    memory.unused.remove(&device.ordinal());
}

exports! {
    unversioned;

    /// Gives the device back what ended graphs left.
    fn cuDeviceGraphMemTrim(device: i32) {
        let device = devices::get(device)?;
        let unused = memory().unused.remove(&device.ordinal());
        if let Some(bytes) = unused {
            device.memory().give_physical_back(bytes);
        }
        Ok(())
    }

    /// Makes an allocation part of a graph: the node, and the address in the parameters.
    fn cuGraphAddMemAllocNode(
        node: *mut usize, graph: usize, _dependencies: *const usize, _count: usize,
        parameters: *mut AllocationNode,
    ) {
        if parameters.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        let bytes = unsafe { (*parameters).size } as u64;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        graph::check(graph)?;
        let address = address_for(bytes)?;
        let new = graph::add(graph, Node::Allocation { address, bytes })?;
        // SAFETY: as above, and the caller's pointer.
        unsafe {
            (*parameters).address = address;
            store(node, new)
        }
    }

    /// Makes a free part of a graph.
    fn cuGraphAddMemFreeNode(
        node: *mut usize, graph: usize, _dependencies: *const usize, _count: usize, address: u64,
    ) {
        if !is_of_graph(address) {
            return Err(Code::INVALID_VALUE);
        }
        let new = graph::add(graph, Node::Other)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(node, new) }
    }
}
