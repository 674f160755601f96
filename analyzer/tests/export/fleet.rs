//! The questions of docs/fleet, asked of several pods' exports.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use agent_common::{flags, launch::Dimensions};
use serde_json::{Value, json};
use tempfile::TempDir;
use trace::fact::{Clock, Kernel, Pod, Process, Settings};
use trace::{Event, Fact, Kind};

use crate::sample::{SECOND, START, Sample};
use crate::{directory, export, python, script, text, write};

const PID: u32 = 31;
const MIB: u64 = 1 << 20;

/// One pod's recording: 10 s over midnight, in which each second 10 MiB come and less go, PyTorch
/// has so much of its memory unused, and a kernel is launched so often.
fn pod(name: &str, model: &str, leak: u64, unused: u64, launches: u64) -> Sample {
    let mut sample = Sample::new();
    let settings = Settings {
        host: format!("host-of-{name}"),
        pod: Some(Pod {
            name: Some(name.to_owned()),
            namespace: Some("serving".to_owned()),
            uid: None,
            node: Some("node-1".to_owned()),
        }),
        ..Settings::default()
    };
    sample.fact(START, 0, &Fact::Settings(settings));
    // 5 s before a midnight.
    let realtime = 20_000 * 86_400 * SECOND - 5 * SECOND;
    let clock = Clock {
        monotonic: START,
        boottime: START,
        realtime,
    };
    sample.fact(START, 0, &Fact::Clock(clock));
    let process = Process {
        pid: PID,
        start_time: 1,
        exe: "/usr/bin/python3".to_owned(),
        title: "VLLM::EngineCore".to_owned(),
        command: format!("python3 /usr/bin/vllm serve {model} --port 8000"),
        from_start: true,
        ..Process::default()
    };
    sample.fact(START, PID, &Fact::Process(process));
    let at = |second: u64| Event {
        timestamp: START + second * SECOND,
        pid: PID,
        device: Some(0),
        ..Event::default()
    };
    let sized = |bytes: u64| Some(i64::try_from(bytes).expect("a size"));
    for second in 0..10 {
        let blocks = [(0, 10 * MIB - leak), (1, leak)];
        for (which, size) in blocks.into_iter().filter(|(_, size)| *size > 0) {
            let block = Event {
                address: Some(0x7000_0000_0000 + (second * 2 + which) * 64 * MIB),
                size: sized(size),
                ..at(second)
            };
            sample.call("cudaMalloc", 0, 100, block);
        }
        let freed = Event {
            address: Some(0x7000_0000_0000 + second * 2 * 64 * MIB),
            ..at(second)
        };
        sample.row("cudaFree", Kind::Begin, freed.clone());
        sample.call("cudaFree", 0, 100, freed);
        let report = Event {
            address: Some(0x7000_0000_0000),
            size: sized(1),
            allocated: Some(100 * MIB - unused * MIB),
            reserved: Some(100 * MIB),
            ..at(second)
        };
        sample.row("c10::reportMemoryUsageToProfiler", Kind::Call, report);
    }
    let launch = Event {
        kernel: Some(4),
        dimensions: Some(Dimensions {
            grid: [1; 3],
            block: [32, 1, 1],
        }),
        ..at(9)
    };
    for _ in 0..launches {
        sample.row("cudaLaunchKernel", Kind::Call, launch.clone());
    }
    let captured = Event {
        flags: flags::CAPTURED,
        ..launch
    };
    sample.row("cudaLaunchKernel", Kind::Call, captured);
    sample.call("cudaGraphLaunch", 0, 1_000, at(9));
    let kernel = Kernel {
        id: 4,
        name: Some(format!("kernel_of_{}", model.replace('/', "_"))),
        module: None,
        handle: 1,
    };
    sample.fact(START + 9 * SECOND, PID, &Fact::Kernel(kernel));
    sample.end(START + 10 * SECOND, |_| {});
    sample
}

fn fleet(directory: &TempDir) -> PathBuf {
    let fleet = directory.path().join("fleet");
    for sample in [
        ("a-0", pod("a-0", "org/small", 0, 10, 3)),
        ("a-1", pod("a-1", "org/small", 2 * MIB, 30, 4)),
        ("b-0", pod("b-0", "big", 5 * MIB, 50, 5)),
    ] {
        let recording = write(directory, sample.0, &sample.1);
        let output = export(&[&"--format", &"parquet", &"-o", &fleet, &recording]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    fleet
}

/// The answers to the questions of docs/fleet, each a list of rows.
fn ask(interpreter: &Path, engine: &str, fleet: &Path, questions: [&str; 3]) -> [Vec<Value>; 3] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet");
    let [first, second, third] = questions.map(|question| folder.join(question));
    let arguments: [&dyn AsRef<OsStr>; 5] = [&engine, &fleet, &first, &second, &third];
    let printed = script(interpreter, "fleet.py", &arguments);
    let answers: Vec<Vec<Value>> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("ANSWER "))
        .map(|answer| serde_json::from_str(answer).expect("JSON"))
        .collect();
    answers.try_into().expect("an answer to each question")
}

/// The fields of each row; numbers as doubles, for each engine has types of its own.
fn fields(rows: &[Value], names: &[&str]) -> Vec<Value> {
    let plain = |value: &Value| value.as_f64().map_or_else(|| value.clone(), Value::from);
    rows.iter()
        .map(|row| names.iter().map(|name| plain(&row[name])).collect())
        .collect()
}

fn check(interpreter: &Path, engine: &str) {
    let directory = directory();
    let fleet = fleet(&directory);
    for date in ["2024-10-03", "2024-10-04"] {
        assert!(
            fleet.join(format!("pod=a-0/date={date}")).is_dir(),
            "{date}"
        );
    }
    let questions = [
        "leak-slopes.sql",
        "fragmentation-by-model.sql",
        "launch-mix.sql",
    ];
    let [leaks, fragmentation, mix] = ask(interpreter, engine, &fleet, questions);
    assert_eq!(
        fields(&leaks, &["pod", "bytes_per_second", "fit"])[..2],
        [
            json!(["b-0", 5_242_880.0, 1.0]),
            json!(["a-1", 2_097_152.0, 1.0])
        ]
    );
    assert_eq!(
        (&leaks[2]["pod"], leaks[2]["bytes_per_second"].as_f64()),
        (&json!("a-0"), Some(0.0))
    );
    let names = [
        "model",
        "pods",
        "allocators",
        "unused_share_at_most",
        "unused_share_at_last",
    ];
    assert_eq!(
        fields(&fragmentation, &names),
        [
            json!(["big", 1.0, 1.0, 0.5, 0.5]),
            json!(["org/small", 2.0, 2.0, 0.2, 0.2])
        ]
    );
    assert_eq!(
        fields(&mix, &["work", "launches", "pods", "percent"]),
        [
            json!(["kernel_of_org_small", 7.0, 2.0, 46.67]),
            json!(["kernel_of_big", 5.0, 1.0, 33.33]),
            json!(["cudaGraphLaunch", 3.0, 3.0, 20.0]),
        ]
    );
}

#[test]
fn duckdb_answers_the_questions_of_a_fleet() {
    check(&python(), "duckdb");
}

#[test]
#[ignore = "takes Java 17 and a Python with pyspark, named by CUDASNOOP_SPARK_PYTHON"]
fn spark_answers_the_same_by_the_same_text() {
    let python = std::env::var_os("CUDASNOOP_SPARK_PYTHON")
        .expect("CUDASNOOP_SPARK_PYTHON names no Python with pyspark");
    check(Path::new(&python), "spark");
}
