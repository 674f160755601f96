//! Takes a picture of a page, as those in `docs/images` were taken:
//! `cargo run -p browser --example picture -- PAGE PNG WIDTH HEIGHT [dark] [JAVASCRIPT]`.
//!
//! `PAGE` is a file or an address; the script runs before the picture is taken, to scroll or to
//! point at something.

use std::path::Path;
use std::time::Duration;
use std::{env, fs, thread};

use browser::{Browser, Colours};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [page, png, width, height, rest @ ..] = &arguments[..] else {
        panic!("PAGE PNG WIDTH HEIGHT [dark] [JAVASCRIPT]");
    };
    let (colours, script) = match rest {
        [dark, script @ ..] if dark == "dark" => (Colours::Dark, script.first()),
        script => (Colours::Light, script.first()),
    };
    let size = |text: &String| text.parse().expect("a number of pixels");
    let mut browser = Browser::start();
    let (width, height) = (size(width), size(height));
    let mut page = if page.starts_with("http") {
        browser.open(page, width, height, colours)
    } else {
        browser.file(Path::new(page), width, height, colours)
    };
    if let Some(script) = script {
        page.evaluate(script);
    }
    // Charts are drawn once their width is known.
    thread::sleep(Duration::from_millis(400));
    fs::write(png, page.picture(false)).expect("the picture can be written");
    for said in page.console() {
        eprintln!("{said}");
    }
}
