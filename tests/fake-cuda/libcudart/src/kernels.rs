//! Registered kernels: from the address of a host stub to the driver's function handle.
//!
//! As with lazy loading in the real runtime, a kernel is looked up in the driver at its first
//! launch; after that a launch finds the handle here without a lock.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_void},
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use fake_cuda_core::{Code, exports};

use crate::{device::ready, driver::Driver};

/// Kernels that one process can launch.
const SLOTS: usize = 1 << 14;

/// An open-addressing table that only grows: stub 0 marks a free slot.
static FUNCTIONS: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];
static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

struct Slot {
    stub: AtomicUsize,
    function: AtomicUsize,
}

impl Slot {
    const fn free() -> Self {
        Self {
            stub: AtomicUsize::new(0),
            function: AtomicUsize::new(0),
        }
    }
}

#[derive(Default)]
struct Registered {
    /// Fat binary handles and what each one holds.
    images: HashMap<usize, Image>,
    /// Host stubs: the fat binary handle and the kernel's name.
    kernels: HashMap<usize, (usize, CString)>,
}

struct Image {
    code: usize,
    /// The driver's library (module in CUDA 11), once it is loaded.
    library: Option<usize>,
}

fn registered() -> MutexGuard<'static, Registered> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The slots to try for a stub, best first.
fn probe(stub: usize) -> impl Iterator<Item = &'static Slot> {
    // Stubs are 16-byte aligned functions close to each other.
    let home = stub / 16;
    (0..SLOTS).map(move |distance| &FUNCTIONS[(home + distance) % SLOTS])
}

/// The driver's function for a host stub.
#[inline]
pub(crate) fn function(stub: usize) -> Result<usize, Code> {
    for slot in probe(stub) {
        match slot.stub.load(Ordering::Acquire) {
            0 => break,
            found if found == stub => return Ok(slot.function.load(Ordering::Relaxed)),
            _ => {}
        }
    }
    look_up(stub)
}

/// Asks the driver for a kernel at its first launch.
#[cold]
fn look_up(stub: usize) -> Result<usize, Code> {
    let driver = ready()?;
    let mut registered = registered();
    let Registered { images, kernels } = &mut *registered;
    let (image, name) = kernels.get(&stub).ok_or(Code::INVALID_DEVICE_FUNCTION)?;
    let image = images.get_mut(image).ok_or(Code::INVALID_DEVICE_FUNCTION)?;
    let function = driver_function(driver, image.load(driver)?, name)?;
    // The lock makes this the only writer; another thread may have been first.
    for slot in probe(stub) {
        match slot.stub.load(Ordering::Acquire) {
            0 => {
                slot.function.store(function, Ordering::Relaxed);
                slot.stub.store(stub, Ordering::Release);
                return Ok(function);
            }
            found if found == stub => return Ok(slot.function.load(Ordering::Relaxed)),
            _ => {}
        }
    }
    Err(Code::OUT_OF_MEMORY)
}

impl Image {
    fn load(&mut self, driver: &Driver) -> Result<usize, Code> {
        if let Some(library) = self.library {
            return Ok(library);
        }
        let mut library = 0;
        let code = self.code as *const c_void;
        let none = std::ptr::null();
        // SAFETY: the driver's functions, a pointer to a local, and an image that the caller
        // registered; the fake driver does not read it.
        let code = unsafe {
            if cfg!(cuda11) {
                (driver.functions.module_load_data)(&raw mut library, code)
            } else {
                let load = driver.functions.library_load_data;
                load(&raw mut library, code, none, none, 0, none, none, 0)
            }
        };
        Code::outcome(code)?;
        self.library = Some(library);
        Ok(library)
    }
}

fn driver_function(driver: &Driver, library: usize, name: &CStr) -> Result<usize, Code> {
    let mut function = 0;
    if cfg!(cuda11) {
        // SAFETY: the driver's function, a pointer to a local, and a string that lives on.
        let code = unsafe {
            (driver.functions.module_get_function)(&raw mut function, library, name.as_ptr())
        };
        Code::outcome(code)?;
        return Ok(function);
    }
    let mut kernel = 0;
    // SAFETY: the driver's function, a pointer to a local, and a string that lives on.
    let code =
        unsafe { (driver.functions.library_get_kernel)(&raw mut kernel, library, name.as_ptr()) };
    Code::outcome(code)?;
    // SAFETY: the driver's function, a pointer to a local, and a kernel that it gave out.
    Code::outcome(unsafe { (driver.functions.kernel_get_function)(&raw mut function, kernel) })?;
    Ok(function)
}

/// The driver's library (module in CUDA 11) of a registered image.
pub(crate) fn library_of(driver: &Driver, image: usize) -> Result<usize, Code> {
    registered()
        .images
        .get_mut(&image)
        .ok_or(Code::INVALID_SYMBOL)?
        .load(driver)
}

/// Loads what is registered and not loaded yet, when a context is made.
pub(crate) fn load_registered(driver: &Driver) -> Result<(), Code> {
    registered()
        .images
        .values_mut()
        .try_for_each(|image| image.load(driver).map(|_| ()))
}

exports! {
    versioned;

    /// Announces device code, from a program's constructors: no driver is touched. Returns the
    /// handle for the following calls.
    @raw fn __cudaRegisterFatBinary(code: *const c_void) -> *mut *mut c_void {
        let handle = Box::into_raw(Box::new(std::ptr::null_mut::<c_void>()));
        registered().images.insert(handle as usize, Image { code: code as usize, library: None });
        handle
    }

    /// Ends the announcement.
    @raw fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

    /// Forgets device code and its kernels.
    @raw fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
        let mut registered = registered();
        registered.images.remove(&(handle as usize));
        registered.kernels.retain(|_, (image, _)| *image != handle as usize);
    }

    /// Announces a kernel: its host stub and its name in the device code.
    @raw fn __cudaRegisterFunction(
        handle: *mut *mut c_void, stub: *const c_void, _device_stub: *const c_char,
        name: *const c_char, _thread_limit: i32, _thread: *const c_void, _block: *const c_void,
        _block_shape: *const c_void, _grid_shape: *const c_void, _warp_size: *const i32,
    ) {
        if name.is_null() {
            return;
        }
        // SAFETY: not null, and a string of the program's image.
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        registered().kernels.insert(stub as usize, (handle as usize, name));
    }
}

/// What CUDA 12 added for nvcc's launch stubs.
#[cfg(not(cuda11))]
pub(crate) mod since_12 {
    use fake_cuda_core::{abi::store, exports};

    exports! {
        versioned;

        /// The handle of a kernel is its host stub, in every version from 12.0 to 13.5.
        fn __cudaGetKernel(handle: *mut usize, stub: usize) {
            // SAFETY: the caller's pointer, as the real function requires.
            unsafe { store(handle, stub) }
        }
    }
}
