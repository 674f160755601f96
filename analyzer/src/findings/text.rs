//! Findings as text: the claim first, then why, what nobody knows, and what to do.

use std::io;

use super::{Evidence, Finding, Severity};
use crate::text::{Page, Tone, file_name, since};

/// Most characters of a file's name.
const NAME: usize = 40;

/// Writes the findings; moments count from `start`, ns of `CLOCK_MONOTONIC`.
pub(crate) fn section(
    findings: &[Finding],
    start: Option<u64>,
    page: &mut Page<'_>,
) -> io::Result<()> {
    page.section(&title(findings))?;
    if findings.is_empty() {
        return page.paragraph(
            "Nothing stands out: no leak, failure or loss that a recording can show.",
            Tone::Faint,
        );
    }
    let is_urgent = |finding: &&Finding| finding.severity != Severity::Info;
    for finding in findings.iter().filter(is_urgent) {
        write(finding, start, page)?;
    }
    for note in findings.iter().filter(|finding| !is_urgent(finding)) {
        let Finding { id, claim, .. } = note;
        page.labelled(("note      ", Tone::Faint), claim, Tone::Plain)?;
        page.labelled(("          ", Tone::Faint), id, Tone::Faint)?;
    }
    Ok(())
}

fn title(findings: &[Finding]) -> String {
    let counts = [
        (Severity::Critical, "critical"),
        (Severity::Warning, "warning"),
        (Severity::Info, "note"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter_map(|(severity, name)| {
            let of = |finding: &&Finding| finding.severity == *severity;
            match (findings.iter().filter(of).count(), *severity) {
                (0, _) => None,
                (count, Severity::Critical) | (count @ 1, _) => Some(format!("{count} {name}")),
                (count, _) => Some(format!("{count} {name}s")),
            }
        })
        .collect();
    if counts.is_empty() {
        "Findings: none".to_owned()
    } else {
        format!("Findings: {}", counts.join(", "))
    }
}

fn write(finding: &Finding, start: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    let Finding {
        id,
        family: _,
        severity,
        claim,
        numbers: _,
        confidence,
        evidence,
        unknowns,
        next_step,
    } = finding;
    let label = match severity {
        Severity::Critical => ("CRITICAL  ", Tone::Alarm),
        Severity::Warning => ("WARNING   ", Tone::Warning),
        Severity::Info => ("note      ", Tone::Faint),
    };
    page.labelled(label, claim, Tone::Heading)?;
    let faint = |label| (label, Tone::Faint);
    for (number, seen) in evidence.iter().enumerate() {
        let label = if number == 0 {
            "    why   "
        } else {
            "          "
        };
        page.labelled(faint(label), &place(seen, start), Tone::Plain)?;
    }
    for (number, unknown) in unknowns.iter().enumerate() {
        let label = if number == 0 {
            "    but   "
        } else {
            "          "
        };
        page.labelled(faint(label), unknown, Tone::Plain)?;
    }
    page.labelled(faint("    next  "), next_step, Tone::Plain)?;
    let about = format!("{id}, confidence {}", confidence.name());
    page.labelled(faint("          "), &about, Tone::Faint)
}

/// What is to be seen, and where.
fn place(evidence: &Evidence, start: Option<u64>) -> String {
    let Evidence {
        what,
        pid,
        device,
        api,
        caller,
        from_ns,
        to_ns,
    } = evidence;
    let mut places = Vec::new();
    places.extend(pid.map(|pid| format!("pid {pid}")));
    places.extend(device.map(|device| format!("device {device}")));
    places.extend(api.clone());
    places.extend(caller.as_deref().map(|path| file_name(path, NAME)));
    match (from_ns, to_ns) {
        (Some(from), Some(to)) if from != to => {
            places.push(format!("{} to {}", since(*from, start), since(*to, start)));
        }
        (Some(at), _) | (None, Some(at)) => places.push(format!("at {}", since(*at, start))),
        (None, None) => {}
    }
    if places.is_empty() {
        what.clone()
    } else {
        format!("{what} ({})", places.join(", "))
    }
}
