//! Whether a process's driver is new enough for its CUDA runtime.

use agent_common::Layer;

use super::{
    file_name,
    versions::{DriverVersion, RuntimeVersion},
};
use crate::{
    discover::Found,
    doctor::check::{Check, CheckId},
};

pub(super) fn driver(found: &[Found]) -> Check {
    let id = CheckId::Driver;
    if !found
        .iter()
        .any(|found| found.library.layers.contains(&Layer::Driver))
    {
        return Check::ok(id, "it has not loaded the driver library (libcuda)");
    }
    match driver_version(found) {
        Some(version) => Check::ok(id, format!("NVIDIA driver {version}")),
        None => Check::warning(
            id,
            "the driver's version is not known: the file of its library has none in its name, and \
             /proc/driver/nvidia/version is not there",
        ),
    }
}

/// The version of the library that is mapped, which may be newer than the kernel module (CUDA's
/// forward compatibility package); else that of the module.
fn driver_version(found: &[Found]) -> Option<DriverVersion> {
    found
        .iter()
        .find_map(|found| DriverVersion::of_library(&file_name(&found.path)))
        .or_else(DriverVersion::of_module)
}

/// One check for each runtime.
pub(super) fn of_runtimes(found: &[Found]) -> Vec<Check> {
    let id = CheckId::CudaCompatibility;
    let driver = driver_version(found);
    let runtimes = found
        .iter()
        .filter(|found| found.library.layers.contains(&Layer::Runtime))
        .filter_map(|found| {
            RuntimeVersion::of_library(&file_name(&found.path), found.library.soname.as_deref())
        });
    runtimes
        .map(|runtime| {
            let text = &runtime.text;
            match (runtime.oldest_driver(), driver) {
                (Some(oldest), Some(driver)) if driver < oldest => Check::missing(
                    id,
                    format!(
                        "CUDA runtime {text} needs driver {oldest} or newer, not {driver}: its \
                         calls fail (cudaErrorInsufficientDriver)"
                    ),
                )
                .shell("apt-get install cuda-drivers"),
                (Some(oldest), Some(driver)) => Check::ok(
                    id,
                    format!("CUDA runtime {text} works with driver {driver} (from {oldest} on)"),
                ),
                (Some(oldest), None) => Check::ok(
                    id,
                    format!("CUDA runtime {text}, which needs driver {oldest} or newer"),
                ),
                (None, _) => Check::ok(
                    id,
                    format!("CUDA runtime {text}, whose oldest driver is not known"),
                ),
            }
        })
        .collect()
}
