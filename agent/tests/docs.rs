//! docs/trace.md, docs/count.md and others say what the commands print: each key that the source
//! puts into JSON is described, and none is described that the source does not put.

use std::collections::BTreeSet;

use agent::doctor::{CheckId, State};
use agent_common::{Family, Layer, Unprobed};
use trace::Kind;

const TRACE: &str = include_str!("../../docs/trace.md");
const COUNT: &str = include_str!("../../docs/count.md");
const TRACE_SOURCE: &str = include_str!("../src/sink/json.rs");
const CHECK: &str = include_str!("../../docs/check.md");
const CHECK_SOURCE: &str = include_str!("../src/cli/check.rs");
const DOCTOR: &str = include_str!("../../docs/doctor.md");
const DOCTOR_SOURCE: &str = include_str!("../src/cli/doctor.rs");
const COUNT_SOURCE: &str = include_str!("../src/cli/count.rs");

/// The string literals of the code, tests left out, that look like keys; each with what follows it.
fn literals(source: &str) -> Vec<(&str, &str)> {
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    let mut found = Vec::new();
    let mut rest = code;
    while let Some((_, after)) = rest.split_once('"') {
        let (literal, after) = after.split_once('"').expect("a string that ends");
        if !literal.is_empty() && literal.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            found.push((literal, after.trim_start()));
        }
        rest = after;
    }
    found
}

/// What stands in backquotes in a text.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// The keys that the tables of a page's JSON section describe: what is quoted in their first column.
fn described(page: &str) -> BTreeSet<&str> {
    let (_, json) = page.split_once("\n## JSON\n").expect("a section on JSON");
    let section = json.split("\n## ").next().unwrap_or(json);
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next())
        .flat_map(quoted)
        .collect()
}

#[test]
fn trace_page_describes_what_the_source_prints() {
    let words: BTreeSet<&str> = literals(TRACE_SOURCE)
        .iter()
        .map(|(word, _)| *word)
        .collect();
    assert!(
        words.contains("ts"),
        "the source is not read right: {words:?}"
    );
    let undescribed: Vec<_> = words.difference(&quoted(TRACE)).copied().collect();
    assert!(
        undescribed.is_empty(),
        "not in docs/trace.md: {undescribed:?}"
    );
    let stale: Vec<_> = described(TRACE).difference(&words).copied().collect();
    assert!(stale.is_empty(), "only in docs/trace.md: {stale:?}");
}

#[test]
fn count_page_describes_what_the_source_prints() {
    let keys: BTreeSet<&str> = literals(COUNT_SOURCE)
        .iter()
        .filter(|(_, after)| after.starts_with(':'))
        .map(|(key, _)| *key)
        .collect();
    assert_eq!(described(COUNT), keys);
}

#[test]
fn count_page_names_the_schema_of_the_source() {
    let (_, from) = COUNT_SOURCE
        .split_once("\"cudasnoop.count/")
        .expect("a schema in the source");
    let version = from.split('"').next().expect("a string that ends");
    assert!(quoted(COUNT).contains(format!("cudasnoop.count/{version}").as_str()));
}

#[test]
fn check_page_describes_what_the_source_prints() {
    let keys: BTreeSet<&str> = literals(CHECK_SOURCE)
        .iter()
        .filter(|(_, after)| after.starts_with(':'))
        .map(|(key, _)| *key)
        .collect();
    assert_eq!(described(CHECK), keys);
    let groups = Unprobed::ALL.map(Unprobed::name);
    for group in groups {
        assert!(quoted(CHECK).contains(group), "{group}");
    }
    assert!(CHECK_SOURCE.contains("\"cudasnoop.probes-check/1\""));
    assert!(quoted(CHECK).contains("cudasnoop.probes-check/1"));
}

#[test]
fn doctor_page_describes_what_the_source_prints() {
    let keys: BTreeSet<&str> = literals(DOCTOR_SOURCE)
        .iter()
        .filter(|(_, after)| after.starts_with(':'))
        .map(|(key, _)| *key)
        .collect();
    assert_eq!(described(DOCTOR), keys);
    assert!(DOCTOR_SOURCE.contains("\"cudasnoop.doctor/1\""));
    assert!(quoted(DOCTOR).contains("cudasnoop.doctor/1"));
    for state in [State::Ok, State::Warning, State::Missing] {
        assert!(quoted(DOCTOR).contains(state.name()), "{}", state.name());
    }
}

/// Check ids are a promise: the page has them all, and no others.
#[test]
fn doctor_page_has_each_check() {
    let (_, section) = DOCTOR.split_once("\n## Checks\n").expect("a section");
    let section = section.split("\n## JSON\n").next().unwrap_or(section);
    let listed: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let ids: Vec<&str> = CheckId::ALL.iter().map(|id| id.name()).collect();
    assert_eq!(listed, ids);
}

#[test]
fn pages_know_each_family_layer_and_kind() {
    let families = Family::ALL.map(Family::name);
    let layers = Layer::ALL.map(Layer::name);
    let kinds = Kind::ALL.map(Kind::name);
    let on_trace = quoted(TRACE);
    // Facts are not printed.
    for word in families
        .iter()
        .chain(&layers)
        .chain(kinds.iter().filter(|kind| **kind != "fact"))
    {
        assert!(on_trace.contains(word), "not in docs/trace.md: {word}");
    }
    for word in layers {
        assert!(quoted(COUNT).contains(word), "not in docs/count.md: {word}");
    }
}
