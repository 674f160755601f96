//! `--html` on the command line.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::{Recording, analyzer, text};

fn names_in(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_page_is_in_its_file_alone() {
    let recording = Recording::everything();
    let file = recording.file("page.html");
    fs::write(&file, "an older page").expect("the file can be written");
    let output = analyzer(&["report", text(&recording.path), "--html", text(&file)]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(said, format!("the page is in {}\n", file.display()));
    assert!(
        fs::read_to_string(&file)
            .expect("text")
            .starts_with("<!doctype html>")
    );
    assert_eq!(names_in(&recording.folder), ["page.html", "run.arrows"]);
}

#[test]
fn a_dash_is_standard_output() {
    let recording = Recording::everything();
    let output = analyzer(&["memory", text(&recording.path), "--html", "-"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"<!doctype html>"));
    assert_eq!(output.stderr, b"");
}

#[test]
fn two_documents_do_not_share_standard_output() {
    let recording = Recording::everything();
    for command in ["report", "memory", "fragmentation"] {
        let output = analyzer(&[command, text(&recording.path), "--html", "-", "--json"]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, b"");
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(said.contains("name a file for the page"), "{said}");
    }
}

#[test]
fn a_page_that_cannot_be_written_leaves_nothing() {
    let recording = Recording::everything();
    let nowhere = Path::new("/nonexistent/page.html");
    let output = analyzer(&["report", text(&recording.path), "--html", text(nowhere)]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.contains("cannot write /nonexistent/page.html"),
        "{said}"
    );
    let folder = recording.file("folder");
    fs::create_dir(&folder).expect("a folder");
    let output = analyzer(&["report", text(&recording.path), "--html", text(&folder)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(names_in(&recording.folder), ["folder", "run.arrows"]);
}
