//! Names that other programs choose.

use browser::{Browser, Colours};
use serde_json::{Value, json};
use trace::fact::{Caller, Kernel, Process};
use trace::{Event, Fact, Kind};

use crate::sample::{ENGINE, SECOND, START, Sample, at, process};
use crate::{Recording, assert_quiet, document, page_of};

const NAMES: [&str; 7] = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "<!--<script>",
    "\u{2028}\u{2029}\"'`${window.hacked = 3}\\",
    "\u{202e}gnirts desrever",
    "\u{61c}\u{2067}\u{202d}turned",
    "__proto__",
];

#[test]
fn they_are_text_and_nothing_else() {
    let mut sample = Sample::new();
    for (id, name) in (0..).zip(NAMES) {
        let pid = ENGINE + id;
        let Fact::Process(named) = process(pid, name, true) else {
            panic!("a process")
        };
        let named = Process {
            exe: format!("/tmp/{name}"),
            ..named
        };
        sample.fact(START, pid, &Fact::Process(named));
        let module = Some(format!("/lib/{name}.so"));
        sample.fact(
            START,
            pid,
            &Fact::Caller(Caller {
                id,
                module: module.clone(),
            }),
        );
        let kernel = Kernel {
            id,
            name: Some(name.to_owned()),
            module,
            handle: u64::from(id) + 1,
        };
        sample.fact(START, pid, &Fact::Kernel(kernel));
        let launch = Event {
            kernel: Some(id),
            ..at(pid, 100)
        };
        sample.row("cudaLaunchKernel", Kind::Call, launch);
        let block = Event {
            address: Some(0x7f00_0000_0000 + (u64::from(id) << 32)),
            size: Some(1 << 20),
            device: Some(0),
            caller: Some(id),
            ..at(pid, 110)
        };
        sample.call("cudaMalloc", 0, 1000, block);
    }
    sample.end(START + SECOND, |_| {});
    let recording = Recording::of(&sample);
    let mut browser = Browser::start();
    for command in ["report", "memory", "fragmentation"] {
        let file = recording.file("page.html");
        let json = page_of(command, &recording.path, &file, &[]);
        let mut page = browser.file(&file, 1000, 800, Colours::Light);
        assert_eq!(document(&mut page, "report"), json);
        assert_eq!(page.evaluate("window.hacked"), Value::Null);
        assert_eq!(page.evaluate("document.images.length"), 0);
        assert_eq!(page.evaluate("document.scripts.length"), 4);
        page.assert_fits(360);
        if command == "report" {
            let shown = page.evaluate(
                "[...document.querySelectorAll('#kernels tbody')[0].rows].map((row) => row.cells[0].innerText)",
            );
            let shown = shown.as_array().expect("rows");
            for name in &NAMES[..3] {
                assert!(shown.contains(&json!(name)), "{name}: {shown:?}");
            }
            // What turns or hides text is shown as such.
            let reversed = json!("\u{fffd}gnirts desrever");
            assert!(shown.contains(&reversed), "{shown:?}");
        }
        // Nor does any turn the text that it is the title of.
        let turned = page.evaluate(
            "[...document.querySelectorAll('[title], [aria-label]')].filter((each) => \
             /[\\u061c\\u202a-\\u202e\\u2066-\\u2069]/.test(each.title + each.ariaLabel)).length",
        );
        assert_eq!(turned, 0);
        assert_quiet(&mut page);
    }
}
