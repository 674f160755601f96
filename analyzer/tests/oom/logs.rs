//! The log alone.

use analyzer::oom::{Confidence, Setting, Verdict, write_text};
use analyzer::text::Colour;

use crate::{fixtures, of_file, of_text};

const MIB: u64 = 1 << 20;

#[test]
fn every_log_has_its_verdicts() {
    for (file, verdicts) in [
        ("cached-1.3.log", &[Verdict::Fragmentation] as &[Verdict]),
        ("reserved-1.13.log", &[Verdict::OtherProcess]),
        ("allowed-1.8.log", &[Verdict::Limit, Verdict::Limit]),
        ("capacty-2.1.log", &[Verdict::Capacity]),
        ("container-processes.log", &[Verdict::OtherProcess]),
        ("private-pools-2.6.log", &[Verdict::GraphMemory]),
        (
            "fragmentation-2.11.log",
            &[Verdict::Fragmentation, Verdict::Fragmentation],
        ),
        ("limit-2.11.log", &[Verdict::Limit, Verdict::OtherProcess]),
        (
            "host-spill-windows.log",
            &[Verdict::HostSpill, Verdict::HostSpill],
        ),
        (
            "two-ranks-wrapped.log",
            &[Verdict::Capacity, Verdict::Fragmentation],
        ),
        (
            "no-numbers.log",
            &[Verdict::Unknown, Verdict::Capacity, Verdict::Unknown],
        ),
    ] {
        let report = of_file(file);
        let found: Vec<_> = report
            .messages
            .iter()
            .map(|message| message.verdict)
            .collect();
        assert_eq!(found, verdicts, "{file}");
    }
    assert_eq!(
        std::fs::read_dir(fixtures().join("oom")).unwrap().count(),
        11
    );
}

#[test]
fn ranks_that_mix_are_told_apart() {
    let report = of_file("two-ranks-wrapped.log");
    let [first, second] = report.messages.as_slice() else {
        panic!("{} messages", report.messages.len());
    };
    assert_eq!(
        (first.writer.as_deref(), first.device),
        (Some("[rank0]"), Some(0))
    );
    assert_eq!(
        (second.writer.as_deref(), second.device),
        (Some("[rank1]"), Some(1))
    );
    assert_eq!(
        (first.asked, first.free),
        (Some(1536 * MIB), Some(612 * MIB))
    );
    assert_eq!(first.short_by, Some(924 * MIB));
    assert_eq!(first.would_have_fitted, Some(612 * MIB));
    assert_eq!(second.unallocated, Some(3_876_207_985));
}

#[test]
fn every_field_is_read() {
    let report = of_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB. GPU 3 has a \
         total capacity of 10.00 GiB of which 1024.00 KiB is free. Process 7 has 1.00 GiB memory \
         in use. Including non-PyTorch memory, this process has 8.50 GiB memory in use. 9.00 GiB \
         allowed; Of the allocated memory 8.00 GiB is allocated by PyTorch, with 64.00 MiB \
         allocated in private pools (e.g., CUDA Graphs), and 24.00 MiB is reserved by PyTorch but \
         unallocated. If reserved but unallocated memory is large try setting \
         PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    );
    let message = &report.messages[0];
    assert_eq!(message.device, Some(3));
    assert_eq!(message.total, Some(10 << 30));
    assert_eq!(message.free, Some(MIB));
    assert_eq!(message.allowed, Some(9 << 30));
    assert_eq!(message.allocated, Some(8 << 30));
    assert_eq!(message.reserved, Some((8 << 30) + 24 * MIB));
    assert_eq!(message.private_pools, Some(64 * MIB));
    assert_eq!(message.this_process, Some((8 << 30) + 512 * MIB));
    assert_eq!(message.non_pytorch, Some(488 * MIB));
    assert_eq!(message.other_processes.len(), 1);
    assert_eq!(
        (
            message.other_processes[0].pid,
            message.other_processes[0].bytes
        ),
        (7, Some(1 << 30))
    );
    assert_eq!(message.short_by, Some(99 * MIB));
    assert_eq!(message.would_have_fitted, Some(0));
}

#[test]
fn what_is_not_said_is_null() {
    let report = of_text("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 Gi");
    let message = &report.messages[0];
    assert_eq!(
        (message.verdict, message.confidence),
        (Verdict::Unknown, Confidence::None)
    );
    assert_eq!(message.asked, Some(20 * MIB));
    assert_eq!(
        (message.total, message.free, message.short_by),
        (None, None, None)
    );
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["messages"][0]["free"].is_null());
    assert_eq!(json["messages"][0]["verdict"], "unknown");
}

#[test]
fn nvml_that_does_not_know_is_null() {
    let report = of_file("host-spill-windows.log");
    assert_eq!(report.messages[1].this_process, None);
}

#[test]
fn the_setting_is_that_of_the_version() {
    let setting = |file: &str, place: usize| of_file(file).messages[place].next_step.setting;
    let expandable = |variable| {
        Some(Setting {
            variable,
            named: true,
            value: "expandable_segments:True",
        })
    };
    let file = "fragmentation-2.11.log";
    assert_eq!(setting(file, 0), expandable("PYTORCH_CUDA_ALLOC_CONF"));
    assert_eq!(setting(file, 1), expandable("PYTORCH_ALLOC_CONF"));
    assert_eq!(
        setting("cached-1.3.log", 0).unwrap().value,
        "max_split_size_mb:128"
    );
    assert_eq!(setting("capacty-2.1.log", 0), None);
}

#[test]
fn a_message_that_repeats_is_counted() {
    let report = of_file("container-processes.log");
    assert_eq!((report.messages.len(), report.messages[0].repeats), (1, 2));
    // This process is listed under an id that it does not know: the one that can hold what
    // PyTorch reserved, so 20.01 GiB and not 27.50 GiB.
    assert_eq!(report.messages[0].other_processes[0].pid, 1_700_001);
}

#[test]
fn prose_is_no_message() {
    for text in [
        "",
        "we may run out of memory",
        "CUDA out of memory",
        "retrying after CUDA out of memory.",
        "\u{1b}[31m\u{1b}[",
    ] {
        assert!(of_text(text).messages.is_empty(), "{text}");
    }
}

#[test]
fn lines_fit_the_page() {
    for entry in std::fs::read_dir(fixtures().join("oom")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let mut output = Vec::new();
        write_text(&of_file(&name), Colour::Off, &mut output).unwrap();
        for line in String::from_utf8(output).unwrap().lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn the_corpus_is_replayed() {
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures().join("fuzz/oom")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let report = of_text(&String::from_utf8_lossy(&bytes));
        serde_json::to_string(&report).unwrap();
        write_text(&report, Colour::Off, &mut std::io::sink()).unwrap();
        count += 1;
    }
    assert!(count > 50, "{count} files");
}

#[test]
fn the_docs_name_every_key() {
    let docs = std::fs::read_to_string(fixtures().join("../../../docs/oom.md")).unwrap();
    let json = serde_json::to_value(of_file("fragmentation-2.11.log")).unwrap();
    let message = json["messages"][0].as_object().unwrap();
    assert!(message.len() > 30, "{message:?}");
    for key in message.keys() {
        assert!(
            docs.contains(&format!("`{key}`")) || docs.contains(&format!("`{key}[]`")),
            "{key}"
        );
    }
    assert!(docs.contains(analyzer::oom::SCHEMA));
}

#[test]
fn the_report_of_two_ranks() {
    let mut output = Vec::new();
    write_text(&of_file("two-ranks-wrapped.log"), Colour::Off, &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let path = fixtures().join("../golden/oom.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        text,
        std::fs::read_to_string(path).unwrap(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}
