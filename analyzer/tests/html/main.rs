//! Pages, as a browser shows them: their figures are those of `--json`, and nothing in a recording
//! can be more than text.

mod broken;
mod chart;
mod command;
mod expandable;
mod hostile;
mod large;
mod numbers;
mod pages;
#[path = "../printed/mod.rs"]
mod printed;
mod report;
mod room;
#[path = "../sample/mod.rs"]
mod sample;
mod window;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use browser::Page;
use sample::{SECOND, START, Sample};
use serde_json::Value;
use tempfile::TempDir;

/// A recording, in a folder that is gone after the test.
struct Recording {
    folder: TempDir,
    path: PathBuf,
}

impl Recording {
    fn of(sample: &Sample) -> Self {
        Self::bytes(&sample.file())
    }

    fn bytes(bytes: &[u8]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("run.arrows");
        fs::write(&path, bytes).expect("the recording can be written");
        Self { folder, path }
    }

    /// One with everything in it.
    fn everything() -> Self {
        let mut sample = sample::everything();
        sample.end(START + 10 * SECOND, |_| {});
        Self::of(&sample)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn analyzer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .args(arguments)
        .output()
        .expect("the command runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

/// Makes the page of a report; gives what `--json` prints beside it.
fn page_of(command: &str, input: &Path, page: &Path, more: &[&str]) -> Value {
    let arguments = [command, text(input), "--html", text(page), "--json"];
    let output = analyzer(&[&arguments, more].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The JSON document in a page, as the page reads it.
fn document(page: &mut Page<'_>, id: &str) -> Value {
    let json = page.evaluate(&format!("document.getElementById('{id}').textContent"));
    serde_json::from_str(json.as_str().expect("text")).expect("JSON")
}

/// The document of what only the page shows, from the page's file.
fn supplement(page: &Path) -> Value {
    let page = fs::read_to_string(page).expect("the page can be read");
    let (_, rest) = page.split_once("id=\"supplement\">").expect("a supplement");
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

/// Panics if the page said anything on its console, or asked for anything but itself. It is the
/// last thing to ask: what was done to the page has been drawn then.
fn assert_quiet(page: &mut Page<'_>) {
    page.settle();
    assert_eq!(page.console(), Vec::<String>::new());
    let requests = page.requests();
    let others: Vec<&String> = requests
        .iter()
        .filter(|address| !address.starts_with("file:") && !address.starts_with("data:"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(
        requests
            .iter()
            .filter(|address| address.starts_with("file:"))
            .count(),
        1
    );
}

/// How many moments of a page are about this.
fn marks(supplement: &Value, what: &str) -> usize {
    let marks = supplement["marks"].as_array().expect("marks").iter();
    marks.filter(|mark| mark["what"] == what).count()
}
