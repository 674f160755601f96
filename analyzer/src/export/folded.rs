//! Live memory as folded stacks, for flame graphs: `process;device;kind;caller;size BYTES`.
//!
//! Call stacks are not recorded, so a stack is what is known of a block: whose it is, where it
//! lies, what it is, who took it, how large it is.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::memory::{Device, Holder, Process, Report};

/// Writes one line for each stack that holds memory; gives their number and the bytes written.
pub fn write(report: &Report, output: &mut dyn Write) -> io::Result<(u64, u64)> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for process in &report.processes {
        for device in &process.devices {
            for holder in device.holders.iter().filter(|holder| holder.live_bytes > 0) {
                let bytes = stacks.entry(stack(process, device, holder)).or_default();
                *bytes = bytes.saturating_add(holder.live_bytes);
            }
        }
    }
    let mut written = 0;
    for (stack, bytes) in &stacks {
        let line = format!("{stack} {bytes}\n");
        written += line.len() as u64;
        output.write_all(line.as_bytes())?;
    }
    output.flush()?;
    Ok((stacks.len() as u64, written))
}

fn stack(process: &Process, device: &Device, holder: &Holder) -> String {
    let name = process.title.as_deref().or(process.exe.as_deref());
    let process = frame(&format!("{} {}", name.unwrap_or("process"), process.pid));
    let device = match device.device {
        Some(device) => format!("device {device}"),
        None => "no device".to_owned(),
    };
    let caller = frame(holder.caller.as_deref().unwrap_or("[unknown]"));
    let Holder {
        kind,
        size_class_bytes,
        ..
    } = holder;
    format!("{process};{device};{kind};{caller};up to {size_class_bytes} bytes")
}

/// A name as a frame: it may hold neither what divides frames nor what ends a stack.
fn frame(name: &str) -> String {
    let plain = |character: char| match character {
        ';' => ':',
        character if character.is_control() => ' ',
        character => character,
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_divides_nothing() {
        assert_eq!(frame("python -c a;b\nc"), "python -c a:b c");
    }
}
