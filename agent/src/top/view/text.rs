//! Figures as people read them, and frames without a terminal.

use std::time::Duration;

use ratatui::{buffer::Buffer, layout::Rect};

/// What is not known.
pub(super) const UNKNOWN: &str = "-";

/// Draws into `height` lines, and gives them without the blanks at their ends.
pub(super) fn lines(height: u16, width: u16, draw: impl FnOnce(Rect, &mut Buffer)) -> Vec<String> {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(area, &mut buffer);
    let line = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// As much of the end as there is room for: workers are told apart by that of their titles,
/// programs by that of their paths.
pub(super) fn end_of(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let end = text.chars().skip(length + 1 - room.max(1));
    std::iter::once('…').chain(end).collect()
}

/// `1,234/s`; below ten with a fraction.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => UNKNOWN.to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}/s"),
        Some(rate) => format!("{}/s", analyzer::text::count(whole(rate))),
    }
}

/// `1.20 GiB/s`.
pub(super) fn byte_rate(rate: Option<f64>) -> String {
    rate.map_or_else(
        || UNKNOWN.to_owned(),
        |rate| format!("{}/s", analyzer::text::bytes(whole(rate))),
    )
}

/// A change of bytes: `+1.20 GiB`, `-512 B`, `0 B`.
pub(super) fn change(change: Option<f64>) -> String {
    let Some(change) = change else {
        return UNKNOWN.to_owned();
    };
    let bytes = whole(change.abs());
    let sign = match (bytes, change < 0.0) {
        (0, _) => "",
        (_, true) => "-",
        (_, false) => "+",
    };
    format!("{sign}{}", analyzer::text::bytes(bytes))
}

/// From 0 to 1 and beyond, as percents.
pub(super) fn share(share: Option<f64>) -> String {
    share.map_or_else(
        || UNKNOWN.to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

/// Seconds.
pub(super) fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(
        || UNKNOWN.to_owned(),
        |seconds| {
            let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            analyzer::text::duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        },
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(end_of("worker", 6), "worker");
        assert_eq!(end_of("a worker", 6), "…orker");
        assert_eq!(end_of("a worker", 0), "…");
        assert_eq!(rate(None), "-");
        assert_eq!(rate(Some(0.0)), "0/s");
        assert_eq!(rate(Some(0.25)), "0.2/s");
        assert_eq!(rate(Some(12_345.4)), "12,345/s");
        assert_eq!(byte_rate(Some(1_536.0)), "1.50 KiB/s");
        assert_eq!(change(Some(-1_536.0)), "-1.50 KiB");
        assert_eq!(change(Some(0.1)), "0 B");
        assert_eq!(change(Some(512.0)), "+512 B");
        assert_eq!(share(Some(0.1234)), "12.3 %");
        assert_eq!(time(Some(0.0015)), "1.50 ms");
        assert_eq!(time(Some(f64::NAN)), "0 ns");
    }
}
