//! Queries name metrics that exist, alerts fire when they should, Grafana knows the dashboard.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics with what it did not find"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use kubernetes_manifests::{documents, folder, only, output_of, rendered, tool};
use promql_parser::{
    label::{METRIC_NAME, MatchOp},
    parser::{self, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use serde::Deserialize;
use serde_json::Value;

fn dashboard() -> Value {
    let text = fs::read_to_string(folder().join("monitoring/dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn monitoring() -> Vec<Value> {
    documents(&rendered(&folder().join("monitoring")))
}

/// The rules of all groups.
fn rules(objects: &[Value]) -> Vec<Value> {
    let groups = only(objects, "PrometheusRule")["spec"]["groups"]
        .as_array()
        .unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules.cloned().collect()
}

/// Names and labels of all series, as docs/metrics.md has them; that page is compared with the
/// program by the program's own tests.
fn series() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(folder().join("../docs/metrics.md")).unwrap();
    let mut series = BTreeMap::new();
    for line in page
        .lines()
        .filter(|line| line.starts_with("| `cudasnoop_"))
    {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, _, labels, ..] = cells.as_slice() else {
            panic!("{line}");
        };
        let name = name.trim_matches('`');
        let mut labels: BTreeSet<String> = labels
            .split(", ")
            .map(|label| label.trim_matches('`').to_owned())
            .filter(|label| !label.is_empty())
            .collect();
        if *kind == "histogram" {
            for part in ["_sum", "_count"] {
                series.insert(format!("{name}{part}"), labels.clone());
            }
            labels.insert("le".to_owned());
            series.insert(format!("{name}_bucket"), labels);
        } else {
            series.insert(name.to_owned(), labels);
        }
    }
    assert!(series.len() > 30, "docs/metrics.md has a table of metrics");
    series
}

/// What a scrape adds: see k8s/monitoring/pod-monitor.yaml.
const OF_THE_SCRAPE: [&str; 3] = ["namespace", "pod", "instance"];

#[derive(Debug, Default)]
struct Selectors(Vec<VectorSelector>);

impl ExprVisitor for Selectors {
    type Error = String;

    fn pre_visit(&mut self, expression: &parser::Expr) -> Result<bool, String> {
        match expression {
            parser::Expr::VectorSelector(selector) => self.0.push(selector.clone()),
            parser::Expr::MatrixSelector(selector) => self.0.push(selector.vs.clone()),
            _ => {}
        }
        Ok(true)
    }
}

/// Panics unless every metric of the query exists, with the labels that are asked for; gives the
/// metrics.
fn assert_exists(query: &str, series: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let expression = parser::parse(query).unwrap_or_else(|error| panic!("{error} in {query}"));
    let mut selectors = Selectors::default();
    walk_expr(&mut selectors, &expression).unwrap();
    let mut metrics = BTreeSet::new();
    for selector in selectors.0 {
        let by_label = selector
            .matchers
            .matchers
            .iter()
            .find(|matcher| matcher.name == METRIC_NAME && matcher.op == MatchOp::Equal);
        let name = selector
            .name
            .or_else(|| by_label.map(|matcher| matcher.value.clone()));
        let name = name.unwrap_or_else(|| panic!("a selector without a name in {query}"));
        let labels = series
            .get(&name)
            .unwrap_or_else(|| panic!("no metric {name}: {query}"));
        for matcher in &selector.matchers.matchers {
            let label = matcher.name.as_str();
            assert!(
                labels.contains(label) || OF_THE_SCRAPE.contains(&label),
                "{name} has no label {label}: {query}"
            );
        }
        metrics.insert(name);
    }
    assert!(!metrics.is_empty(), "{query}");
    metrics
}

/// All queries of the dashboard, Grafana's own variables filled in.
fn dashboard_queries() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| {
            let query = target["expr"].as_str().unwrap();
            query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "1h")
        })
        .collect()
}

#[test]
fn every_query_names_metrics_that_exist() {
    let series = series();
    let queries = dashboard_queries();
    assert!(queries.len() > 20);
    for query in queries {
        assert_exists(&query, &series);
    }
    for rule in rules(&monitoring()) {
        assert_exists(rule["expr"].as_str().unwrap(), &series);
    }
    // label_values(SELECTOR, label), by which Grafana fills its lists.
    for variable in dashboard()["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"]["query"].as_str() else {
            assert_eq!(variable["type"], "datasource");
            continue;
        };
        let inner = query.strip_prefix("label_values(").unwrap();
        let (selector, label) = inner.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
        let metrics = assert_exists(selector, &series);
        let has = metrics.iter().any(|name| series[name].contains(label));
        assert!(has || OF_THE_SCRAPE.contains(&label), "{query}");
    }
}

#[test]
#[should_panic(expected = "no metric cudasnoop_memory_life_bytes")]
fn a_query_of_no_metric_is_found() {
    assert_exists("rate(cudasnoop_memory_life_bytes[5m])", &series());
}

#[test]
#[should_panic(expected = "has no label kernel")]
fn a_label_of_no_metric_is_found() {
    assert_exists("cudasnoop_memory_held_bytes{kernel=\"a\"}", &series());
}

/// Every metric is shown or watched over, but for those that only say how much to trust the rest.
#[test]
fn no_metric_is_forgotten() {
    let series = series();
    let mut used: BTreeSet<String> = dashboard_queries()
        .iter()
        .flat_map(|query| assert_exists(query, &series))
        .collect();
    for rule in rules(&monitoring()) {
        used.extend(assert_exists(rule["expr"].as_str().unwrap(), &series));
    }
    let page = fs::read_to_string(folder().join("../docs/metrics.md")).unwrap();
    let mut unused = Vec::new();
    for line in page
        .lines()
        .filter(|line| line.starts_with("| `cudasnoop_"))
    {
        let name = line.split('`').nth(1).unwrap();
        if !used.iter().any(|metric| metric.starts_with(name)) {
            unused.push(name);
        }
    }
    assert_eq!(
        unused,
        [
            "cudasnoop_probes_attached",
            "cudasnoop_probe_cost_seconds",
            "cudasnoop_idle_processes",
            "cudasnoop_process_info",
            "cudasnoop_series_limited_total",
            "cudasnoop_recording_bytes",
            "cudasnoop_recording_budget_bytes",
            "cudasnoop_otlp_pushes_total",
            "cudasnoop_agent_start_time_seconds",
            "cudasnoop_build_info",
        ]
    );
}

/// promtool runs the rules over series of its own. What is left to see here is that each alert has
/// a series that makes it fire and one that does not.
#[test]
fn each_alert_fires_and_keeps_silent() {
    let work = tempfile::tempdir().unwrap();
    let objects = monitoring();
    let rule_file = work.path().join("rules.yaml");
    // JSON is YAML.
    fs::write(
        &rule_file,
        only(&objects, "PrometheusRule")["spec"].to_string(),
    )
    .unwrap();
    output_of(
        Command::new(tool("promtool"))
            .args(["check", "rules"])
            .arg(&rule_file),
    );
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/alerts.yaml");
    let tests = work.path().join("alerts.yaml");
    fs::copy(&fixture, &tests).unwrap();
    output_of(
        Command::new(tool("promtool"))
            .args(["test", "rules"])
            .arg(&tests),
    );

    let tests = &documents(&fs::read_to_string(&fixture).unwrap())[0];
    let series = series();
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let expressions: BTreeMap<String, BTreeSet<String>> = rules(&objects)
        .iter()
        .map(|rule| {
            let metrics = assert_exists(rule["expr"].as_str().unwrap(), &series);
            (rule["alert"].as_str().unwrap().to_owned(), metrics)
        })
        .collect();
    for test in tests["tests"].as_array().unwrap() {
        let quiet: BTreeSet<&str> = test["input_series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|input| input["series"].as_str().unwrap())
            .filter(|series| series.contains("=\"silent"))
            .map(|series| series.split('{').next().unwrap())
            .collect();
        for expected in test["alert_rule_test"].as_array().unwrap() {
            let alert = expected["alertname"].as_str().unwrap();
            let Some(alerts) = expected["exp_alerts"].as_array() else {
                continue;
            };
            assert!(!alerts.is_empty());
            fires.insert(alert.to_owned());
            if expressions[alert]
                .iter()
                .all(|metric| quiet.contains(metric.as_str()))
            {
                silent.insert(alert.to_owned());
            }
        }
    }
    let all: BTreeSet<String> = expressions.into_keys().collect();
    assert_eq!(fires, all);
    assert_eq!(silent, all);
}

#[test]
fn grafana_knows_every_field_of_the_dashboard() {
    let python = std::env::var_os("CUDASNOOP_PYTHON").expect("run `cargo xtask test`");
    let root = folder().join("..");
    let read = output_of(
        Command::new(python)
            .arg(root.join("tests/grafana/check.py"))
            .arg(folder().join("monitoring/dashboard.json")),
    );
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_contains(&read, &dashboard(), "");
}

/// Panics unless all of `part` is in `whole`, where defaults may have come in.
fn assert_contains(whole: &Value, part: &Value, path: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                let inside = format!("{path}/{key}");
                let found = whole
                    .get(key)
                    .unwrap_or_else(|| panic!("{inside} is unknown"));
                assert_contains(found, value, &inside);
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len(), "{path}");
            for (number, (whole, part)) in whole.iter().zip(part).enumerate() {
                assert_contains(whole, part, &format!("{path}/{number}"));
            }
        }
        _ => assert_eq!(whole, part, "{path}"),
    }
}

/// What the dashboard's users expect of one: see Grafana's own advice for provisioned dashboards.
#[test]
fn the_dashboard_has_units_descriptions_and_variables() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "cudasnoop");
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        variables,
        ["datasource", "namespace", "pod", "process", "gpu"]
    );
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        assert!(panel["description"].as_str().unwrap().len() > 10, "{panel}");
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{panel}"
        );
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}");
        }
    }
}

/// The Prometheus operator's API reference, as far as it is used here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PodMonitorSpec {
    namespace_selector: BTreeMap<String, bool>,
    selector: Selector,
    pod_metrics_endpoints: Vec<PodMetricsEndpoint>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PodMetricsEndpoint {
    port: String,
    path: String,
    interval: String,
    relabelings: Vec<BTreeMap<String, Value>>,
}

/// The `PodMonitor` finds the pods of all overlays, and the port by its name.
#[test]
fn the_pod_monitor_finds_every_pod() {
    let objects = monitoring();
    let monitor = only(&objects, "PodMonitor");
    assert_eq!(monitor["apiVersion"], "monitoring.coreos.com/v1");
    let spec: PodMonitorSpec = serde_json::from_value(monitor["spec"].clone()).unwrap();
    assert_eq!(
        spec.namespace_selector,
        BTreeMap::from([("any".to_owned(), true)])
    );
    let [endpoint] = spec.pod_metrics_endpoints.as_slice() else {
        panic!("{spec:?}");
    };
    assert_eq!(
        (endpoint.path.as_str(), endpoint.interval.as_str()),
        ("/metrics", "15s")
    );
    assert_eq!(endpoint.relabelings.len(), 1);
    for (overlay, kind) in [
        ("k3s", "Deployment"),
        ("plain", "Deployment"),
        ("daemonset", "DaemonSet"),
    ] {
        let objects = documents(&rendered(&folder().join("overlays").join(overlay)));
        let template = &only(&objects, kind)["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        for (label, value) in &spec.selector.match_labels {
            assert_eq!(labels[label], value.as_str(), "{overlay}");
        }
        let lists = ["initContainers", "containers"].map(|list| template["spec"][list].as_array());
        let mut ports = lists
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|container| container["ports"].as_array().into_iter().flatten());
        assert!(
            ports.any(|port| port["name"] == endpoint.port.as_str()),
            "{overlay}"
        );
    }
}
