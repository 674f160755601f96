//! The recording as a whole: what it is, whom it is about, what it misses.

use std::io;
use std::path::Path;

use super::page::Page;
use super::style::Tone;
use super::table::{Align, Cell, Table};
use super::units;
use crate::report::{Account, Process, Report, Sampled, Segment, Untraced, Window};

pub(super) fn recording(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Recording")?;
    let recording = &report.recording;
    let mut table = Table::new([("", Align::Right), ("", Align::Left)]);
    let mut row = |name: &str, cell: Cell| table.row([Cell::from(name), cell]);
    row(
        "started",
        recording.started.as_deref().unwrap_or("unknown").into(),
    );
    let length = recording.duration_ns.map(units::duration);
    row("length", length.as_deref().unwrap_or("unknown").into());
    row("events", units::count(recording.events).into());
    if let Some(settings) = &recording.settings {
        row("recorder", format!("cudasnoop {}", settings.version).into());
        row(
            "host",
            format!("{} (Linux {})", settings.host, settings.kernel).into(),
        );
        row("traced", settings.events.join(", ").into());
    }
    if let Some(selected) = selected(&report.window, recording.start_ns) {
        row("selected", selected.into());
    }
    if let Some(sampled) = &recording.sampled {
        row("sampled", sampling(sampled, recording.duration_ns));
    }
    row("complete", completeness(report));
    row("lost", losses(report));
    row("accounts", balance(report));
    table.write(page)
}

fn selected(window: &Window, start: Option<u64>) -> Option<String> {
    let Window {
        from_ns,
        to_ns,
        pids,
        devices,
        device_uuids,
    } = window;
    if *window == Window::default() {
        return None;
    }
    let from = from_ns.map_or_else(|| "the start".to_owned(), |from| units::since(from, start));
    let to = to_ns.map_or_else(|| "the end".to_owned(), |to| units::since(to, start));
    let only = |what: &str, which: Vec<String>| match &which[..] {
        [] => String::new(),
        which => format!(", {what} {}", which.join(", ")),
    };
    let pids = only("pid", pids.iter().map(u32::to_string).collect());
    let ordinals = devices.iter().map(i32::to_string);
    let devices = ordinals.chain(device_uuids.iter().cloned()).collect();
    let devices = only("device", devices);
    Some(format!("from {from} to {to}{pids}{devices}"))
}

fn sampling(sampled: &Sampled, duration: Option<u64>) -> Cell {
    let windows = units::counted(sampled.windows, "window");
    let open = units::duration(sampled.open_ns);
    let all = duration.map(units::duration);
    Cell::alarm(format!(
        "{}: traced in {windows} of {open} in all, of {}; their counts, bytes and times are those \
         of the windows",
        sampled.families.join(", "),
        all.as_deref().unwrap_or("an unknown time"),
    ))
}

fn completeness(report: &Report) -> Cell {
    let recording = &report.recording;
    if recording.live {
        let place = recording.segment.map(place);
        let place = place.map_or_else(String::new, |place| format!("; {place}"));
        return format!("not yet: it is being written{place}").into();
    }
    match (recording.complete, recording.truncated, recording.segment) {
        (true, _, None) => "yes".into(),
        (true, _, Some(segment)) => format!("yes: {}", place(segment)).into(),
        (false, true, None) => Cell::alarm("NO: the file breaks off; what came last is missing"),
        (false, false, None) => Cell::alarm("NO: the recorder was cut off before it could finish"),
        (false, _, Some(segment)) => Cell::alarm(format!(
            "NO: what came last may be missing; {}",
            place(segment)
        )),
    }
}

/// Where a segment stands in its recording.
fn place(
    Segment {
        number,
        events_before,
        last,
    }: Segment,
) -> String {
    let before = units::counted(events_before, "event");
    if last == number {
        format!("segment {number} of a rolling recording, {before} before it")
    } else {
        format!("segments {number} to {last} of a rolling recording, {before} before")
    }
}

fn losses(report: &Report) -> Cell {
    let lost = &report.recording.lost;
    match lost.any() {
        None => return Cell::alarm("unknown: the recording has no accounts"),
        Some(false) => return "nothing".into(),
        Some(true) => {}
    }
    let causes = [
        (lost.ring_full, "ring full"),
        (lost.ring_full_extra, "ring full (begins, names)"),
        (lost.pairing_full, "pairing map full"),
        (lost.recursion_miss, "recursion"),
        (lost.unwritten, "not written before this segment"),
    ];
    let causes = causes.iter().filter_map(|(lost, cause)| {
        let lost = lost.filter(|lost| *lost > 0)?;
        Some(format!("{} {cause}", units::count(lost)))
    });
    Cell::alarm(causes.collect::<Vec<_>>().join(", "))
}

fn balance(report: &Report) -> Cell {
    let accounts = &report.accounts;
    match accounts.iter().filter(|account| !account.balanced).count() {
        0 if report.recording.lost.any() == Some(false) && accounts.is_empty() => "no calls".into(),
        0 if accounts.is_empty() => Cell::alarm("none: whether a call is missing is unknown"),
        0 => "each call made is accounted for".into(),
        wrong => {
            let wrong = units::counted(wrong as u64, "function");
            Cell::alarm(format!("DO NOT BALANCE for {wrong}: see the end"))
        }
    }
}

pub(super) fn processes(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.processes.is_empty() {
        return Ok(());
    }
    page.section("Processes")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("traced", Align::Right),
        ("ended", Align::Right),
        ("program", Align::Left),
    ]);
    // A command may start many programs that have nothing to do with CUDA.
    let with_calls = |process: &&Process| process.has_calls;
    let silent = report.processes.len() - report.processes.iter().filter(with_calls).count();
    let show_all = silent == report.processes.len();
    for process in report
        .processes
        .iter()
        .filter(|process| show_all || process.has_calls)
    {
        let traced = match process.from_start {
            Some(true) => "from start".into(),
            Some(false) => "later".into(),
            None => Cell::unknown(),
        };
        let ended = process.ended_ns.map_or_else(
            || Cell::from("-"),
            |at| units::since(at, report.recording.start_ns).into(),
        );
        let program = match (process.title.as_deref(), process.exe.as_deref()) {
            // A program that was started by the end of its path says nothing new.
            (Some(title), Some(exe)) if !title.is_empty() && !Path::new(exe).ends_with(title) => {
                format!("{title} ({exe})").into()
            }
            (_, Some(exe)) => exe.into(),
            (Some(title), None) => title.into(),
            (None, None) => Cell::from("unknown"),
        };
        table.row([process.pid.to_string().into(), traced, ended, program]);
    }
    table.write(page)?;
    if silent > 0 && !show_all {
        page.paragraph(
            &match silent {
                1 => "And 1 process without a CUDA call.".to_owned(),
                _ => format!("And {silent} processes without a CUDA call."),
            },
            Tone::Faint,
        )?;
    }
    for process in &report.processes {
        if let Some(reason) = &process.entry_only {
            let pid = process.pid;
            page.paragraph(
                &format!(
                    "Process {pid} was probed at the entry of calls alone: they are counted, and \
                     PyTorch's reports are whole, but results, durations and memory are not \
                     known. {reason}."
                ),
                Tone::Faint,
            )?;
        }
    }
    let late = report
        .processes
        .iter()
        .filter(|process| process.from_start == Some(false))
        .count();
    if late > 0 {
        page.paragraph(
            "Traced later: what such a process did before, and the memory it held then, is not \
             in this report.",
            Tone::Faint,
        )?;
    }
    Ok(())
}

pub(super) fn untraced(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.untraced.is_empty() {
        return Ok(());
    }
    page.section("Not traced: calls of these functions are in no count")?;
    for Untraced {
        module,
        symbol,
        reason,
    } in &report.untraced
    {
        page.paragraph(&format!("{symbol} of {module}: {reason}"), Tone::Plain)?;
    }
    Ok(())
}

pub(super) fn gaps(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.gaps.is_empty() {
        return Ok(());
    }
    page.section("Gaps: calls may have been missed")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("at", Align::Right),
        ("length", Align::Right),
        ("reason", Align::Left),
    ]);
    for gap in &report.gaps {
        table.row([
            gap.pid.to_string().into(),
            units::since(gap.at_ns, report.recording.start_ns).into(),
            gap.duration_ns
                .map_or_else(Cell::unknown, |length| units::duration(length).into()),
            Cell::from(&gap.reason),
        ]);
    }
    table.write(page)
}

pub(super) fn holds(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.holds.is_empty() {
        return Ok(());
    }
    page.section("Holds: the process was stopped while probes were attached")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("at", Align::Right),
        ("length", Align::Right),
    ]);
    for hold in &report.holds {
        table.row([
            hold.pid.to_string().into(),
            units::since(hold.at_ns, report.recording.start_ns).into(),
            units::duration(hold.duration_ns).into(),
        ]);
    }
    table.write(page)
}

pub(super) fn accounts(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let is_idle = |account: &&Account| {
        account.to_account_for() == 0 && account.folded == 0 && account.balanced
    };
    let accounts: Vec<&Account> = report
        .accounts
        .iter()
        .filter(|account| !is_idle(account))
        .collect();
    if accounts.is_empty() {
        return Ok(());
    }
    let is_segment = report.recording.segment.is_some();
    page.section(if is_segment {
        "Accounts: calls made, over this segment"
    } else {
        "Accounts: calls made, over the whole recording"
    })?;
    let mut table = Table::new([
        ("function", Align::Left),
        ("made", Align::Right),
        ("reported", Align::Right),
        ("lost", Align::Right),
        ("open", Align::Right),
        ("folded", Align::Right),
        ("", Align::Right),
    ]);
    for account in &accounts {
        let lost = account.lost_ring.saturating_add(account.lost_pairing);
        let open = account.abandoned.saturating_add(account.in_flight);
        let open = open.saturating_add(account.carried_out);
        table.row([
            Cell::from(&account.api),
            units::count(account.to_account_for()).into(),
            units::count(account.reported).into(),
            if lost > 0 {
                Cell::alarm(units::count(lost))
            } else {
                "0".into()
            },
            units::count(open).into(),
            units::count(account.folded).into(),
            if account.balanced {
                "".into()
            } else {
                Cell::alarm("WRONG")
            },
        ]);
    }
    table.write(page)?;
    page.paragraph(
        "Made = reported + lost + open (abandoned or in flight). Folded: driver calls that are \
         the inner half of a runtime call, and are counted there.",
        Tone::Faint,
    )?;
    if is_segment {
        page.paragraph(
            "Calls that were under way when the segment began count as made, those that were \
             when it ended as open.",
            Tone::Faint,
        )?;
    }
    let wrong: Vec<&Account> = accounts
        .into_iter()
        .filter(|account| !account.balanced)
        .collect();
    for account in wrong {
        let rows = account
            .rows
            .map_or_else(|| "an unknown number of".to_owned(), units::count);
        page.paragraph(
            &format!(
                "{}: {} made, {} accounted for, {rows} in the file. Figures of this function \
                 cannot be trusted.",
                account.api,
                units::count(account.to_account_for()),
                units::count(account.accounted()),
            ),
            Tone::Alarm,
        )?;
    }
    Ok(())
}
