//! `cudasnoop probes --check`: what of a process's libraries, or of one file, is probed, what
//! is not, and what that leaves unseen.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write},
    path::{Path, PathBuf},
};

use agent_common::{APIS, Layer, Unprobed};
use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::discover::{Libraries, Library, Mappings, Process, Seen, TargetFile, elf::Elf};

/// A library that was looked into.
struct Checked {
    path: PathBuf,
    layers: Vec<Layer>,
    /// Symbols with a probe, and those of them whose probe the kernel single-steps.
    probed: Vec<&'static str>,
    costly: Vec<&'static str>,
    /// Symbols that cannot have one, with the reason.
    refused: Vec<(&'static str, String)>,
    /// Functions of the table that it lacks.
    missing: Vec<&'static str>,
    /// CUDA functions that are in no table, by what that leaves unseen; `None` where its exports
    /// cannot be listed.
    unprobed: Option<BTreeMap<&'static str, Vec<String>>>,
}

/// Checks a process, by its id, or a file.
pub(super) fn run(target: &str, json: bool, output: &mut dyn Write) -> anyhow::Result<()> {
    let libraries = match target.parse() {
        Ok(pid) => of_process(pid)?,
        Err(_) => vec![of_file(Path::new(target))?],
    };
    if json {
        let libraries: Vec<Value> = libraries.iter().map(as_json).collect();
        let report = json!({ "schema": "cudasnoop.probes-check/1", "libraries": libraries });
        writeln!(output, "{report}")?;
        return Ok(());
    }
    for (index, library) in libraries.iter().enumerate() {
        if index > 0 {
            writeln!(output)?;
        }
        as_text(output, library)?;
    }
    Ok(())
}

fn of_process(pid: u32) -> anyhow::Result<Vec<Checked>> {
    let process = Process::open(pid)?;
    let mappings = Mappings::read(&process)?;
    let scan = Libraries::default().scan(&process, &mappings, &mut Seen::default());
    for failure in &scan.failures {
        tracing::warn!("process {pid}: {failure}");
    }
    if scan.found.is_empty() {
        bail!(
            "process {pid} maps no CUDA library now: it has not loaded one yet, or it is no CUDA \
             program"
        );
    }
    scan.found
        .iter()
        .map(|found| checked(&found.library, &found.path))
        .collect()
}

fn of_file(path: &Path) -> anyhow::Result<Checked> {
    let file = TargetFile::open(path).with_context(|| format!("opening {}", path.display()))?;
    let library = Library::resolve(file).with_context(|| format!("reading {}", path.display()))?;
    let library = library.with_context(|| {
        format!(
            "{} exports none of the functions that can be traced: it is no CUDA runtime, driver \
             or libc10",
            path.display()
        )
    })?;
    checked(&library, path)
}

fn checked(library: &Library, path: &Path) -> anyhow::Result<Checked> {
    let Library {
        file,
        layers,
        points,
        start: _,
        missing,
        refused,
        soname: _,
        build_id: _,
    } = library;
    let exports = Elf::open(file)
        .and_then(|elf| elf.exported_functions())
        .with_context(|| format!("reading {}", path.display()))?;
    let costly = points.iter().filter(|point| !point.emulated);
    Ok(Checked {
        path: path.to_owned(),
        layers: layers.clone(),
        probed: points.iter().map(|point| point.symbol).collect(),
        costly: costly.map(|point| point.symbol).collect(),
        refused: refused
            .iter()
            .map(|(symbol, refusal)| (*symbol, refusal.to_string()))
            .collect(),
        missing: missing.clone(),
        unprobed: exports.map(|exports| group(&exports)),
    })
}

/// CUDA functions among `exports` that the table does not have, by [`Unprobed::name`].
fn group(exports: &[String]) -> BTreeMap<&'static str, Vec<String>> {
    let known: HashSet<&str> = APIS.iter().flat_map(|api| api.symbols).copied().collect();
    let mut groups: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for name in exports {
        if is_cuda(name) && !known.contains(name.as_str()) {
            let group = groups.entry(Unprobed::of(name).name()).or_default();
            group.push(name.clone());
        }
    }
    for names in groups.values_mut() {
        names.sort_unstable();
    }
    groups
}

/// `cudaMalloc`, `__cudaRegisterFunction`, `cuMemAlloc`; not `cublasCreate`.
fn is_cuda(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let after = name
        .strip_prefix("cuda")
        .or_else(|| name.strip_prefix("cu"));
    after.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

fn as_json(library: &Checked) -> Value {
    let Checked {
        path,
        layers,
        probed,
        costly,
        refused,
        missing,
        unprobed,
    } = library;
    json!({
        "path": path.to_string_lossy(),
        "layers": layers.iter().map(|layer| layer.name()).collect::<Vec<_>>(),
        "probed": probed,
        "costly": costly,
        "refused": refused,
        "missing": missing,
        "unprobed": unprobed,
    })
}

fn as_text(output: &mut dyn Write, library: &Checked) -> io::Result<()> {
    let Checked {
        path,
        layers,
        probed,
        costly,
        refused,
        missing,
        unprobed,
    } = library;
    let layers: Vec<_> = layers.iter().map(|layer| layer.name()).collect();
    writeln!(output, "{} ({})", path.display(), layers.join(", "))?;
    writeln!(
        output,
        "  probed    {} functions and twins; {} of the table are not in this version",
        probed.len(),
        missing.len()
    )?;
    if !costly.is_empty() {
        writeln!(
            output,
            "  costly    {} of them begin with an instruction that the kernel single-steps (a \
             probe costs several times as much): {}",
            costly.len(),
            costly.join(", ")
        )?;
    }
    for (symbol, reason) in refused {
        writeln!(output, "  refused   {symbol}: {reason}")?;
    }
    let Some(unprobed) = unprobed else {
        return writeln!(
            output,
            "  unprobed  not known: the file has no section headers to list its functions by"
        );
    };
    for class in Unprobed::ALL {
        if let Some(names) = unprobed.get(class.name()) {
            writeln!(
                output,
                "  unprobed  {}: unseen is {}",
                names.len(),
                class.leaves()
            )?;
            for line in wrapped(names) {
                writeln!(output, "            {line}")?;
            }
        }
    }
    Ok(())
}

/// Names in lines of at most 68 characters.
fn wrapped(names: &[String]) -> Vec<String> {
    const WIDTH: usize = 68;
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + name.len() <= WIDTH => {
                line.push(' ');
                line.push_str(name);
            }
            _ => lines.push(name.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_functions_are_told_from_others() {
        for name in ["cudaMalloc", "cuMemAlloc", "__cudaLaunchKernel", "cuInit"] {
            assert!(is_cuda(name), "{name}");
        }
        for name in ["cublasCreate", "curl", "malloc", "cudart", "custom"] {
            assert!(!is_cuda(name), "{name}");
        }
    }

    #[test]
    fn nothing_that_is_probed_is_called_unprobed() {
        let exports: Vec<String> = APIS
            .iter()
            .flat_map(|api| api.symbols)
            .map(|symbol| (*symbol).to_owned())
            .collect();
        assert!(group(&exports).is_empty());
    }
}
