//! Settings from the environment, read once when a library is loaded.
//!
//! A setting that cannot be understood ends the process: a test that runs with half of its
//! settings would prove the wrong thing.

use std::{collections::HashMap, env, time::Duration};

use crate::{Call, Code, call::Rules};

/// Which calls fail: `cudaMalloc:3=2,cudaLaunchKernel:*=700`.
pub const FAIL: &str = "FAKE_CUDA_FAIL";
/// How much later calls return: `cudaMemcpy=50us,cudaDeviceSynchronize=1h`.
pub const LATENCY: &str = "FAKE_CUDA_LATENCY";
/// Bytes of each device.
pub const CAPACITY: &str = "FAKE_CUDA_CAPACITY";
/// Number of devices.
pub const DEVICES: &str = "FAKE_CUDA_DEVICES";
/// Whether the libraries say on stderr that they were loaded.
pub const VERBOSE: &str = "FAKE_CUDA_VERBOSE";

/// Gives every call of a library its rules. `owns` says which names belong to the library:
/// a rule for one of those that it does not export is a mistake.
///
/// Ends the process when a setting cannot be understood.
pub fn apply(library: &str, calls: &[&'static Call], owns: impl Fn(&str) -> bool) {
    let mut rules = HashMap::new();
    for (variable, read) in [
        (
            FAIL,
            read_failures as fn(&str, &mut RulesByName) -> Result<(), String>,
        ),
        (LATENCY, read_latencies),
    ] {
        let text = env::var(variable).unwrap_or_default();
        if let Err(problem) = read(&text, &mut rules) {
            refuse(&format!("{variable}={text:?}: {problem}"));
        }
    }
    for (name, rules) in rules.into_iter().filter(|(name, _)| owns(name)) {
        match calls.iter().find(|call| call.name() == name) {
            Some(call) => call.set_rules(rules),
            None => refuse(&format!(
                "{FAIL} or {LATENCY}: {library} has no function {name:?}"
            )),
        }
    }
    if env::var_os(VERBOSE).is_some() {
        eprintln!("fake CUDA: {library} loaded; it computes nothing");
    }
}

/// A whole number from the environment, or its default.
///
/// Ends the process when the variable is set to something else.
pub fn number(variable: &str, default: u64) -> u64 {
    match env::var(variable) {
        Err(_) => default,
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(problem) => refuse(&format!("{variable}={text:?}: {problem}")),
        },
    }
}

fn refuse(problem: &str) -> ! {
    eprintln!("fake CUDA: {problem}");
    std::process::abort()
}

type RulesByName = HashMap<String, Rules>;

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

fn read_failures(text: &str, rules: &mut RulesByName) -> Result<(), String> {
    for item in items(text) {
        let parsed = item.split_once(':').and_then(|(name, rest)| {
            let (entry, code) = rest.split_once('=')?;
            Some((
                name,
                entry,
                Code(code.parse().ok().filter(|code| *code != 0)?),
            ))
        });
        let Some((name, entry, code)) = parsed else {
            return Err(format!("{item:?} is not FUNCTION:ENTRY=CODE"));
        };
        let rules = rules.entry(name.to_owned()).or_default();
        if entry == "*" {
            rules.always = Some(code);
        } else {
            let entry = entry
                .parse()
                .map_err(|_| format!("{item:?}: ENTRY is a number or *"))?;
            rules.failures.push((entry, code));
        }
    }
    Ok(())
}

fn read_latencies(text: &str, rules: &mut RulesByName) -> Result<(), String> {
    for item in items(text) {
        let parsed = item
            .split_once('=')
            .and_then(|(name, time)| Some((name, duration(time)?)));
        let Some((name, latency)) = parsed else {
            return Err(format!(
                "{item:?} is not FUNCTION=TIME, with a TIME like 50us"
            ));
        };
        rules.entry(name.to_owned()).or_default().latency = Some(latency);
    }
    Ok(())
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let count: u64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    count.checked_mul(unit).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_both_kinds_meet_at_their_function() {
        let mut rules = HashMap::new();
        read_failures("cudaMalloc:3=2, cudaMalloc:5=2,cudaFree:*=700", &mut rules).expect("valid");
        read_latencies("cudaMalloc=50us", &mut rules).expect("valid");
        assert_eq!(
            rules["cudaMalloc"],
            Rules {
                failures: vec![(3, Code(2)), (5, Code(2))],
                always: None,
                latency: Some(Duration::from_micros(50)),
            }
        );
        assert_eq!(rules["cudaFree"].always, Some(Code(700)));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "cudaMalloc",
            "cudaMalloc:3",
            "cudaMalloc:3=x",
            "cudaMalloc:x=2",
            "a:1=0",
        ] {
            assert!(read_failures(text, &mut HashMap::new()).is_err(), "{text}");
        }
        for text in [
            "cudaMalloc",
            "cudaMalloc=50",
            "cudaMalloc=us",
            "cudaMalloc=5 weeks",
        ] {
            assert!(read_latencies(text, &mut HashMap::new()).is_err(), "{text}");
        }
    }
}
