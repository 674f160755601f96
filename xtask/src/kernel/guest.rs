//! What runs in the machine: an initramfs with the program, a workload and the fake CUDA libraries.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{command, doubles, layout};

const WORKLOAD: &str = "mix";

/// What the machine does; it has nothing else. Parts of its output stand between marks.
const INIT: &str = include_str!("init.sh");

/// The part of the console's output that begins with the mark `name`.
pub(super) fn part<'a>(said: &'a str, name: &str) -> Result<&'a str> {
    let begin = format!("=== {name}");
    let part = said
        .split_once(&begin)
        .and_then(|(_, after)| after.split_once("=== "))
        .map(|(part, _)| part);
    match part {
        Some(part) => Ok(part),
        None => bail!("the machine did not come to {name:?}; it said:\n{said}"),
    }
}

/// Packs it.
pub(super) fn image(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for directory in ["bin", "dev", "opt/fake-cuda", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let busybox = command::on_path("busybox").context("busybox is missing")?;
    let program = layout::dist().join("cudasnoop");
    let workload = doubles::workload(WORKLOAD);
    let perf = command::on_path("perf").context("perf is missing")?;
    fs::copy(&busybox, root.join("bin/busybox"))?;
    fs::copy(&program, root.join("opt/cudasnoop"))?;
    fs::copy(&workload, root.join("opt/workload"))?;
    fs::copy(&perf, root.join("opt/perf"))?;
    for file in fs::read_dir(doubles::libraries())? {
        let file = file?.path();
        let name = file.file_name().unwrap_or_default();
        fs::copy(&file, root.join("opt/fake-cuda").join(name))?;
    }
    let mut libraries = BTreeSet::new();
    for program in [&program, &workload, &perf] {
        libraries.append(&mut libraries_of(program)?);
    }
    for library in &libraries {
        let to = root.join(library.strip_prefix("/").unwrap_or(library));
        fs::create_dir_all(to.parent().unwrap_or(&root))?;
        fs::copy(library, to).with_context(|| library.display().to_string())?;
    }
    let init = root.join("init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let image = folder.join("initrd.cpio");
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | cpio --quiet -o -H newc"])
        .current_dir(&root)
        .stdout(Stdio::from(fs::File::create(&image)?));
    command::run(&mut pack)?;
    Ok(image)
}

/// The system's libraries that a program needs, its dynamic linker included, as `ldd` finds them.
fn libraries_of(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let found = command::output(Command::new("ldd").arg(program))?;
    Ok(found
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_where_the_next_begins() {
        let said = "x\r\n=== release\r\n6.1\r\n=== truth\r\n{}\r\n=== end\r\n";
        assert_eq!(part(said, "release").unwrap().trim(), "6.1");
        assert_eq!(part(said, "truth").unwrap().trim(), "{}");
        assert!(part(said, "report").is_err());
    }
}
