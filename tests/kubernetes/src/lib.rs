//! The manifests of `k8s/`, as kubectl renders them, for tests.
#![expect(clippy::expect_used, reason = "a test panics with what it expected")]

mod pod;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

pub use pod::{Pod, SIDECAR, WORKLOAD};

/// The folder of manifests.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s")
}

/// A program that `cargo xtask setup` sees to; what `cargo xtask test` names goes before `PATH`.
pub fn tool(name: &str) -> PathBuf {
    let variable = format!("CUDASNOOP_{}", name.to_uppercase());
    env::var_os(variable).unwrap_or_else(|| name.into()).into()
}

/// What a command writes to standard output; panics with all that it said where it fails.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}: `cargo xtask setup` sees to the tools of tests")
    });
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// All objects of a kustomization, as text.
pub fn rendered(kustomization: &Path) -> String {
    output_of(
        Command::new(tool("kubectl"))
            .arg("kustomize")
            .arg(kustomization),
    )
}

/// The documents of a YAML text.
pub fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error} in:\n{yaml}"))
}

/// The only object of this kind.
pub fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "{kind} more than once");
    first
}

/// The entry of a list with this name.
pub fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().into_iter().flatten();
    let mut found = found.filter(|entry| entry["name"] == name);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {list}"));
    assert!(found.next().is_none(), "{name} more than once in {list}");
    first
}
