//! A page never pretends that its recording is whole.

use browser::{Browser, Colours};
use serde_json::Value;
use trace::Fact;
use trace::fact::Gap;

use crate::sample::{self, ENGINE, SECOND, START};
use crate::{Recording, assert_quiet, document, marks, page_of};

fn banners(recording: &Recording) -> (String, Value) {
    let file = recording.file("page.html");
    page_of("report", &recording.path, &file, &[]);
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 1000, 800, Colours::Light);
    let banners = page.evaluate(
        "[...document.querySelectorAll('.banner')].map((each) => each.innerText).join('\\n')",
    );
    let supplement = document(&mut page, "supplement");
    let listed = page.evaluate("document.querySelectorAll('.marks li').length");
    assert!(listed.as_u64() > Some(0), "no moment is listed");
    assert_quiet(&mut page);
    (banners.as_str().expect("text").to_owned(), supplement)
}

#[test]
fn losses_and_gaps_are_the_first_thing_that_it_says() {
    let mut sample = sample::everything();
    let gap = Gap {
        pid: ENGINE,
        reason: "the recorder was stopped".to_owned(),
        duration: Some(SECOND),
    };
    sample.fact(START + 9 * SECOND, ENGINE, &Fact::Gap(gap));
    sample.end(START + 10 * SECOND, |account| {
        if account.api == "cudaMalloc" {
            account.lost_ring += 7;
            account.made += 7;
        }
    });
    let (said, supplement) = banners(&Recording::of(&sample));
    assert!(said.contains("not whole"), "{said}");
    assert!(
        said.contains("7 calls found the ring buffer full"),
        "{said}"
    );
    assert!(said.contains("2 stretches"), "{said}");
    assert_eq!(
        (marks(&supplement, "gap"), marks(&supplement, "lost")),
        (2, 1)
    );
    // A request that the sample's device had no memory for.
    assert_eq!(marks(&supplement, "failed"), 1);
}

#[test]
fn a_recording_that_breaks_off_says_so() {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    let mut torn = sample.file();
    torn.truncate(torn.len() - 8);
    torn.extend_from_within(..100);
    let (said, _) = banners(&Recording::bytes(&torn));
    assert!(said.contains("cut off before its end"), "{said}");
    assert!(said.contains("what came after is missing"), "{said}");
}

#[test]
fn a_whole_recording_says_so_too() {
    let mut sample = sample::Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "quiet", true));
    sample.end(START + SECOND, |_| {});
    let recording = Recording::of(&sample);
    let file = recording.file("page.html");
    page_of("report", &recording.path, &file, &[]);
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 1000, 800, Colours::Light);
    assert_eq!(
        page.evaluate("document.querySelectorAll('.banner').length"),
        0
    );
    assert_eq!(page.text("#fact-lost").lines().next(), Some("nothing"));
    assert_quiet(&mut page);
}
