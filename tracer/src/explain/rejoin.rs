//! Joins the lines of a small text that a terminal, an editor or a web page has broken.
//!
//! What people paste is small; logs of gigabytes come from files, in which no line is broken. Two
//! things show a break: keywords, or one of Ray's ids, that begin in one line and end in the next
//! one; lines that were filled with blanks to the width of a terminal. A joined line stands where it
//! began. [`GONE`] replaces the lines that were joined to it, so that all others keep their numbers.

use std::borrow::Cow;

use super::{keywords, scan};

/// Larger texts are read as they are.
pub(super) const MAX_TEXT: usize = 256 << 10;
/// Stands for a line that was joined to the one above it: the unit separator of ASCII.
pub(super) const GONE: &[u8] = b"\x1f";
/// Terminals are at least this wide.
const MIN_WIDTH: usize = 60;
/// The most bytes of a joined line.
const MAX_LINE: usize = 16 << 10;
/// Keywords are shorter than this.
const WINDOW: usize = 192;
/// The lengths of Ray's ids in hexadecimal digits: actors, tasks, nodes and workers.
const IDS: [usize; 3] = [32, 48, 56];

/// Returns a text with its broken lines joined.
pub(super) fn rejoin(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Cow::Borrowed(bytes);
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let width = Width::of(&lines);
    let mut joined = Vec::with_capacity(bytes.len());
    let mut changed = false;
    let mut at = 0;
    while at < lines.len() {
        let mut line = width.content(lines[at]).to_owned();
        let mut last = lines[at];
        let first = at;
        at += 1;
        while at < lines.len() && line.len() < MAX_LINE {
            let next = width.content(lines[at]);
            let Some(blank) = continues(&line, next, width.is_full(last)) else {
                break;
            };
            line.push_str(blank);
            line.push_str(next);
            last = lines[at];
            at += 1;
        }
        let gone = at - first - 1;
        changed |= gone > 0;
        joined.extend_from_slice(if gone > 0 { &line } else { lines[first] }.as_bytes());
        for _ in 0..gone {
            joined.push(b'\n');
            joined.extend_from_slice(GONE);
        }
        if at < lines.len() {
            joined.push(b'\n');
        }
    }
    if changed {
        Cow::Owned(joined)
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Returns what stands between a line and the next one if the next one continues it: nothing, or a
/// blank that the break has removed.
fn continues(line: &str, next: &str, is_full: bool) -> Option<&'static str> {
    if next.trim().is_empty() || line.trim().is_empty() {
        return None;
    }
    if breaks_id(line, next) {
        return Some("");
    }
    if let Some(blank) = ["", " "]
        .into_iter()
        .find(|blank| breaks_words(line, next, blank))
    {
        return Some(blank);
    }
    let indented = next.starts_with("  ") || next.starts_with('\t');
    (is_full && !indented && !begins(next)).then_some("")
}

/// Whether keywords begin in one line and end in the next one. A number that the next line begins
/// with is more often its own: `exited with code`, then `137 items were left`.
fn breaks_words(line: &str, next: &str, blank: &str) -> bool {
    if next.starts_with(|first: char| first.is_ascii_digit()) {
        return false;
    }
    let before = &line[at_least(line, line.len().saturating_sub(WINDOW))..];
    let behind = &next[..at_most(next, WINDOW)];
    let window = format!("{before}{blank}{behind}");
    let border = before.len();
    keywords::any_over(&window, border, border + blank.len())
}

fn at_least(text: &str, at: usize) -> usize {
    (at..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

fn at_most(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Whether one of Ray's ids begins in one line and ends in the next one.
fn breaks_id(line: &str, next: &str) -> bool {
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let before = line.bytes().rev().take_while(hex).count();
    let behind = next.bytes().take_while(hex).count();
    before >= 4 && behind >= 4 && IDS.contains(&(before + behind))
}

/// Whether a line begins something of its own, however wide the one above it is.
fn begins(line: &str) -> bool {
    let mut lines = scan::unwrap_line(line.as_bytes()).into_iter();
    let named = |line: super::line::LogLine| {
        line.speaker.is_some()
            || line.component.is_some()
            || line.program.is_some()
            || !line.stamp.is_empty()
    };
    lines.next().is_some_and(named) || keywords::begins(line.trim_start())
}

/// The width of the terminal that broke the lines.
#[derive(Debug, Clone, Copy)]
struct Width {
    columns: usize,
    /// Whether shorter lines were filled with blanks.
    padded: bool,
}

impl Width {
    fn of(lines: &[&str]) -> Self {
        let lengths = || lines.iter().map(|line| line.chars().count());
        let columns = lengths().max().unwrap_or(0);
        let full = lengths().filter(|length| *length == columns).count();
        let filled = lengths().filter(|length| *length > 0).count();
        let blanks = lines.iter().any(|line| line.ends_with("  "));
        // Without blanks at the end of lines, a width that several lines have may be chance.
        let padded = columns >= MIN_WIDTH && blanks && full >= 3 && full + 1 >= filled;
        Self {
            columns: if padded { columns } else { usize::MAX },
            padded,
        }
    }

    /// Returns a line without what fills it.
    fn content<'a>(&self, line: &'a str) -> &'a str {
        if self.padded {
            line.trim_end()
        } else {
            line.trim_end_matches('\r')
        }
    }

    /// Whether a line reaches the width, so that the next one may continue it.
    fn is_full(&self, line: &str) -> bool {
        let line = if self.padded { line.trim_end() } else { line };
        line.chars().count() >= self.columns
    }
}
