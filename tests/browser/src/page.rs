//! A page in the browser.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::devtools::DevTools;

/// What the person has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// An open page.
#[derive(Debug)]
pub struct Page<'a> {
    devtools: &'a mut DevTools,
    session: String,
}

impl<'a> Page<'a> {
    pub(crate) fn new(devtools: &'a mut DevTools, session: String) -> Self {
        Self { devtools, session }
    }

    pub(crate) fn prepare(&mut self, width: u32, height: u32, colours: Colours) {
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.resize(width, height);
        self.choose(colours);
    }

    pub(crate) fn navigate(&mut self, address: &str) {
        self.call("Page.navigate", &json!({"url": address}));
        self.devtools.wait_for(&self.session, "Page.loadEventFired");
        self.wait_until("document.documentElement.dataset.ready === 'yes'");
    }

    /// Gives the window another size, in pixels of one device pixel.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Chooses other colours.
    pub fn choose(&mut self, colours: Colours) {
        let value = match colours {
            Colours::Light => "light",
            Colours::Dark => "dark",
        };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", &media);
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let answer = self.call("Runtime.evaluate", &parameters);
        let failed = answer.get("exceptionDetails");
        assert!(
            failed.is_none(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// The text of the first element that a selector finds, as a person sees it.
    pub fn text(&mut self, selector: &str) -> String {
        let quoted = json!(selector);
        let text = self.evaluate(&format!("document.querySelector({quoted})?.innerText"));
        let text = text.as_str();
        text.unwrap_or_else(|| panic!("no {selector} in the page"))
            .to_owned()
    }

    /// Waits until an expression is true.
    pub fn wait_until(&mut self, expression: &str) {
        let patience = Instant::now() + Duration::from_secs(30);
        while self.evaluate(expression) != json!(true) {
            let console = self.console();
            assert!(
                Instant::now() < patience,
                "never: {expression}; console: {console:#?}"
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until what was done to the page is drawn.
    pub fn settle(&mut self) {
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))");
    }

    /// Panics unless the page fits into a window of this width, once charts are drawn anew.
    pub fn assert_fits(&mut self, width: u32) {
        self.resize(width, 800);
        self.wait_until(&format!("innerWidth === {width}"));
        self.wait_until(
            "[...document.querySelectorAll('body *')].every((each) => \
             each.getBoundingClientRect().right <= innerWidth + 1 \
             || each.closest('.scroll, nav, .sr, .skip') !== null)",
        );
        self.wait_until(&format!("document.documentElement.scrollWidth === {width}"));
    }

    /// Presses a key, as the `key` of a keyboard event names it.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, Some("\r")),
            "Tab" => (9, None),
            "Escape" => (27, None),
            "ArrowRight" => (39, None),
            "ArrowLeft" => (37, None),
            "End" => (35, None),
            "Home" => (36, None),
            other => panic!("no code for the key {other}"),
        };
        let mut event = json!({
            "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code,
        });
        if let Some(text) = text {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", &event);
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", &event);
    }

    /// All that the page said on its console, and all errors, whoever made them.
    pub fn console(&self) -> Vec<String> {
        let events = self.devtools.events(&self.session);
        let said = events.filter(|event| {
            let method = event["method"].as_str().unwrap_or_default();
            [
                "Runtime.consoleAPICalled",
                "Runtime.exceptionThrown",
                "Log.entryAdded",
            ]
            .contains(&method)
        });
        said.map(|event| event["params"].to_string()).collect()
    }

    /// The addresses that the page has asked for, itself among them.
    pub fn requests(&self) -> Vec<String> {
        let events = self.devtools.events(&self.session);
        let sent = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        let address = |event: &Value| {
            event["params"]["request"]["url"]
                .as_str()
                .map(str::to_owned)
        };
        sent.filter_map(address).collect()
    }

    /// A picture of the window, or of all of the page, as PNG.
    pub fn picture(&mut self, is_whole: bool) -> Vec<u8> {
        let parameters = json!({"format": "png", "captureBeyondViewport": is_whole});
        let answer = self.call("Page.captureScreenshot", &parameters);
        let data = answer["data"].as_str().expect("a picture");
        BASE64_STANDARD.decode(data).expect("base64")
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.devtools.call(Some(&self.session), method, parameters)
    }
}
