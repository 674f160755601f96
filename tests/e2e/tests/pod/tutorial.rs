//! The commands of docs/tutorial.md, as far as they need no cluster.

use std::{fs, path::Path};

/// A command of the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `kubectl exec $POD -c cudasnoop -- ...`
    Run(Vec<String>),
    /// The same with a recording on its standard input.
    Read(Vec<String>),
    /// `curl` of a port of the pod.
    Get(u16, String),
}

/// All of them, in their order. What takes a while takes a second here.
pub(crate) fn steps() -> Vec<Step> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let page = fs::read_to_string(page).expect("readable");
    page.lines().filter_map(step).collect()
}

fn step(line: &str) -> Option<Step> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split_whitespace().map(|word| word.replace('\'', ""));
        words
            .map(|word| if word == "10" { "1".to_owned() } else { word })
            .collect()
    };
    if let Some(command) = line.strip_prefix("kubectl exec $POD -c cudasnoop -- ") {
        return Some(Step::Run(words(command)));
    }
    if let Some(command) = line.strip_prefix("kubectl exec -i $POD -c cudasnoop -- ") {
        let (command, _) = command.split_once(" < ").expect("a recording goes in");
        return Some(Step::Read(words(command)));
    }
    let (_, address) = line
        .strip_prefix("curl ")?
        .split_once("http://127.0.0.1:")?;
    let (port, path) = address.split_once('/')?;
    let port = port.parse().ok().filter(|port| *port != 8000)?;
    let path = path
        .split([' ', '\''])
        .next()?
        .replace("seconds=30", "seconds=1");
    Some(Step::Get(port, format!("/{path}")))
}
