//! Kernels whose driver handles no call gave out, as cuFFT's: named where those that were looked up show
//! where the driver keeps names, and never by another kernel's name.

use std::{collections::BTreeMap, thread, time::Duration};

use e2e::{Recorder, Waiting, assert_accounts, assert_same_calls, record_with, report};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Launches by kernel, as the workload knows them and as the report has them; and those without a name.
struct Launches {
    truth: BTreeMap<String, u64>,
    named: BTreeMap<String, u64>,
    unnamed: u64,
}

fn hidden(arguments: &[&str]) -> Launches {
    let run = record_with(&[], "hidden", arguments, |_| {});
    let report = report(&run.file);
    assert_same_calls(&report, &run.truth);
    assert_eq!(assert_accounts(&report).1, 0);
    launches(&report, &run.truth)
}

fn launches(report: &Value, truth: &Value) -> Launches {
    let count = |value: &Value| value.as_u64().expect("a number");
    let truth = truth["kernels"].as_object().expect("kernels");
    let mut launches = Launches {
        truth: truth
            .iter()
            .map(|(name, n)| (name.clone(), count(n)))
            .collect(),
        named: BTreeMap::new(),
        unnamed: 0,
    };
    for kernel in report["kernels"].as_array().expect("kernels") {
        let number = count(&kernel["launches"]);
        match kernel["name"].as_str() {
            Some(name) => *launches.named.entry(name.to_owned()).or_default() += number,
            None => launches.unnamed += number,
        }
    }
    launches
}

fn total(launches: &BTreeMap<String, u64>) -> u64 {
    launches.values().sum()
}

#[test]
fn all_have_their_names_though_their_handles_are_used_again() {
    let launches = hidden(&["--rest-ms", "300"]);
    assert_eq!(launches.named, launches.truth);
    assert_eq!(launches.unnamed, 0);
}

/// Their handles have been used again when they are looked at.
#[test]
fn a_module_that_is_gone_at_once_leaves_no_wrong_name() {
    for _ in 0..5 {
        let launches = hidden(&["--modules", "20"]);
        for (name, number) in &launches.named {
            assert!(
                launches.truth[name] >= *number,
                "{name}: {number} of {:?}",
                launches.truth
            );
        }
        assert_eq!(
            total(&launches.named) + launches.unnamed,
            total(&launches.truth)
        );
        assert_eq!(launches.named.get("looked_up_0"), Some(&1));
    }
}

#[test]
fn two_names_do_not_show_where_others_are() {
    let launches = hidden(&["--looked-up", "2", "--rest-ms", "100", "--modules", "1"]);
    assert_eq!(total(&launches.named), 2);
    assert_eq!(launches.unnamed, total(&launches.truth) - 2);
}

/// The recorder stands still while a module ends and the ring is full: what it had known of the module's
/// handles is not told of those that use them next.
#[test]
fn an_unloading_that_is_lost_leaves_no_wrong_name() {
    let arguments = ["--modules", "2", "--rest-ms", "300", "--crowd", "2000"];
    let mut program = Waiting::start("call,unload,unloaded", "hidden", &arguments);
    let folder = tempfile::tempdir().expect("a folder");
    let pid = program.pid.to_string();
    let recorder = Recorder::start(folder.path(), ["-p", &pid, "--ring-size", "64KiB"]);
    recorder.says(&["is traced"]);
    program.step();
    // Longer than names are held back: those of the first module are sure.
    thread::sleep(Duration::from_secs(2));
    recorder.signal(Signal::SIGSTOP);
    program.step();
    recorder.signal(Signal::SIGCONT);
    // It looks for what was lost four times a second.
    thread::sleep(Duration::from_secs(2));
    program.step();
    program.step();
    let truth = program.go();
    let report = report(&recorder.finish());
    assert_accounts(&report);
    let mut accounts = report["accounts"].as_array().expect("accounts").iter();
    let unloadings = accounts.find(|account| account["api"] == "cuModuleUnload");
    let lost = &unloadings.expect("of them")["lost_ring"];
    assert!(lost.as_u64().is_some_and(|lost| lost >= 1), "{lost}");
    let launches = launches(&report, &truth);
    assert_eq!(launches.named, launches.truth);
}

/// As where a program had looked all kernels up before: of eight that are alike, the eighth and those
/// after it.
#[test]
fn many_of_unknown_name_show_it_themselves() {
    let launches = hidden(&[
        "--looked-up",
        "0",
        "--mangled",
        "--kernels",
        "10",
        "--modules",
        "1",
        "--rest-ms",
        "300",
    ]);
    let expected = [8, 9, 10].map(|index: u64| {
        let name = format!("hidden_0_{index}");
        (format!("_Z{}{name}Pf", name.len()), index)
    });
    assert_eq!(launches.named, BTreeMap::from(expected));
    assert_eq!(launches.unnamed, (1..=7).sum::<u64>());
}
