//! A headless Chromium, as a person's browser would show our pages: for tests, and for the
//! pictures in the documentation.
//!
//! It is driven by the `DevTools` protocol over two pipes, JSON objects that end in a zero byte:
//! <https://chromedevtools.github.io/devtools-protocol/>. What goes wrong is a panic.
#![forbid(unsafe_code)]

mod devtools;
mod page;
mod program;

use std::path::Path;

use serde_json::json;

use devtools::DevTools;
pub use page::{Colours, Page};

/// A browser with a profile of its own, gone when this is.
#[derive(Debug)]
pub struct Browser {
    devtools: DevTools,
}

impl Browser {
    /// Starts one. Where there is none, says what to run.
    pub fn start() -> Self {
        Self {
            devtools: DevTools::start(&program::chromium()),
        }
    }

    /// Opens a file, in a window of this width and height.
    pub fn file(&mut self, path: &Path, width: u32, height: u32, colours: Colours) -> Page<'_> {
        let path = path.canonicalize().expect("the page's file is there");
        self.open(
            &format!("file://{}", path.display()),
            width,
            height,
            colours,
        )
    }

    /// Opens an address, and waits until it is loaded and has drawn itself: it says so by
    /// `data-ready` of its root.
    pub fn open(&mut self, address: &str, width: u32, height: u32, colours: Colours) -> Page<'_> {
        let target =
            self.devtools
                .call(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.devtools.call(None, "Target.attachToTarget", &attach);
        let session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        let mut page = Page::new(&mut self.devtools, session);
        page.prepare(width, height, colours);
        page.navigate(address);
        page
    }
}
