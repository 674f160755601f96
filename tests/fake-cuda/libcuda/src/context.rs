//! Contexts: each device's primary one, those that programs make, and each thread's stack of
//! them. All contexts of a device share its memory; the end of one frees what was allocated in
//! it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    ffi::c_void,
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{
    array,
    devices::{self, Device},
    graph_memory, module, new_handle, pool, vmm,
};

/// A context handle; 0 is none.
pub(crate) type Context = usize;

struct Known {
    device: &'static Device,
    /// References to a primary context; `None` for one that the program made.
    references: Option<usize>,
    /// Blocks allocated in a context that the program made.
    blocks: HashSet<u64>,
}

static CONTEXTS: LazyLock<Mutex<BTreeMap<Context, Known>>> = LazyLock::new(Mutex::default);
/// How many of them the program made: their blocks are noted.
static MADE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread's contexts and their devices, the current one last.
    static STACK: RefCell<Vec<(Context, &'static Device)>> = const { RefCell::new(Vec::new()) };
}

fn contexts() -> MutexGuard<'static, BTreeMap<Context, Known>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of the calling thread's context.
#[inline]
pub(crate) fn current() -> Result<&'static Device, Code> {
    if let Some(device) = STACK.with_borrow(|stack| stack.last().map(|(_, device)| *device)) {
        return Ok(device);
    }
    devices::all()?;
    Err(Code::INVALID_CONTEXT)
}

/// The device of a context.
pub(crate) fn device_of(context: Context) -> Result<&'static Device, Code> {
    devices::all()?;
    contexts()
        .get(&context)
        .map(|known| known.device)
        .ok_or(Code::INVALID_CONTEXT)
}

/// Notes a block of the current context, if its end is to free it.
pub(crate) fn note_block(address: u64) {
    if MADE.load(Relaxed) > 0
        && let Some((context, _)) = STACK.with_borrow(|stack| stack.last().copied())
        && let Some(known) = contexts().get_mut(&context)
        && known.references.is_none()
    {
        known.blocks.insert(address);
    }
}

/// Forgets a block that was freed.
pub(crate) fn forget_block(address: u64) {
    if MADE.load(Relaxed) > 0 {
        contexts().values_mut().for_each(|known| {
            known.blocks.remove(&address);
        });
    }
}

fn push(context: Context) -> Outcome {
    let device = device_of(context)?;
    STACK.with_borrow_mut(|stack| stack.push((context, device)));
    Ok(())
}

fn pop() -> Option<Context> {
    STACK.with_borrow_mut(|stack| stack.pop().map(|(context, _)| context))
}

fn set_current(context: Context) -> Outcome {
    devices::all()?;
    if context == 0 {
        pop();
        return Ok(());
    }
    let device = device_of(context)?;
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.push((context, device));
    });
    Ok(())
}

fn primary(device: &'static Device) -> Context {
    let mut contexts = contexts();
    let found = contexts
        .iter()
        .find(|(_, known)| known.references.is_some() && std::ptr::eq(known.device, device))
        .map(|(context, _)| *context);
    found.unwrap_or_else(|| {
        let context = new_handle();
        contexts.insert(
            context,
            Known {
                device,
                references: Some(0),
                blocks: HashSet::new(),
            },
        );
        context
    })
}

fn create(context: *mut Context, ordinal: i32) -> Outcome {
    let device = devices::get(ordinal)?;
    let new = new_handle();
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(context, new) }?;
    contexts().insert(
        new,
        Known {
            device,
            references: None,
            blocks: HashSet::new(),
        },
    );
    MADE.fetch_add(1, Relaxed);
    push(new)
}

/// Everything of the device is gone.
fn forget_all(device: &'static Device) {
    pool::forget(device);
    vmm::forget(device);
    array::forget(device);
    graph_memory::forget(device);
    module::forget(device);
    device.forget_blocks();
}

/// One reference to the device's primary context less.
fn release(device: i32) -> Outcome {
    let device = devices::get(device)?;
    let handle = primary(device);
    let left = match contexts().get_mut(&handle) {
        Some(Known {
            references: Some(references),
            ..
        }) if *references > 0 => {
            *references -= 1;
            *references
        }
        _ => return Err(Code::INVALID_CONTEXT),
    };
    if left == 0 {
        forget_all(device);
    }
    Ok(())
}

/// The device's primary context ends.
fn reset(device: i32) -> Outcome {
    forget_all(devices::get(device)?);
    Ok(())
}

exports! {
    unversioned;

    /// The device's context, with one more reference.
    fn cuDevicePrimaryCtxRetain(context: *mut Context, device: i32) {
        let handle = primary(devices::get(device)?);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(context, handle) }?;
        if let Some(Known { references: Some(references), .. }) = contexts().get_mut(&handle) {
            *references += 1;
        }
        Ok(())
    }

    /// One reference less; the last one ends the context.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        release(device)
    }

    /// The same, as CUDA 7 to 10 had it.
    fn cuDevicePrimaryCtxRelease(device: i32) {
        release(device)
    }

    /// Forgets everything of the device.
    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        reset(device)
    }

    /// The same, as CUDA 7 to 10 had it.
    fn cuDevicePrimaryCtxReset(device: i32) {
        reset(device)
    }

    /// Makes a context current on its device.
    fn cuCtxCreate_v2(context: *mut Context, _flags: u32, device: i32) {
        create(context, device)
    }

    /// As [`cuCtxCreate_v2`]; affinities mean nothing here.
    fn cuCtxCreate_v3(
        context: *mut Context, _parameters: *const c_void, _count: i32, _flags: u32, device: i32,
    ) {
        create(context, device)
    }

    /// As [`cuCtxCreate_v2`]; parameters mean nothing here.
    fn cuCtxCreate_v4(
        context: *mut Context, _parameters: *const c_void, _flags: u32, device: i32,
    ) {
        create(context, device)
    }

    /// Ends a context that the program made and frees what was allocated in it.
    fn cuCtxDestroy_v2(context: Context) {
        devices::all()?;
        let known = {
            let mut contexts = contexts();
            match contexts.get(&context) {
                Some(Known { references: None, .. }) => contexts.remove(&context),
                Some(_) | None => None,
            }
        };
        let known = known.ok_or(Code::INVALID_CONTEXT)?;
        MADE.fetch_sub(1, Relaxed);
        for block in known.blocks {
            known.device.memory().give_back(block);
        }
        STACK.with_borrow_mut(|stack| stack.retain(|(other, _)| *other != context));
        Ok(())
    }

    /// Chooses the calling thread's context, in place of the top of its stack; null takes it off.
    fn cuCtxSetCurrent(context: Context) {
        set_current(context)
    }

    /// Puts a context on the calling thread's stack.
    fn cuCtxPushCurrent_v2(context: Context) {
        push(context)
    }

    /// Takes the current context off the calling thread's stack.
    fn cuCtxPopCurrent_v2(context: *mut Context) {
        devices::all()?;
        let popped = pop().ok_or(Code::INVALID_CONTEXT)?;
        if !context.is_null() {
            // SAFETY: not null, and the caller's pointer, as the real function requires.
            unsafe { context.write(popped) };
        }
        Ok(())
    }

    /// The calling thread's context; null for none.
    fn cuCtxGetCurrent(context: *mut Context) {
        devices::all()?;
        let top = STACK.with_borrow(|stack| stack.last().map_or(0, |(context, _)| *context));
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(context, top) }
    }

    /// The ordinal of the calling thread's device.
    fn cuCtxGetDevice_v2(device: *mut i32) {
        let ordinal = current()?.ordinal();
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(device, ordinal) }
    }

    /// Nothing is ever running; pools give back what they do not keep.
    fn cuCtxSynchronize() {
        pool::settle(current()?);
        Ok(())
    }

    /// Nothing is ever running; pools give back what they do not keep.
    fn cuCtxSynchronize_v2(context: Context) {
        let device = if context == 0 { current()? } else { device_of(context)? };
        pool::settle(device);
        Ok(())
    }
}
