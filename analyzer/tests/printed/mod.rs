//! What a command prints, against what is kept and what its page says.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Panics unless `found` is what the golden file has; with `UPDATE_GOLDEN=1` it has it then.
pub(crate) fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    // Line by line: a difference is easier to see than in one long text.
    for (number, (found, expected)) in (1..).zip(found.lines().zip(expected.lines())) {
        let place = format!("{}:{number}", path.display());
        assert_eq!(found, expected, "{place}: UPDATE_GOLDEN=1 accepts it");
    }
    assert_eq!(found.len(), expected.len(), "length of {}", path.display());
}

/// As `--json` prints it.
pub(crate) fn as_json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("maps have string keys") + "\n"
}

/// Panics unless the pages of `docs/` name each key of the JSON, and the first one its schema.
pub(crate) fn assert_documented(report: &impl Serialize, pages: &[&str]) {
    let pages: Vec<String> = pages
        .iter()
        .map(|page| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../docs")
                .join(page);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect();
    let json = serde_json::to_value(report).expect("maps have string keys");
    let mut keys = Vec::new();
    keys_of(&json, &mut keys);
    let is_documented = |key: &str| {
        let forms = [
            format!("`{key}`"),
            format!("`{key}[]`"),
            format!("\"{key}\""),
        ];
        pages
            .iter()
            .any(|page| forms.iter().any(|form| page.contains(form)))
    };
    keys.retain(|key| !is_documented(key));
    assert!(keys.is_empty(), "in none of the pages: {keys:?}");
    let schema = json["schema"].as_str().expect("a schema");
    assert!(pages[0].contains(schema), "{schema}");
}

/// Names of all keys in `value`, `errors` keyed by code aside.
fn keys_of(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                if key.parse::<i32>().is_err() && !found.contains(key) {
                    found.push(key.clone());
                }
                keys_of(value, found);
            }
        }
        serde_json::Value::Array(values) => {
            for value in values {
                keys_of(value, found);
            }
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}
