//! Kernels whose handles no call gave out, as cuFFT's: launched, their module unloaded, and the same
//! handles used for others. The report has the launches of each kernel.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    thread,
    time::Duration,
};

use clap::Parser;
use fake_cuda_core::abi::Dim3;
use serde_json::json;
use workloads::{
    driver::Driver,
    driver_session::DriverSession,
    entries,
    options::{CommonOptions, Step},
    report::Report,
    runtime_session::{LaunchForm, LaunchShape, Twin},
    tally::{Code, Live},
};

/// Launches kernels by handles that no call gave out. Needs the fake CUDA.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Kernels that are looked up by name before, and launched once each.
    #[arg(long, default_value_t = 4)]
    looked_up: usize,
    /// Modules that are loaded, one after the other.
    #[arg(long, default_value_t = 3)]
    modules: usize,
    /// Kernels of each module; kernel n is launched n times.
    #[arg(long, default_value_t = 4)]
    kernels: usize,
    /// Give them names as a C++ compiler does.
    #[arg(long)]
    mangled: bool,
    /// Milliseconds between the launches of a module and its end.
    #[arg(long, default_value_t = 0)]
    rest_ms: u64,
    /// Allocations and frees right before a module's end.
    #[arg(long, default_value_t = 0)]
    crowd: usize,
}

/// One block of one thread.
const SHAPE: LaunchShape = LaunchShape {
    grid: Dim3 { x: 1, y: 1, z: 1 },
    block: Dim3 { x: 1, y: 1, z: 1 },
    shared: 0,
    stream: 0,
};

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let driver = Driver::open(&options.common.cuda);
    assert!(driver.is_fake(), "a real driver hides its functions better");
    options.common.wait_at(Step::Call);
    let live = Live::default();
    let mut session = DriverSession::start(&driver, &live).expect("the fake starts");
    let mut launched = BTreeMap::new();
    launch_all(&options, &driver, &mut session, &mut launched).expect("the fake launches");
    Report::new(
        "hidden",
        true,
        &session.tally,
        &live,
        entries::of_process([]),
    )
    .with("kernels", json!(launched))
    .print();
    options.common.wait_at(Step::Exit);
}

fn launch_all(
    options: &Options,
    driver: &Driver,
    session: &mut DriverSession<'_>,
    launched: &mut BTreeMap<String, u64>,
) -> Result<(), Code> {
    for index in 0..options.looked_up {
        let name = name(&format!("looked_up_{index}"));
        let function = session.module_function(&name)?;
        launch(session, function, &name, 1, launched)?;
    }
    let mut seen = Vec::new();
    for module_index in 0..options.modules {
        let module = session.load_module()?;
        for index in 1..=options.kernels {
            let name = hidden_name(options, module_index, index);
            let function = driver.hidden_function(module, &name);
            assert_eq!(
                seen.contains(&function),
                module_index > 0,
                "the handles of the first module are used again"
            );
            if module_index == 0 {
                seen.push(function);
            }
            launch(session, function, &name, index as u64, launched)?;
        }
        thread::sleep(Duration::from_millis(options.rest_ms));
        options.common.wait_at(Step::Unload);
        for _ in 0..options.crowd {
            let address = session.malloc(1)?;
            session.free(address, 1)?;
        }
        session.unload_module(module)?;
        options.common.wait_at(Step::Unloaded);
    }
    Ok(())
}

fn hidden_name(options: &Options, module: usize, index: usize) -> CString {
    let plain = format!("hidden_{module}_{index}");
    if options.mangled {
        name(&format!("_Z{}{plain}Pf", plain.len()))
    } else {
        name(&plain)
    }
}

fn name(text: &str) -> CString {
    CString::new(text).expect("no NUL in it")
}

fn launch(
    session: &mut DriverSession<'_>,
    function: usize,
    name: &CStr,
    times: u64,
    launched: &mut BTreeMap<String, u64>,
) -> Result<(), Code> {
    for _ in 0..times {
        session.launch(LaunchForm::Plain, Twin::Plain, function, SHAPE)?;
    }
    launched.insert(name.to_string_lossy().into_owned(), times);
    Ok(())
}
