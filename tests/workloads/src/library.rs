//! Shared libraries: opening them, and filling tables of functions from them.

use std::{
    ffi::{CStr, CString, c_void},
    path::Path,
};

/// An open library, never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Library {
    handle: *mut c_void,
}

// SAFETY: dlopen handles may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens a library by path, or by soname where the path has no slash.
    ///
    /// # Panics
    /// When it cannot be opened; the message is the dynamic linker's.
    pub fn open(path: &Path) -> Self {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path has no NUL");
        // SAFETY: a string; the library's constructors are its own affair.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: dlopen failed, so dlerror has a message.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            panic!("cannot open {}: {}", path.display(), why.to_string_lossy());
        }
        Self { handle }
    }

    /// A library that is loaded already, by its soname.
    pub fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: a string; nothing new is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle })
    }

    /// Whatever the program was linked with.
    pub fn linked() -> Self {
        Self {
            handle: libc::RTLD_DEFAULT,
        }
    }

    /// The address of an exported symbol.
    pub fn find(&self, name: &CStr) -> Option<*const c_void> {
        // SAFETY: an open library, or the default scope, and a string.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol.cast_const())
    }

    /// The address of an exported symbol.
    ///
    /// # Panics
    /// When the library has none of this name.
    pub fn get(&self, name: &CStr) -> *const c_void {
        match self.find(name) {
            Some(symbol) => symbol,
            None => panic!("the library has no function {name:?}"),
        }
    }
}

/// Declares a table of C functions, `field(arguments) = c"symbol";`, and how to fill it from a
/// [`Library`].
#[macro_export]
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident { $($field:ident($($type:ty),*) $(-> $result:ty)? = $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $field: unsafe extern "C" fn($($type),*) $(-> $result)?,
            )*
        }

        impl $table {
            /// Finds all functions.
            ///
            /// # Panics
            /// When the library lacks one; the message names it.
            pub fn find(library: &$crate::library::Library) -> Self {
                Self {
                    $(
                        $field: {
                            let symbol = library.get($name);
                            // SAFETY: the library's function of this name has this signature.
                            unsafe {
                                std::mem::transmute::<
                                    *const std::ffi::c_void,
                                    unsafe extern "C" fn($($type),*) $(-> $result)?,
                                >(symbol)
                            }
                        },
                    )*
                }
            }
        }
    };
}
