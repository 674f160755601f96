//! `cargo xtask image`: the container image, from one static program, without network.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    build, command, layout,
    progress::{say, step},
    setup,
};

/// What a node has to fetch at most.
const LARGEST: u64 = 40 << 20;

/// The name that the manifests in k8s/ have. `localhost` is nobody's registry: where the image was
/// not brought to the node, nothing of that name is fetched from elsewhere.
fn name() -> String {
    format!("localhost/cudasnoop:{}", env!("CARGO_PKG_VERSION"))
}

/// The image, as `podman load`, `docker load` and `k3s ctr images import` take it.
pub(crate) fn archive() -> PathBuf {
    layout::dist().join("cudasnoop-image.tar")
}

/// Builds the program, and the image from it.
pub(crate) fn run() -> Result<()> {
    build::run(&build::Options::default())?;
    pack()
}

/// Makes the image of the program that is in dist/.
pub(crate) fn pack() -> Result<()> {
    let buildah = setup::buildah()?;
    step("container image", || {
        let folder = layout::target().join("image");
        let program = folder.join("cudasnoop");
        fs::create_dir_all(&folder)
            .with_context(|| format!("could not make {}", folder.display()))?;
        build::stripped("cudasnoop", &program)?;
        let unfinished = folder.join("unfinished.tar");
        Builder::new(&buildah, &folder).image(&program, &unfinished)?;
        let size = fs::metadata(&unfinished)?.len();
        ensure!(
            size < LARGEST,
            "the image has {size} bytes, more than {LARGEST}: what came into the program?"
        );
        layout::copy_if_changed(&unfinished, &archive())?;
        fs::remove_file(&unfinished)?;
        say(format_args!(
            "{} is {}, {:.1} MiB",
            archive().display(),
            name(),
            bytes_to_mib(size)
        ));
        Ok(())
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn bytes_to_mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// buildah, with a store of its own.
struct Builder<'a> {
    buildah: &'a Path,
    store: PathBuf,
}

impl<'a> Builder<'a> {
    fn new(buildah: &'a Path, folder: &Path) -> Self {
        Self {
            buildah,
            store: folder.join("store"),
        }
    }

    fn command(&self, verb: &str) -> Command {
        let mut buildah = Command::new(self.buildah);
        buildah
            // Copies in place of mounts: they work everywhere, and there is one layer.
            .args(["--storage-driver", "vfs", "--root"])
            .arg(self.store.join("root"))
            .arg("--runroot")
            .arg(self.store.join("run"))
            .arg(verb);
        buildah
    }

    fn image(&self, program: &Path, archive: &Path) -> Result<()> {
        let container = command::output(self.command("from").arg("scratch"))
            .context("buildah makes no container")?;
        let container = container.trim();
        let made = self.fill(container, program, archive);
        command::output(self.command("rm").arg(container))?;
        made
    }

    fn fill(&self, container: &str, program: &Path, archive: &Path) -> Result<()> {
        let copy = |from: &Path, to: &str| {
            let mut copy = self.command("copy");
            copy.args(["--quiet", container]).arg(from).arg(to);
            command::output(&mut copy).map(drop)
        };
        copy(program, "/bin/cudasnoop")?;
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            copy(&layout::root().join(licence), &format!("/{licence}"))?;
        }
        let label = |key, value: &str| format!("org.opencontainers.image.{key}={value}");
        let mut config = self.command("config");
        config
            .args(["--entrypoint", r#"["/bin/cudasnoop"]"#, "--cmd", "serve"])
            // For `kubectl exec POD -c cudasnoop -- cudasnoop ...`.
            .args(["--env", "PATH=/bin", "--port", "9410"])
            .args(["--label", &label("title", "cudasnoop")])
            .args(["--label", &label("version", env!("CARGO_PKG_VERSION"))])
            .args(["--label", &label("licenses", "MIT OR Apache-2.0")])
            .arg(container);
        command::output(&mut config)?;
        let mut commit = self.command("commit");
        // Without the time, the same program makes the same image.
        commit.args(["--quiet", "--timestamp", "0", container, &name()]);
        command::output(&mut commit)?;
        match fs::remove_file(archive) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        let to = format!("oci-archive:{}:{}", archive.display(), name());
        command::output(self.command("push").args(["--quiet", &name(), &to]))?;
        command::output(self.command("rmi").args(["--force", &name()]))?;
        Ok(())
    }
}
