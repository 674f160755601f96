//! The lines at the top: what happens how often, and how tracing itself does.

use analyzer::text::{bytes, count};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};

use super::{
    Colours, View,
    style::Tone,
    text::{byte_rate, rate, share, time},
};
use crate::top::{
    list::Since,
    reading::{Budget, Copied, Reading},
    state::State,
};

/// Lines of [`figures`].
pub(super) const HEIGHT: u16 = 7;

/// What is looked at, and whether all is well.
pub(super) fn title(view: &View<'_>, state: &State, area: Rect, buffer: &mut Buffer) {
    let strong = view.colours.style(Tone::Strong);
    let bad = view.colours.style(Tone::Bad);
    let mut spans = vec![
        Span::styled("cudasnoop top  ", strong),
        Span::raw(view.title.to_owned()),
        Span::raw(format!("  every {:?}", state.interval)),
    ];
    if state.is_paused {
        spans.push(Span::styled("  PAUSED", strong));
    }
    match view.now.and_then(|now| now.untraced.as_deref()) {
        Some("starting") => spans.push(Span::raw("  starting")),
        Some(reason) => spans.push(Span::styled(format!("  not tracing: {reason}"), bad)),
        None => {}
    }
    Line::from(spans).render(area, buffer);
}

/// Something to be said, in a line.
pub(super) fn note(view: &View<'_>, area: Rect, buffer: &mut Buffer) {
    if let Some(note) = view.note {
        let text: String = note
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let bad = view.colours.style(Tone::Bad);
        Line::styled(text, bad).render(area, buffer);
    }
}

/// [`HEIGHT`] lines.
pub(super) fn figures(
    colours: Colours,
    now: &Reading,
    since: &Since<'_>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let label = |name: &str| Span::styled(format!("{name:<10}"), colours.style(Tone::Label));
    let line = |name: &str, text: String| Line::from(vec![label(name), Span::raw(text)]);
    let calls = format!(
        "{:>12} {:>15}  failed {}",
        rate(since.rate(now.calls, |before| before.calls)),
        count(now.calls),
        count(now.errors),
    );
    let launches = format!(
        "{:>12} {:>15}  captured {}  graphs {} {}",
        rate(since.rate(now.launches, |before| before.launches)),
        count(now.launches),
        count(now.captured),
        rate(since.rate(now.graphs, |before| before.graphs)),
        count(now.graphs),
    );
    let waiting = format!(
        "{:>12} {:>15}  of the time, by all threads",
        share(since.share(now.waited, |before| before.waited)),
        time(Some(now.waited)),
    );
    let [there, elsewhere] = copies(now, since);
    let agent = format!(
        "{:>12} {:>15}  {}",
        share(since.share(now.agent_cpu, |before| before.agent_cpu)),
        bytes(now.agent_memory),
        budget(now),
    );
    let lines = [
        line("Calls", calls),
        line("Launches", launches),
        line("Copies", there),
        line("", elsewhere),
        line("Waiting", waiting),
        Line::from(tracing(colours, now)),
        line("Agent", agent),
    ];
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

/// What probes may cost; without a budget, what the figures before it are.
fn budget(now: &Reading) -> String {
    let Some(Budget {
        allowed,
        overhead,
        window,
    }) = now.budget
    else {
        return "of a processor; resident memory".to_owned();
    };
    let [allowed, overhead, window] = [allowed, overhead, window].map(|part| share(Some(part)));
    format!("probes {overhead} of {allowed}, windows {window}")
}

/// Two lines.
fn copies(now: &Reading, since: &Since<'_>) -> [String; 2] {
    let Copied {
        to_device,
        to_host,
        on_device,
        other,
    } = now.copied;
    let of = |name: &str, now: u64, of: fn(&Copied) -> u64| {
        let rate = byte_rate(since.rate(now, |before| of(&before.copied)));
        format!("{name:<5} {rate:>10} {:>10}", bytes(now))
    };
    [
        format!(
            "{}   {}",
            of("H2D", to_device, |copied| copied.to_device),
            of("D2H", to_host, |copied| copied.to_host)
        ),
        format!(
            "{}   {}",
            of("D2D", on_device, |copied| copied.on_device),
            of("other", other, |copied| copied.other)
        ),
    ]
}

fn tracing(colours: Colours, now: &Reading) -> Vec<Span<'static>> {
    let mut spans = vec![Span::styled("Tracing   ", colours.style(Tone::Label))];
    if now.lost.is_empty() {
        spans.push(Span::raw("lost 0"));
    } else {
        let causes: Vec<String> = now
            .lost
            .iter()
            .map(|(cause, records)| format!("{} {cause}", count(*records)))
            .collect();
        let text = format!("lost {}", causes.join(", "));
        spans.push(Span::styled(text, colours.style(Tone::Bad)));
    }
    spans.push(Span::raw(format!(
        "  ring {}  probes {} in {} files  processes {}",
        share(Some(now.ring_fill)),
        count(now.probes),
        now.libraries,
        now.processes,
    )));
    spans
}
