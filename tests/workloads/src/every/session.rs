//! The libraries under test, and the calls made so far.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::{CStr, CString, c_char, c_void},
    path::Path,
};

use serde::Serialize;
use serde_json::Value;

use super::{
    arguments::{Arguments, Memory, registers},
    expected::{Expected, nothing},
};
use crate::{kernels, library::Library};

/// One call, and what a recording must show of it.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The exported symbol.
    pub symbol: String,
    /// What the call returned; null where the recording cannot know.
    pub result: Option<i32>,
    /// Whether the recording has a row of it.
    pub recorded: bool,
    /// The columns that are set. Others are null, but for the device; "any" is not compared.
    pub columns: BTreeMap<&'static str, Value>,
    /// 64 bytes that `handle` stands for.
    pub handle_names: Option<String>,
    /// Whether the symbol is a twin.
    pub per_thread_stream: bool,
    /// Whether not all arguments can be read.
    pub args_unread: bool,
    /// Whether it goes into a graph; null is not compared.
    pub captured: Option<bool>,
    /// What becomes known of a device.
    pub identity: Option<Value>,
}

/// The pair of libraries, and what was called.
#[derive(Debug)]
pub struct Session {
    runtime: Library,
    driver: Library,
    major: u32,
    /// Symbols whose first call fails, and how.
    failures: BTreeMap<String, i32>,
    called: HashSet<String>,
    rows: Vec<Row>,
}

/// The variable of the device that the program has: its host shadow.
pub(super) static VARIABLE: u64 = 0;

impl Session {
    /// Opens the pair and registers the kernels and a variable.
    ///
    /// `failures` are the rules that the fakes were given: the first call of a symbol returns
    /// that code.
    ///
    /// # Panics
    /// When a library is not there.
    pub fn open(cudart: &Path, failures: BTreeMap<String, i32>) -> Self {
        let runtime = Library::open(cudart);
        let driver = Library::open(Path::new("libcuda.so.1"));
        let mut session = Self {
            runtime,
            driver,
            major: 0,
            failures,
            called: HashSet::new(),
            rows: Vec::new(),
        };
        session.register();
        session
    }

    /// The runtime's major version.
    pub(super) fn major(&self) -> u32 {
        self.major
    }

    /// The calls so far.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// As nvcc's constructors do it: no context is made.
    fn register(&mut self) {
        type RegisterBinary = unsafe extern "C" fn(*const c_void) -> u64;
        let register_binary = self.runtime.get(c"__cudaRegisterFatBinary");
        // SAFETY: the runtime's function of this name has this signature.
        let image = unsafe {
            std::mem::transmute::<*const c_void, RegisterBinary>(register_binary)(
                kernels::fat_binary(),
            )
        };
        for kernel in kernels::ALL {
            let name = kernel.mangled.as_ptr() as u64;
            let arguments = registers([image, kernel.address() as u64, name, name, u64::MAX, 0])
                .stack([0, 0, 0, 0]);
            self.call_void("__cudaRegisterFunction", &arguments);
        }
        // It makes no event: its kernels are named in others.
        self.push("__cudaRegisterFunction", None, &nothing().silent(), true);
        let name = c"variable".as_ptr() as u64;
        let variable = (&raw const VARIABLE) as u64;
        self.call_void(
            "__cudaRegisterVar",
            &registers([image, variable, name, name, 0, 8]),
        );
        self.call_void("__cudaRegisterFatBinaryEnd", &registers([image]));
        let version = Memory::of([0]);
        self.set_up("cudaRuntimeGetVersion", &registers([version.at()]));
        self.major = u32::try_from(version.get() / 1000).expect("a version");
    }

    fn call_void(&self, symbol: &str, arguments: &Arguments) {
        let function = self.find(symbol).expect("every runtime has it");
        // SAFETY: a function of the runtime with arguments of its signature; what is returned is
        // not looked at.
        unsafe { arguments.pass_to(function) };
    }

    /// The symbol's address, if this pair has it.
    pub(super) fn find(&self, symbol: &str) -> Option<*const c_void> {
        let library = if symbol.contains("cuda") {
            self.runtime
        } else {
            self.driver
        };
        library.find(&CString::new(symbol).expect("no NUL"))
    }

    /// A call that is not traced, and that must succeed.
    pub(super) fn set_up(&self, symbol: &str, arguments: &Arguments) {
        let function = self.find(symbol).expect("the pair has it");
        // SAFETY: a function of the pair with arguments of its signature.
        let code = unsafe { arguments.pass_to(function) };
        assert_eq!(code, 0, "{symbol}");
    }

    /// A call that must succeed, but for its first time where a failure is planned. A symbol that
    /// this pair lacks is not called: `false`.
    pub(super) fn call(&mut self, symbol: &str, arguments: &Arguments, expected: Expected) -> bool {
        self.call_for(symbol, 0, arguments, expected)
    }

    /// A call that must return a code.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an expectation is made for one call"
    )]
    pub(super) fn call_for(
        &mut self,
        symbol: &str,
        code: i32,
        arguments: &Arguments,
        expected: Expected,
    ) -> bool {
        let Some(function) = self.find(symbol) else {
            return false;
        };
        if self.called.insert(symbol.to_owned())
            && let Some(planned) = self.failures.get(symbol).copied()
        {
            // SAFETY: a function of the pair with arguments of its signature.
            let returned = unsafe { arguments.pass_to(function) };
            assert_eq!(returned, planned, "{symbol}, planned to fail");
            self.push(symbol, Some(planned), &expected, false);
        }
        // SAFETY: as above.
        let returned = unsafe { arguments.pass_to(function) };
        assert_eq!(returned, code, "{symbol} with {arguments:x?}");
        self.push(symbol, Some(returned), &expected, code == 0);
        true
    }

    /// A call that is probed at its entry alone, and whose result is no code.
    pub(super) fn call_for_text(
        &mut self,
        symbol: &str,
        arguments: &Arguments,
        expected: &Expected,
    ) {
        let function = self.find(symbol).expect("every pair has it");
        // SAFETY: a function of the pair with arguments of its signature; what is returned is not
        // looked at.
        unsafe { arguments.pass_to(function) };
        self.push(symbol, None, expected, true);
    }

    fn push(&mut self, symbol: &str, result: Option<i32>, expected: &Expected, succeeded: bool) {
        let traits = expected.traits;
        self.rows.push(Row {
            symbol: symbol.to_owned(),
            result: result.filter(|_| !traits.entry_only),
            recorded: !traits.silent,
            columns: expected.columns(succeeded),
            handle_names: expected
                .name()
                .filter(|_| succeeded || symbol.contains("IpcOpen")),
            per_thread_stream: symbol.ends_with("_ptsz") || symbol.ends_with("_ptds"),
            args_unread: traits.args_unread,
            captured: traits.captured.filter(|_| succeeded),
            identity: expected.identity_now().filter(|_| succeeded),
        });
    }
}

/// A string that lives on, as an argument.
pub(super) fn text(text: &'static CStr) -> u64 {
    let pointer: *const c_char = text.as_ptr();
    pointer as u64
}
