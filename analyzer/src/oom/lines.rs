//! From the lines of a log to the messages in it.
//!
//! A log may be of several ranks whose lines mix, each line behind a prefix; a message may be
//! broken over lines, even inside words. So lines are sorted by their prefix, and messages are
//! looked for in text without blanks.

use std::collections::BTreeMap;

/// The most lines that a message is broken over, and the longest message without blanks.
const LINES: usize = 24;
const LENGTH: usize = 8192;
/// The most messages that are not complete at a time.
const PENDING: usize = 1024;

/// A message as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    /// Its text from `CUDA out of memory` on, without blanks.
    pub(super) text: String,
    /// The line that it begins on, from 1.
    pub(super) line: u64,
    /// What tells the lines of this writer from others: `[rank0]`.
    pub(super) writer: String,
}

struct Pending {
    raw: Raw,
    lines: usize,
}

/// Puts messages together.
#[derive(Default)]
pub(super) struct Assembler {
    line: u64,
    pending: BTreeMap<String, Pending>,
}

/// How messages begin, without blanks.
const STARTS: [&str; 6] = [
    "outofmemory.Triedtoallocate",
    "CUDAerror:outofmemory",
    "HIPerror:outofmemory",
    "CUDAdrivererror:outofmemory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
];

/// How messages that can be broken begin; the others have no numbers to wait for.
const LONG: &str = STARTS[0];

impl Assembler {
    /// Takes in the next line; hands complete messages to `found`.
    pub(super) fn line(&mut self, line: &str, mut found: impl FnMut(Raw)) {
        self.line += 1;
        let line = without_escapes(line);
        let (writer, rest) = split_prefix(&line);
        let text: String = rest.chars().filter(|c| !c.is_whitespace()).collect();
        let mut starts: Vec<(usize, &str)> = STARTS
            .iter()
            .flat_map(|start| text.match_indices(start))
            .collect();
        // A runtime error is often named twice in a line.
        starts.sort_unstable();
        if starts.is_empty() {
            self.carry_on(&writer, &text, found);
            return;
        }
        let first = starts[0].0;
        if let Some(mut pending) = self.pending.remove(&writer) {
            append(&mut pending.raw.text, &text[..first]);
            found(pending.raw);
        }
        let mut last_short = None;
        for (number, (start, pattern)) in starts.iter().enumerate() {
            let end = starts.get(number + 1).map_or(text.len(), |next| next.0);
            let is_long = *pattern == LONG;
            if !is_long {
                if last_short.is_some() {
                    continue;
                }
                last_short = Some(*start);
            }
            // With the word before it: CUDA, HIP, XPU.
            let begin = text[..*start]
                .rfind(|c: char| !c.is_ascii_alphabetic())
                .map_or(0, |at| {
                    at + text[at..].chars().next().map_or(1, char::len_utf8)
                });
            let mut raw = Raw {
                text: String::new(),
                line: self.line,
                writer: writer.clone(),
            };
            append(&mut raw.text, &text[begin..end.max(begin)]);
            if !is_long || end < text.len() || is_complete(&raw.text) {
                found(raw);
            } else {
                if self.pending.len() >= PENDING {
                    self.finish(&mut found);
                }
                self.pending
                    .insert(writer.clone(), Pending { raw, lines: 1 });
            }
        }
    }

    fn carry_on(&mut self, writer: &str, text: &str, mut found: impl FnMut(Raw)) {
        let Some(pending) = self.pending.get_mut(writer) else {
            return;
        };
        append(&mut pending.raw.text, text);
        pending.lines += 1;
        if (pending.lines >= LINES || is_complete(&pending.raw.text))
            && let Some(pending) = self.pending.remove(writer)
        {
            found(pending.raw);
        }
    }

    /// The log ended.
    pub(super) fn finish(&mut self, mut found: impl FnMut(Raw)) {
        let mut rest: Vec<Raw> = std::mem::take(&mut self.pending)
            .into_values()
            .map(|pending| pending.raw)
            .collect();
        rest.sort_by_key(|raw| raw.line);
        rest.into_iter().for_each(&mut found);
    }
}

/// Appends up to the longest length, at a character's boundary.
fn append(text: &mut String, more: &str) {
    let room = LENGTH.saturating_sub(text.len());
    let end = (0..=room.min(more.len()))
        .rev()
        .find(|end| more.is_char_boundary(*end))
        .unwrap_or(0);
    text.push_str(&more[..end]);
}

/// Whether a message has come to the last of its numbers.
fn is_complete(text: &str) -> bool {
    let old = text
        .find("(GPU")
        .is_some_and(|start| text[start..].contains(')'));
    // The advice that follows names the setting.
    let new = text
        .find("butunallocated")
        .is_some_and(|end| text[end..].contains("_CONF") || text[end..].len() > 200);
    old && (text.contains("_CONF") || !text.contains("Ifreserved")) || new
}

/// `line` without what colours a terminal.
fn without_escapes(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        if c != '\u{1b}' {
            clean.push(c);
            continue;
        }
        if characters.next_if_eq(&'[').is_some() {
            for c in characters.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        } else {
            characters.next();
        }
    }
    clean
}

/// What stands before the text of a line, as far as it tells who wrote it; and the text.
fn split_prefix(line: &str) -> (String, &str) {
    let mut writer = String::new();
    let mut rest = line.trim_start();
    while let Some((token, is_name, after)) = prefix_token(rest) {
        if is_name {
            writer.push_str(token);
        }
        rest = after.trim_start();
    }
    (writer, rest)
}

/// The first token of a prefix, whether it names the writer, and what follows.
fn prefix_token(text: &str) -> Option<(&str, bool, &str)> {
    let bracketed = |open: char, close: char| {
        let inner = text.strip_prefix(open)?;
        let end = inner.find(close).filter(|end| *end <= 80)?;
        let token = &text[..end + 2];
        let after = &text[end + 2..];
        // mpirun: `[1,2]<stderr>:`.
        let after = after.strip_prefix("<stderr>").unwrap_or(after);
        let after = after.strip_prefix("<stdout>").unwrap_or(after);
        Some((token, after.strip_prefix(':').unwrap_or(after)))
    };
    if let Some((token, after)) = bracketed('[', ']') {
        // `[core.py:123]`, `[W1106 11:25:56.49 ...]` and `[2026-01-02 ...]` differ by line.
        let is_name = !token.contains(".py") && !token.contains(".cpp") && !is_time(token);
        return Some((token, is_name, after));
    }
    if let Some((token, after)) = bracketed('(', ')')
        && ["pid", "rank", "Rank", "Worker", "Engine"]
            .iter()
            .any(|word| token.contains(word))
    {
        return Some((token, true, after));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if [
        "ERROR", "WARNING", "INFO", "CRITICAL", "DEBUG", "|", "-", "stderr", "F", "E",
    ]
    .contains(&word.trim_end_matches(':'))
    {
        return Some((word, false, after));
    }
    if let Some(name) = word.strip_suffix(':') {
        let digits = name.trim_start_matches("rank").trim_start_matches("Rank");
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some((word, true, after));
        }
    }
    is_time(word).then_some((word, false, after))
}

/// Dates and times: digits with at least two of `-`, `:` and `/`, or one between digits.
fn is_time(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let signs = word.bytes().filter(|byte| b"-:/".contains(byte)).count();
    let others = word
        .chars()
        .filter(|c| !c.is_ascii_digit() && !"-:/.,+TZ[]".contains(*c))
        .count();
    digits >= 4 && signs >= 1 && (others == 0 || (digits >= 8 && signs >= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &str) -> Vec<Raw> {
        let mut found = Vec::new();
        let mut assembler = Assembler::default();
        for line in log.lines() {
            assembler.line(line, |raw| found.push(raw));
        }
        assembler.finish(|raw| found.push(raw));
        found
    }

    #[test]
    fn prefixes_name_the_writer() {
        for (line, writer, text) in [
            ("[rank0]: RuntimeError: x", "[rank0]", "RuntimeError: x"),
            ("[1,3]<stderr>:text", "[1,3]", "text"),
            ("3: text", "3:", "text"),
            (
                "(EngineCore pid=12) ERROR 04-22 16:09:38 [core.py:12] text",
                "(EngineCore pid=12)",
                "text",
            ),
            ("2026-01-02 03:04:05,678 - ERROR - text", "", "text"),
            ("2026-01-02T03:04:05.678Z text", "", "text"),
            (
                "(GPU 0; 7.93 GiB total capacity;",
                "",
                "(GPU 0; 7.93 GiB total capacity;",
            ),
            ("20.00 MiB. GPU 0 has", "", "20.00 MiB. GPU 0 has"),
        ] {
            let (found, rest) = split_prefix(line);
            assert_eq!((found.as_str(), rest), (writer, text), "{line}");
        }
    }

    #[test]
    fn a_wrapped_message_is_put_together() {
        let log = "x: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 1.0\u{1b}[0m\n0 GiB \
                   total\n capacity; 1 GiB alrea\ndy allocated)\nnext";
        let found = messages(log);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].text,
            "CUDAoutofmemory.Triedtoallocate2.00MiB(GPU0;1.00GiBtotalcapacity;\
             1GiBalreadyallocated)"
        );
    }
}
