//! Reads the two most frequent prefixes of Ray's lines without a regular expression.
//!
//! They are the prefix of components, `[2026-11-21 00:11:38,555 I 374 374] (raylet) main.cc:283: `,
//! and that of lines in a driver's output, `(WorkerDict pid=12, ip=…) `.
//!
//! The grammar is that of the patterns [`RAY`] and [`SPEAKER`]. Lines with non-ASCII characters are
//! left to these patterns.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

static SPEAKER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\((?:(raylet|gcs_server|autoscaler|[^()]{0,120}?)(?:,? ?pid=(\d+))?(?:, ip=([^)\s,]+))?)\) ?",
    )
});
static RAY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ([A-Z]) (\d+) \d+\] (?:\(([a-z_.]+)\) )?[\w./-]+:\d+: ",
    )
});
/// The most letters of a speaker's name.
const MAX_NAME: usize = 120;

/// The parts of the parentheses before a line in a driver's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpeakerPrefix<'a> {
    pub(super) name: &'a str,
    pub(super) pid: Option<&'a str>,
    pub(super) ip: Option<&'a str>,
    /// The length of the prefix.
    pub(super) length: usize,
}

/// The prefix of a component's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordPrefix<'a> {
    pub(super) time: &'a str,
    pub(super) pid: &'a str,
    pub(super) level: char,
    pub(super) component: Option<&'a str>,
    /// The length of the prefix.
    pub(super) length: usize,
}

/// The outcome of reading a prefix without a pattern.
#[derive(Debug)]
enum QuickResult<T> {
    Yes(T),
    No,
    /// Unclear: the pattern decides.
    NeedsPattern,
}

/// Reads the prefix that names the process behind a line.
pub(super) fn speaker(text: &str) -> Option<SpeakerPrefix<'_>> {
    match quick_speaker(text) {
        QuickResult::Yes(found) => Some(found),
        QuickResult::No => None,
        QuickResult::NeedsPattern => by_pattern_speaker(text),
    }
}

fn by_pattern_speaker(text: &str) -> Option<SpeakerPrefix<'_>> {
    let found = SPEAKER.captures(text)?;
    let group = |number| found.get(number).map(|group| group.as_str());
    Some(SpeakerPrefix {
        name: group(1).unwrap_or_default(),
        pid: group(2),
        ip: group(3),
        length: found[0].len(),
    })
}

fn quick_speaker(text: &str) -> QuickResult<SpeakerPrefix<'_>> {
    let Some(inside) = text.strip_prefix('(') else {
        return QuickResult::No;
    };
    let Some(end) = memchr::memchr2(b')', b'(', inside.as_bytes()) else {
        return QuickResult::No;
    };
    let behind = inside.as_bytes()[end] == b')';
    let inside = &inside[..end];
    if !behind || !inside.is_ascii() {
        return QuickResult::NeedsPattern;
    }
    let space = usize::from(text.as_bytes().get(end + 2) == Some(&b' '));
    let length = end + 2 + space;
    let may_begin = |byte: &u8| matches!(byte, b',' | b' ' | b'p');
    // Take the shortest name behind which the whole rest can be read.
    for (at, byte) in inside.bytes().enumerate().take(MAX_NAME + 1) {
        if may_begin(&byte)
            && let Some((pid, ip)) = fields(&inside[at..])
        {
            let name = &inside[..at];
            return QuickResult::Yes(SpeakerPrefix {
                name,
                pid,
                ip,
                length,
            });
        }
    }
    if inside.len() > MAX_NAME {
        return QuickResult::No;
    }
    QuickResult::Yes(SpeakerPrefix {
        name: inside,
        pid: None,
        ip: None,
        length,
    })
}

/// Reads `,? ?pid=N` and `, ip=A`, or one of them, and nothing else.
fn fields(text: &str) -> Option<(Option<&str>, Option<&str>)> {
    let comma = text.strip_prefix(',').unwrap_or(text);
    let space = comma.strip_prefix(' ').unwrap_or(comma);
    let (pid, rest) = match space.strip_prefix("pid=") {
        Some(number) => {
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return None;
            }
            (Some(&number[..digits]), &number[digits..])
        }
        None => (None, text),
    };
    if rest.is_empty() {
        return pid.map(|pid| (Some(pid), None));
    }
    let ip = rest.strip_prefix(", ip=")?;
    let is_cut = |byte: u8| byte == b',' || char::from(byte).is_whitespace();
    (!ip.is_empty() && !ip.bytes().any(is_cut)).then_some((pid, Some(ip)))
}

/// Reads the prefix of a component's record. Ray 1.x names no component there, but its source file
/// does.
pub(super) fn record(text: &str) -> Option<RecordPrefix<'_>> {
    let found = match quick_record(text) {
        QuickResult::Yes(found) => Some(found),
        QuickResult::No => None,
        QuickResult::NeedsPattern => by_pattern_record(text),
    }?;
    Some(RecordPrefix {
        component: found.component.or_else(|| of_file(&text[..found.length])),
        ..found
    })
}

fn of_file(prefix: &str) -> Option<&'static str> {
    component_of(prefix.trim_end().rsplit(' ').next()?.split(':').next()?)
}

/// Returns the component that a source file belongs to, if only one has it.
pub(super) fn component_of(file: &str) -> Option<&'static str> {
    match file.rsplit('/').next()? {
        "node_manager.cc" | "worker_pool.cc" | "agent_manager.cc" | "local_object_manager.cc" => {
            Some("raylet")
        }
        file if file.starts_with("gcs_server") => Some("gcs_server"),
        file if file.starts_with("gcs_") && file.ends_with("_manager.cc") => Some("gcs_server"),
        _ => None,
    }
}

/// Whether a record is of a source file that only workers and drivers run.
pub(super) fn is_core_workers(record: &str) -> bool {
    ["] core_worker", "] plasma_store_provider.cc:"]
        .iter()
        .any(|file| record.contains(file))
}

fn by_pattern_record(text: &str) -> Option<RecordPrefix<'_>> {
    let found = RAY.captures(text)?;
    Some(RecordPrefix {
        time: found.get(1)?.as_str(),
        level: found.get(2)?.as_str().chars().next()?,
        pid: found.get(3)?.as_str(),
        component: found.get(4).map(|component| component.as_str()),
        length: found[0].len(),
    })
}

/// Reads the prefix from left to right. At each place only one character, or one class, is
/// possible.
fn quick_record(text: &str) -> QuickResult<RecordPrefix<'_>> {
    if !text.starts_with('[') {
        return QuickResult::No;
    }
    let mut reader = Reader { text, at: 1 };
    match reader.record() {
        Some(found) => QuickResult::Yes(found),
        // The pattern also accepts letters and digits of other scripts.
        None if reader.is_foreign() => QuickResult::NeedsPattern,
        None => QuickResult::No,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn record(&mut self) -> Option<RecordPrefix<'a>> {
        let begin = self.at;
        for (count, sign) in [(4, "-"), (2, "-"), (2, " "), (2, ":"), (2, ":"), (2, ",")] {
            self.digits(count)?;
            self.sign(sign)?;
        }
        self.digits(3)?;
        let time = &self.text[begin..self.at];
        self.sign(" ")?;
        let level = self.run(u8::is_ascii_uppercase)?;
        let level = level.chars().next().filter(|_| level.len() == 1)?;
        self.sign(" ")?;
        let pid = self.run(u8::is_ascii_digit)?;
        self.sign(" ")?;
        self.run(u8::is_ascii_digit)?;
        self.sign("] ")?;
        let component = self.component()?;
        let in_path =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
        self.run(in_path)?;
        self.sign(":")?;
        self.run(u8::is_ascii_digit)?;
        self.sign(": ")?;
        Some(RecordPrefix {
            time,
            pid,
            level,
            component: Some(component).filter(|name| !name.is_empty()),
            length: self.at,
        })
    }

    /// Reads `(raylet) `. The name is empty if there is no parenthesis.
    fn component(&mut self) -> Option<&'a str> {
        if self.sign("(").is_none() {
            return Some("");
        }
        let name = self.run(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'.'))?;
        self.sign(") ")?;
        Some(name)
    }

    fn sign(&mut self, sign: &str) -> Option<()> {
        self.text[self.at..]
            .starts_with(sign)
            .then(|| self.at += sign.len())
    }

    fn digits(&mut self, count: usize) -> Option<()> {
        let run = self.run(u8::is_ascii_digit)?;
        (run.len() == count).then_some(())
    }

    /// Reads all following characters of a class, at least one.
    fn run(&mut self, class: impl Fn(&u8) -> bool) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|byte| class(byte)).count();
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// Returns whether the reader stopped at a non-ASCII character.
    fn is_foreign(&self) -> bool {
        self.text[self.at..]
            .bytes()
            .next()
            .is_some_and(|byte| !byte.is_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::damage::Random;

    const REAL: [&str; 16] = [
        "[2026-11-21 00:11:38,555 I 374 374] (raylet) main.cc:283: Setting",
        "[2026-11-21 00:11:38,555 W 374 2] core_worker/a-b.cc:1: x",
        "[2026-11-21 00:11:38,555 E 1 1] (gcs_server) a_b.h:99999: ",
        "[2026-11-21 00:11:38,555 I 374 374] (raylet) (x) main.cc:283: Setting",
        "[2026-11-21 00:11:38,555 I 374 374]  main.cc:283: Setting",
        "(WorkerDict pid=12, ip=192.0.2.1) text",
        "(raylet) text",
        "(raylet, ip=192.0.2.1) text",
        "(pid=12) text",
        "(a, pid=12)text",
        "(func pid=1 pid=2) text",
        "(func, ip=a, ip=b) text",
        "(my actor, ip=a pid=7) x",
        "(a(b) pid=3) x",
        "(gcs_server pid=, ip=) x",
        "(autoscaler +2s) Tip: use",
    ];

    fn assert_same(text: &str) {
        assert_eq!(speaker(text), by_pattern_speaker(text), "{text:?}");
        assert_eq!(record(text), by_pattern_record(text), "{text:?}");
    }

    #[test]
    fn real_prefixes_are_read_like_the_patterns() {
        for text in REAL {
            assert_same(text);
        }
        let name = "n".repeat(MAX_NAME);
        for inside in [
            name.clone(),
            format!("{name}n"),
            format!("{name} pid=1"),
            format!("{name}n pid=1"),
        ] {
            assert_same(&format!("({inside}) x"));
        }
        let told = speaker(REAL[5]).expect("a speaker");
        assert_eq!(
            (told.name, told.pid, told.ip),
            ("WorkerDict", Some("12"), Some("192.0.2.1"))
        );
        assert_eq!(&REAL[5][told.length..], "text");
        let told = record(REAL[0]).expect("a record");
        assert_eq!((told.pid, told.component), ("374", Some("raylet")));
        assert_eq!(&REAL[0][told.length..], "Setting");
    }

    /// Characters that matter to the patterns, and some that count as letters, digits or spaces in
    /// them.
    const SIGNS: [&str; 22] = [
        "(", ")", "[", "]", ",", " ", "pid=", ", ip=", "1", "٣", "a", "é", "\u{a0}", "\u{b}", ":",
        "-", ".", "raylet", "A", "/", "\t", "_",
    ];

    #[test]
    fn damaged_prefixes_are_read_like_the_patterns() {
        let mut random = Random(0x0FF5_E75E);
        for round in 0..40_000 {
            let mut text = REAL[round % REAL.len()].to_owned();
            for _ in 0..=random.below(3) {
                let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                let at = places[random.below(places.len().min(60))];
                let to = places[random.below(places.len())].clamp(at, at + 3);
                let to = (at..=to).rev().find(|to| text.is_char_boundary(*to));
                text.replace_range(at..to.unwrap_or(at), SIGNS[random.below(SIGNS.len())]);
            }
            assert_same(&text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_like_the_patterns(text in "[(\\[]?[a-zé ,=()pid1-3:./\\[\\]-]{0,60}") {
            assert_same(&text);
        }
    }
}
