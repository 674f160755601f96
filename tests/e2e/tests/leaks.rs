//! A leak, from the probe to the finding: a program that forgets one of its buffers beside all that
//! it frees, and its healthy twin, which does the same and forgets nothing.

use std::path::Path;

use e2e::{cudasnoop, succeed, workload};
use serde_json::Value;

/// Steps of 10 ms each: a leak is told after a minute at least, in the last three quarters of a
/// recording, where the program frees ten times what it keeps (docs/leaks.md).
const STEPS: u64 = 9500;
const SCRATCH: u64 = 512 << 10;

/// Both at once, in one recording: the leaking one's report, and the other's.
fn record(file: &Path) -> [Value; 2] {
    let demo = workload("demo");
    let demo = demo.to_str().expect("a path of letters");
    let run = format!("{demo} --steps {STEPS} --step-ms 10 --forget");
    let script = format!("{run} 0 & {run} 10; wait");
    let mut command = cudasnoop();
    command.arg("record").arg("-o").arg(file);
    let output = succeed(command.args(["--", "sh", "-c", &script]));
    let reports: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a report"))
        .collect();
    let of = |leaks: bool| {
        let mut reports = reports.iter();
        let found = reports.find(|report| (report["live_bytes"] != 0) == leaks);
        found.expect("one of each").clone()
    };
    [of(true), of(false)]
}

/// Findings about memory that grows.
fn growing(report: &Value) -> Vec<&Value> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let is_about =
        |finding: &&Value| finding["family"] == "leak" || finding["family"] == "allocator";
    findings.filter(is_about).collect()
}

#[test]
fn the_one_that_forgets_is_blamed_for_the_size_that_it_forgets() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let [leaky, healthy] = record(&file);
    assert_eq!(leaky["live_bytes"], STEPS / 10 * SCRATCH);
    let pid = &leaky["pids"][0];
    assert_ne!(pid, &healthy["pids"][0]);
    for command in ["leaks", "report"] {
        let output = succeed(cudasnoop().args([command, "--json"]).arg(&file));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = growing(&report);
        let [leak] = &found[..] else {
            panic!("{found:#?}");
        };
        assert_eq!(leak["id"], format!("leak.growth:{pid}:0:device:demo"));
        assert!(
            leak["severity"] == "warning" || leak["severity"] == "critical",
            "{leak:#}"
        );
        let evidence = &leak["evidence"][0];
        assert_eq!(&evidence["pid"], pid);
        let caller = evidence["caller"].as_str().expect("a file");
        assert!(caller.ends_with("/demo"), "{caller}");
        let what = evidence["what"].as_str().expect("text");
        assert!(
            what.starts_with("blocks above 448 KiB and up to 512 KiB"),
            "{what}"
        );
        let number = |key: &str| leak["numbers"][key].as_f64().expect("a number");
        let seconds = report["recording"]["duration_ns"].as_f64().expect("a time") / 1e9;
        let truth = leaky["live_bytes"].as_f64().expect("bytes") / seconds;
        let (low, high) = (
            number("growth_low_bytes_per_second"),
            number("growth_high_bytes_per_second"),
        );
        assert!(low < truth && truth < high, "{truth}: {leak:#}");
    }
}
