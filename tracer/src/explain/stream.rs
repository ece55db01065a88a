//! Processes the scanned chunks of a text in order.
//!
//! Threads scan chunks for lines with keywords, and only these lines are processed here. Most lines
//! are skipped, so gigabytes of logs take seconds.

use super::{
    chunks::{Chunk, Piece},
    pool::Done,
    scan,
    source::Source,
};
use crate::judge::from_text::text_evidence::TextEvidence;

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
            let lines = match hits.next_if(|hit| hit.begin == at) {
                Some(hit) => hit.lines,
                None => scan::unwrap_line(&bytes[piece.begin..piece.end]),
            };
            let line = self.newlines + newlines + 1;
            self.source.line(lines, line, gathered);
            newlines += u64::from(piece.ends_line);
            at = piece.next();
        }
        self.newlines += done.scanned.newlines;
        gathered.texts[self.number].lines = self.newlines + u64::from(is_open(&done.chunk));
    }

    /// Ends the text.
    pub(super) fn end(mut self, gathered: &mut TextEvidence) {
        self.source.end(gathered);
    }
}

/// Returns whether the last line has no newline.
fn is_open(chunk: &Chunk) -> bool {
    chunk.bytes.last().is_some_and(|last| *last != b'\n')
}
