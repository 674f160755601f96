//! Calls every function that cudasnoop traces. See `workloads::every`.
//!
//! It prints one JSON object: the soname, and one row for each call in `rows`.

use std::{collections::BTreeMap, env, path::PathBuf};

use clap::Parser;
use serde_json::json;
use workloads::every::{Session, call_everything};

/// What the fakes read: rules of the form `SYMBOL:1=CODE`.
const FAIL: &str = "FAKE_CUDA_FAIL";

/// Calls every function that cudasnoop traces.
#[derive(Parser)]
struct Options {
    /// The runtime
    #[arg(long, default_value = "libcudart.so.12")]
    cudart: PathBuf,
}

fn main() {
    let options = Options::parse();
    let mut session = Session::open(&options.cudart, planned_failures());
    call_everything(&mut session);
    let rows = session.into_rows();
    println!("{}", json!({ "cudart": options.cudart, "rows": rows }));
}

/// The first calls that will fail, and how.
fn planned_failures() -> BTreeMap<String, i32> {
    let rules = env::var(FAIL).unwrap_or_default();
    rules
        .split(',')
        .filter(|rule| !rule.is_empty())
        .map(|rule| {
            let parsed = rule
                .split_once(":1=")
                .and_then(|(symbol, code)| Some((symbol.to_owned(), code.parse().ok()?)));
            parsed.unwrap_or_else(|| panic!("{FAIL}: {rule:?} is not SYMBOL:1=CODE"))
        })
        .collect()
}
