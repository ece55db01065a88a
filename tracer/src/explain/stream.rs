//! Processes the scanned chunks of a text in order.
//!
//! Threads scan chunks for lines with keywords, and only these lines are processed here. Most lines
//! are skipped, so gigabytes of logs take seconds.

use super::{
    chunks::{Chunk, Piece},
    pool::Done,
    ray_remarks, rejoin, scan,
    source::Source,
};
use crate::judge::from_text::{
    claim::{LogTimes, Text},
    text_evidence::TextEvidence,
};

/// At most this many lines are searched for one with a time. A raylet's dump of its state has some
/// two hundred without.
const MAX_UNTIMED: usize = 2000;
/// A time is in the first bytes of a line.
const LINE_BEGIN: usize = 512;

/// A text that is being read.
#[derive(Debug)]
pub(super) struct Stream {
    source: Source,
    number: usize,
    /// The number of newlines before the next chunk.
    newlines: u64,
}

impl Stream {
    /// Creates the stream of text number `number`, called `name`.
    pub(super) fn new(name: &str, number: usize) -> Self {
        Self {
            source: Source::new(number, name),
            number,
            newlines: 0,
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Processes the next chunk.
    pub(super) fn take(&mut self, done: Done, gathered: &mut TextEvidence) {
        let bytes = &done.chunk.bytes;
        let mut hits = done.scanned.hits.into_iter().peekable();
        let (mut at, mut newlines) = (0, 0);
        while at < bytes.len() {
            if !self.source.wants_all() {
                while hits.next_if(|hit| !hit.has_words).is_some() {}
                let Some(hit) = hits.peek() else { break };
                (at, newlines) = (hit.begin, hit.newlines);
            }
            let piece = Piece::at(at, bytes);
            if bytes[piece.begin..piece.end] == *rejoin::GONE {
                hits.next_if(|hit| hit.begin == at);
                newlines += u64::from(piece.ends_line);
                at = piece.next();
                continue;
            }
            let lines = match hits.next_if(|hit| hit.begin == at) {
                Some(hit) => hit.lines,
                None => scan::unwrap_line(&bytes[piece.begin..piece.end]),
            };
            let line = self.newlines + newlines + 1;
            self.source.line(lines, line, gathered);
            newlines += u64::from(piece.ends_line);
            at = piece.next();
        }
        if self.source.is_raylets() {
            note_times(bytes, &mut gathered.texts[self.number]);
        }
        self.newlines += done.scanned.newlines;
        gathered.texts[self.number].lines = self.newlines + u64::from(is_open(&done.chunk));
    }

    /// Ends the text.
    pub(super) fn end(mut self, gathered: &mut TextEvidence) {
        self.source.end(gathered);
    }
}

/// Notes the first and the last time in a raylet's log.
fn note_times(bytes: &[u8], text: &mut Text) {
    let lines = || bytes.split(|byte| *byte == b'\n');
    let timed = |line: &[u8]| {
        let begin = &line[..line.len().min(LINE_BEGIN)];
        let mut lines = scan::unwrap_line(begin).into_iter();
        lines.find(|line| !line.stamp.is_empty())
    };
    let Some(last) = lines().rev().take(MAX_UNTIMED).find_map(timed) else {
        return;
    };
    if let Some(times) = &mut text.times {
        times.last = last.stamp;
    } else if let Some(first) = lines().take(MAX_UNTIMED).find_map(timed) {
        text.from_start = ray_remarks::is_first_of_raylet(&first);
        text.times = Some(LogTimes {
            first: first.stamp,
            last: last.stamp,
        });
    }
}

/// Returns whether the last line has no newline.
fn is_open(chunk: &Chunk) -> bool {
    chunk.bytes.last().is_some_and(|last| *last != b'\n')
}
