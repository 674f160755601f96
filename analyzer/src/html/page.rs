//! The file: a frame, the assets, and two JSON documents.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::{Frame, Supplement, assets};

/// A page about a report.
#[derive(Debug)]
pub(crate) struct Page<'a, T> {
    /// The command that made the report.
    pub(crate) command: &'static str,
    /// What `--json` prints.
    pub(crate) report: &'a T,
    /// What only the page shows.
    pub(crate) supplement: &'a Supplement,
}

impl<T: Serialize> Page<'_, T> {
    /// Writes the page.
    pub(crate) fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let Self {
            command,
            report,
            supplement,
        } = self;
        let frame = Frame {
            command,
            connect: "'none'",
            fallback: "This page draws itself by JavaScript, from the JSON inside of it. The text \
                       report has the same figures.",
        };
        frame.open(output)?;
        document(output, "report", report)?;
        document(output, "supplement", supplement)?;
        frame.close(output, assets::REPORTS)
    }
}

/// A JSON document as data of a page.
fn document(output: &mut dyn Write, id: &str, value: &impl Serialize) -> io::Result<()> {
    write!(output, "<script type=\"application/json\" id=\"{id}\">")?;
    let mut serializer = serde_json::Serializer::with_formatter(&mut *output, InScript);
    value.serialize(&mut serializer)?;
    writeln!(output, "</script>")
}

/// Compact JSON that cannot end the element it stands in, nor a line of a script: the same
/// document to any reader of JSON.
#[derive(Clone, Copy, Debug)]
struct InScript;

impl Formatter for InScript {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_escaped = |letter| matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        let mut rest = fragment;
        while let Some(place) = rest.find(is_escaped) {
            let (before, from) = rest.split_at(place);
            writer.write_all(before.as_bytes())?;
            let mut letters = from.chars();
            if let Some(letter) = letters.next() {
                write!(writer, "\\u{:04x}", u32::from(letter))?;
            }
            rest = letters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_element_that_it_stands_in() {
        let hostile = "</script><script>alert(1)</script><!-- \u{2028}\u{2029} & \"quoted\" \\ é";
        let mut page = Vec::new();
        document(&mut page, "report", &[hostile]).expect("memory takes all");
        let page = String::from_utf8(page).expect("text");
        let json = page
            .strip_prefix("<script type=\"application/json\" id=\"report\">")
            .and_then(|rest| rest.strip_suffix("</script>\n"))
            .expect("one element");
        assert!(
            !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']),
            "{json}"
        );
        let read: Vec<String> = serde_json::from_str(json).expect("JSON");
        assert_eq!(read, [hostile]);
    }
}
