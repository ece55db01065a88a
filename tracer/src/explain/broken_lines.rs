//! Joins lines that a terminal or an editor has broken, before they are read.
//!
//! Only an incomplete line that begins one of the long sentences of Ray or the kernel waits for the
//! next lines.

use super::{
    keywords,
    line::{Groups, LogLine},
};
use crate::ray::log::monitor_kill::{self, Sentence};

/// The most lines that one sentence is broken into.
const MAX_PARTS: u32 = 24;
/// The most bytes of a sentence.
const MAX_BYTES: usize = 8192;

/// The words that begin each sentence, and whether a text contains all that is needed of it.
static SENTENCES: [Sentence; 4] = [
    ("A worker died or was killed while executing", |text| {
        text.contains("Worker exit detail: ")
    }),
    (
        "The actor is dead because its worker process has died",
        |text| text.contains("Worker exit detail: "),
    ),
    ("Memory cgroup out of memory: Killed process", |text| {
        text.contains("file-rss:")
    }),
    ("oom-kill:constraint=", |text| text.contains(",uid=")),
];

/// The sentence that waits for the rest of it.
#[derive(Debug, Default)]
pub(super) struct BrokenLines {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    first: LogLine,
    /// The lines as they came, in case they do not belong together.
    parts: Vec<LogLine>,
    /// The lines joined without a space and with one, because the break may have removed a space.
    tight: String,
    loose: String,
}

impl BrokenLines {
    /// Returns whether a sentence waits.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Adds a line, and returns the lines that are complete.
    pub(super) fn take(&mut self, line: LogLine) -> Vec<LogLine> {
        let Some(open) = &mut self.open else {
            return self.begin(line);
        };
        let own = line.component.is_some()
            || line.speaker.is_some()
            || !line.stamp.is_empty()
            || begins(&line.text);
        let long = open.tight.len() + line.text.len() > MAX_BYTES
            || open.parts.len() >= MAX_PARTS as usize;
        let empty = line.text.trim().is_empty();
        if own || long || empty {
            let mut out = self.flush();
            out.extend(self.begin(line));
            return out;
        }
        open.tight.push_str(&line.text);
        open.loose.push(' ');
        open.loose.push_str(line.text.trim_start());
        open.parts.push(line);
        let whole = [&open.tight, &open.loose]
            .into_iter()
            .find(|text| !incomplete(text))
            .cloned();
        match whole {
            Some(text) => {
                let Some(open) = self.open.take() else {
                    return Vec::new();
                };
                vec![LogLine {
                    keywords: keywords::find_all(&text),
                    text,
                    ..open.first
                }]
            }
            None => Vec::new(),
        }
    }

    fn begin(&mut self, line: LogLine) -> Vec<LogLine> {
        if !line.keywords.groups.has(Groups::SENTENCES) || !incomplete(&line.text) {
            return vec![line];
        }
        self.open = Some(Open {
            tight: line.text.clone(),
            loose: line.text.clone(),
            first: line.clone(),
            parts: vec![line],
        });
        Vec::new()
    }

    /// Returns the lines of an incomplete sentence as they were.
    pub(super) fn flush(&mut self) -> Vec<LogLine> {
        self.open.take().map_or_else(Vec::new, |open| open.parts)
    }
}

fn sentences() -> impl Iterator<Item = &'static Sentence> {
    monitor_kill::SENTENCES.iter().chain(&SENTENCES)
}

fn begins(text: &str) -> bool {
    sentences().any(|(words, _)| text.contains(words))
}

/// Returns whether the last sentence that begins in `text` is incomplete.
fn incomplete(text: &str) -> bool {
    // Searching from the left is faster, and hardly any line contains these words.
    let last = |words: &str| text.contains(words).then(|| text.rfind(words)).flatten();
    let lacks = |(words, whole): &Sentence| last(words).is_some_and(|at| !whole(&text[at..]));
    text.len() <= MAX_BYTES && sentences().any(lacks)
}
