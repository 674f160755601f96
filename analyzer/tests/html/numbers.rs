//! The page writes numbers as the text reports do.

use std::fs;

use analyzer::html::assets;
use analyzer::text::{bytes, count, duration};
use browser::{Browser, Colours};
use serde_json::json;
use tempfile::TempDir;

/// The largest whole number that JavaScript can tell from the next.
const MOST: u64 = (1 << 53) - 1;

#[test]
fn bytes_durations_and_counts_read_alike() {
    let mut values = vec![0, MOST];
    for power in 0..53 {
        let at = 1_u64 << power;
        values.extend([at - 1, at, at + 1, at + at / 3]);
    }
    for digits in 0..15 {
        let at = 10_u64.pow(digits);
        values.extend([
            at - 1,
            at,
            6 * at,
            995 * at / 100,
            9_994 * at / 1000,
            9_995 * at / 1000,
        ]);
        values.extend([59_949, 59_951, 60_000, 3_600_000, 86_400_000].map(|ms| ms * at / 1000));
    }
    values.retain(|value| *value <= MOST);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("numbers.html");
    let page = format!(
        "<!doctype html><meta charset=utf-8><script>{}\n</script><script>{}\n\
         window.read = {}.map((value) => [bytes(value), duration(value), count(value)]);\
         document.documentElement.dataset.ready = 'yes';</script>",
        assets::UPLOT,
        assets::PARTS,
        json!(values),
    );
    fs::write(&file, page).expect("the page can be written");
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 400, 400, Colours::Light);
    let read = page.evaluate("window.read");
    let read = read.as_array().expect("values");
    assert_eq!(read.len(), values.len());
    for (value, read) in values.into_iter().zip(read) {
        assert_eq!(
            *read,
            json!([bytes(value), duration(value), count(value)]),
            "{value}"
        );
    }
}
