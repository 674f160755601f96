//! Exports that look like the real libraries' functions to a probe.
//!
//! Each exported symbol is a thunk of its own, `push rbp; pop rbp; jmp` to the Rust function:
//! the first instruction is a push in every profile (as in CUDA 12.4 and later), all arguments
//! stay where the caller put them, and no two symbols share an address.

/// Defines functions of a library and exports them, with a [`crate::Call`] each.
///
/// `fn name(arguments) { body }` is a counted CUDA function: the body is an
/// [`crate::Outcome`], and the library's own `run(&Call, body) -> i32` makes the result.
/// `fn name | twin [default](arguments) { body }` is two of them, each with its own code and
/// counter: the body learns from `default` which [`crate::DefaultStream`] was meant.
/// `@raw fn name(arguments) -> type { body }` is exported as it is.
///
/// The first word says how symbols leave the library. `versioned` ones get the node of the
/// library's version script, which rustc's own list of exports would hide from the linker;
/// `unversioned` ones are on that list, and their thunk can be named (`name::thunk`).
#[macro_export]
macro_rules! exports {
    ($style:ident; $($(#[$doc:meta])* $(@$raw:ident)? fn $name:ident $(| $twin:ident [$default:ident])? ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {
        $($crate::export_one! {
            $style $($raw)?; $(#[$doc])* $name $(| $twin [$default])? ($($argument: $type),*)
            $(-> $result)? $body
        })*
        /// The counted functions of this module.
        pub(crate) const CALLS: &[&[&$crate::Call]] = &[$($crate::call_of!($($raw)? $name $(| $twin)?)),*];
    };
}

/// One function of [`exports!`].
#[doc(hidden)]
#[expect(clippy::crate_in_macro_def, reason = "`run` is the library's own")]
#[macro_export]
macro_rules! export_one {
    ($style:ident; $(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $body:block) => {
        $(#[$doc])*
        #[expect(non_snake_case, reason = "CUDA's name")]
        extern "C" fn $name($($argument: $type),*) -> i32 {
            crate::run(&$name::CALL, || $body)
        }
        #[expect(non_snake_case, reason = "CUDA's name")]
        pub(crate) mod $name {
            pub(crate) static CALL: $crate::Call = $crate::Call::new(stringify!($name));
            $crate::thunk!($style $name);
        }
    };
    ($style:ident; $(#[$doc:meta])* $name:ident | $twin:ident [$default:ident] ($($argument:ident: $type:ty),*) $body:block) => {
        $crate::export_one! {
            $style; $(#[$doc])* $name($($argument: $type),*) {
                let $default = $crate::DefaultStream::Legacy;
                $body
            }
        }
        $crate::export_one! {
            $style; $(#[$doc])* #[doc = "With a default stream for each thread."]
            $twin($($argument: $type),*) {
                let $default = $crate::DefaultStream::PerThread;
                $body
            }
        }
    };
    ($style:ident raw; $(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "some of the names are CUDA's")]
        extern "C" fn $name($($argument: $type),*) $(-> $result)? $body
        #[allow(non_snake_case, reason = "some of the names are CUDA's")]
        pub(crate) mod $name {
            $crate::thunk!($style $name);
        }
    };
}

/// The calls that a function adds to its module's list: none where it is raw.
#[doc(hidden)]
#[macro_export]
macro_rules! call_of {
    (raw $name:ident) => {
        &[]
    };
    ($name:ident) => {
        &[&$name::CALL]
    };
    ($name:ident | $twin:ident) => {
        &[&$name::CALL, &$twin::CALL]
    };
}

/// The exported symbol of a function.
#[doc(hidden)]
#[macro_export]
macro_rules! thunk {
    (versioned $name:ident) => {
        $crate::jump! { stringify!($name), "{target}", target = sym super::$name }
    };
    (unversioned $name:ident) => {
        #[unsafe(naked)]
        #[unsafe(export_name = stringify!($name))]
        pub(crate) unsafe extern "C" fn thunk() {
            std::arch::naked_asm!("push rbp", "pop rbp", "jmp {}", sym super::$name)
        }
    };
}

/// An exported symbol that jumps to another one.
#[macro_export]
macro_rules! jump {
    ($name:expr, $target:literal $(, $($operand:tt)*)?) => {
        std::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits"),
            ".p2align 4",
            concat!(".globl ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            "push rbp",
            "pop rbp",
            concat!("jmp ", $target),
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            $($($operand)*)?
        );
    };
}
