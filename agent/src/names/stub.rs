//! From the symbol of a device stub to the kernel's.

use std::borrow::Cow;

/// How compilers begin the name of the function that stands for a kernel on the host.
const PREFIX: &str = "__device_stub__";

/// Whether `symbol` is that of a device stub.
pub(super) fn is_device_stub(symbol: &str) -> bool {
    symbol.contains(PREFIX)
}

/// The kernel's symbol, where `symbol` is that of its device stub; else `symbol` itself.
///
/// nvcc puts `__device_stub_` before the kernel's mangled name and mangles the whole once
/// more (`_Z22__device_stub__Z3fooPiPi` stands for `_Z3fooPi`); clang puts `__device_stub__`
/// before the plain name (`_ZN2ns18__device_stub__fooEv` for `_ZN2ns3fooEv`).
pub(super) fn kernel_name(symbol: &str) -> Cow<'_, str> {
    reduce(symbol).unwrap_or(Cow::Borrowed(symbol))
}

fn reduce(symbol: &str) -> Option<Cow<'_, str>> {
    let (before, rest) = symbol.split_once(PREFIX)?;
    let scope = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if before.len() == scope.len() {
        // Not mangled: C.
        return (before.is_empty() && !rest.is_empty()).then_some(Cow::Borrowed(rest));
    }
    // A mangled name says how long it is.
    let length = before[scope.len()..]
        .parse::<usize>()
        .ok()?
        .checked_sub(PREFIX.len())?;
    let (name, parameters) = rest.split_at_checked(length)?;
    if name.starts_with('Z') {
        let start = symbol.len() - rest.len() - 1;
        return Some(Cow::Borrowed(&symbol[start..=start + length]));
    }
    (length > 0).then(|| Cow::Owned(format!("{scope}{length}{name}{parameters}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mangled by g++ 12 from the declarations in the comments.
    #[test]
    fn stubs_give_way_to_kernels() {
        let pairs = [
            // void __device_stub__Z3fooPi(int*) and void foo(int*)
            ("_Z22__device_stub__Z3fooPiPi", "_Z3fooPi"),
            // static, as nvcc has it
            ("_ZL22__device_stub__Z3fooPiPi", "_Z3fooPi"),
            // namespace ns { void __device_stub__foo(); void foo(); }
            ("_ZN2ns18__device_stub__fooEv", "_ZN2ns3fooEv"),
            // extern "C" void __device_stub__foo()
            ("__device_stub__foo", "foo"),
        ];
        for (stub, kernel) in pairs {
            assert!(is_device_stub(stub));
            assert_eq!(kernel_name(stub), kernel, "{stub}");
        }
    }

    #[test]
    fn other_names_stay() {
        for name in [
            "_Z3fooPi",
            "",
            "_Z99__device_stub__Z3fooPiPi",
            "_Z14__device_stub__x",
            "_Z15__device_stub__v",
            "__device_stub__",
            "_Z18446744073709551616__device_stub__fooPi",
            "_Z16__device_stub__é",
        ] {
            assert_eq!(kernel_name(name), name);
        }
    }
}
