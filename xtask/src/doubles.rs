//! The fake CUDA libraries and the workloads, from tests/ to dist/.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::{command, layout, progress::step, toolchain};

/// The libraries that programs load: package, cargo's file, the file's real name.
const LIBRARIES: [(&str, &str, &str); 5] = [
    ("fake-libc10", "libc10.so", "libc10.so"),
    ("fake-libcuda", "libcuda.so", "libcuda.so.1"),
    ("fake-libcudart-11", "libcudart_11.so", "libcudart.so.11.0"),
    ("fake-libcudart-12", "libcudart_12.so", "libcudart.so.12"),
    ("fake-libcudart-13", "libcudart_13.so", "libcudart.so.13"),
];

/// The package whose programs call them.
const WORKLOADS: &str = "workloads";

/// Where `LD_LIBRARY_PATH` is to point.
pub(crate) fn libraries() -> PathBuf {
    layout::dist().join("fake-cuda")
}

pub(crate) fn workload(name: &str) -> PathBuf {
    layout::dist().join(WORKLOADS).join(name)
}

pub(crate) fn build() -> Result<()> {
    let mut cargo = toolchain::product_cargo("build")?;
    cargo.args(["--release", "--message-format=json-render-diagnostics"]);
    cargo.args(["--package", WORKLOADS]);
    for (package, _, _) in LIBRARIES {
        cargo.args(["--package", package]);
    }
    let messages = step("fake CUDA libraries and workloads", || {
        command::run_for_stdout(&mut cargo)
    })?;

    let release = layout::target().join("release");
    for (_, file, real_name) in LIBRARIES {
        layout::copy_if_changed(&release.join(file), &libraries().join(real_name))?;
    }
    for program in programs(&messages)? {
        let name = program.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name", program.display()))?;
        layout::copy_if_changed(&program, &workload(name))?;
    }
    Ok(())
}

/// The programs among cargo's messages, one JSON object a line. `executable` is null for all that
/// is no program; other kinds of message lack it.
fn programs(messages: &str) -> Result<Vec<PathBuf>> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    messages
        .lines()
        .map(|line| {
            let message: Message = serde_json::from_str(line)
                .with_context(|| format!("cargo wrote a message that is no JSON: {line}"))?;
            Ok(message.executable)
        })
        .filter_map(Result::transpose)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","executable":null,"filenames":["/t/libserde.rlib"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","executable":"/t/release/demo","filenames":[]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        assert_eq!(programs(messages).unwrap(), [Path::new("/t/release/demo")]);
        assert!(programs("no JSON").is_err());
    }
}
