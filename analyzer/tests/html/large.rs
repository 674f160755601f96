//! A million events: the page stays small, and loses neither a peak nor a byte.

use std::fs::{self, File};
use std::io::BufWriter;

use agent_common::ApiId;
use browser::{Browser, Colours};
use serde_json::Value;
use tempfile::TempDir;
use trace::{Event, Fact, Kind, Writer};

use crate::sample::{ENGINE, START, process};
use crate::{assert_quiet, document, page_of};

const CALLS: u64 = 1_000_000;

/// Blocks that are never freed.
const KEPT: u64 = 20_000;

const SIZE: u64 = 1 << 16;

/// One block that is there for a moment.
const PEAK: u64 = 40 << 30;

fn recording(folder: &TempDir) -> std::path::PathBuf {
    let path = folder.path().join("large.arrows");
    let file = BufWriter::new(File::create(&path).expect("the file can be written"));
    let mut writer = Writer::new(file).expect("the file can be written");
    let text = Some(process(ENGINE, "a server", true).to_text());
    let fact = |text, timestamp| Event {
        timestamp,
        pid: ENGINE,
        tid: ENGINE,
        kind: Kind::Fact,
        text,
        ..Event::default()
    };
    writer.push(&fact(text, START)).expect("it takes all");
    let mut call = |n: u64, api, address: u64, size: Option<u64>| {
        let event = Event {
            timestamp: START + n * 1000,
            duration: Some(500),
            pid: ENGINE,
            tid: ENGINE,
            api: ApiId::by_name(api),
            result: Some(0),
            device: Some(0),
            address: Some(address),
            size: size.map(u64::cast_signed),
            ..Event::default()
        };
        writer.push(&event).expect("it takes all");
    };
    // Every other block is freed by the next call, but those that are kept.
    let mut live = None;
    let mut kept = 0;
    for n in 0..CALLS {
        let address = 0x7000_0000_0000 + n * (SIZE << 1);
        if n == CALLS / 3 {
            call(n, "cudaMalloc", 0x10_0000_0000, Some(PEAK));
        } else if n == CALLS / 3 + 1 {
            call(n, "cudaFree", 0x10_0000_0000, None);
        } else if let Some(address) = live.take() {
            call(n, "cudaFree", address, None);
        } else {
            call(n, "cudaMalloc", address, Some(SIZE));
            if kept < KEPT && n % 5 == 0 {
                kept += 1;
            } else {
                live = Some(address);
            }
        }
    }
    writer
        .push(&fact(Some(Fact::End.to_text()), START + CALLS * 1000))
        .expect("it takes all");
    writer.finish().expect("the file can be written");
    path
}

#[test]
fn a_page_about_a_million_events_is_small_and_exact() {
    let folder = TempDir::new().expect("a folder");
    let input = recording(&folder);
    let file = folder.path().join("page.html");
    let json = page_of("report", &input, &file, &[]);
    let size = fs::metadata(&file).expect("the page").len();
    assert!(size < 5 << 20, "{size} bytes");
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 1400, 1000, Colours::Light);
    assert_eq!(document(&mut page, "report"), json);
    let supplement = document(&mut page, "supplement");
    let memory = &json["memory"][0];
    let live = memory["live_bytes"].as_u64().expect("live bytes");
    assert!((KEPT * SIZE..=(KEPT + 1) * SIZE).contains(&live), "{live}");
    let peak = memory["peak_bytes"].as_u64().expect("a peak");
    assert!(peak > PEAK);
    let most = supplement["curves"][0]["live"]["most"]
        .as_array()
        .expect("values");
    assert_eq!(most.iter().filter_map(Value::as_u64).max(), Some(peak));
    assert!(most.len() <= 1024);
    let map = &supplement["maps"][0];
    let sum = |key: &str, bytes: &str| -> u64 {
        let pieces = map[key].as_array().expect("pieces").iter();
        pieces.filter_map(|piece| piece[bytes].as_u64()).sum()
    };
    assert_eq!(sum("bars", "size") + sum("rest", "bytes"), live);
    let bars = map["bars"].as_array().expect("bars").len() as u64;
    let blocks = memory["live_blocks"].as_u64().expect("blocks");
    assert_eq!(bars + sum("rest", "pieces"), blocks);
    assert_quiet(&mut page);
}
