//! Metrics as Prometheus' own parser reads them.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

/// All series.
pub(crate) fn parse(text: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("metrics");
    fs::write(&file, text).expect("written");
    let arguments = ["prometheus".as_ref(), file.as_os_str()];
    let output = e2e::python("tests/prometheus/parse.py", arguments);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The sum of the series with this name and these labels.
pub(crate) fn sum(series: &[Value], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |series: &&Value| {
        let mut labels = labels.iter();
        series["name"] == name && labels.all(|(label, value)| series["labels"][*label] == *value)
    };
    let values = series.iter().filter(fits);
    values
        .map(|series| series["value"].as_f64().expect("a number"))
        .sum()
}

/// Calls of the runtime, by function; panics if a process has another label.
pub(crate) fn calls(series: &[Value], process: &str) -> BTreeMap<String, f64> {
    let mut calls = BTreeMap::new();
    for one in series {
        let labels = &one["labels"];
        if one["name"] == "cudasnoop_api_calls_total" && labels["library"] == "runtime" {
            assert_eq!(labels["process"], process, "{one}");
            let api = labels["api"].as_str().expect("a name");
            *calls.entry(api.to_owned()).or_default() += one["value"].as_f64().expect("a number");
        }
    }
    calls
}

/// Whole numbers, far below 2^53.
pub(crate) fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 0.5
}
