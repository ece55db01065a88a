//! What can be said of a chunk by itself: which of its lines have any of the words, and these lines without their wrappings.
//!
//! Nothing here depends on the lines before: chunks are looked through in any order. `stream` takes the lines in theirs.

use super::{
    chunks::Piece,
    keywords,
    peel::{self, LogLine},
};

/// A line that has any of the words.
#[derive(Debug)]
pub(super) struct Hit {
    /// Where it begins in the chunk.
    pub(super) begin: usize,
    /// Newlines before it in the chunk.
    pub(super) newlines: u64,
    /// What stands in it.
    pub(super) lines: Vec<LogLine>,
}

/// A chunk that was looked through.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// In the order of the chunk.
    pub(super) hits: Vec<Hit>,
    /// All of the chunk.
    pub(super) newlines: u64,
}

/// Looks through a chunk.
pub(super) fn scan(bytes: &[u8]) -> Scanned {
    let mut scanned = Scanned::default();
    let mut at = 0;
    while let Some(piece) = next_hit(bytes, at) {
        let newlines = scanned.newlines + newlines(&bytes[at..piece.begin]);
        scanned.hits.push(Hit {
            begin: piece.begin,
            newlines,
            lines: peeled(&bytes[piece.begin..piece.end]),
        });
        scanned.newlines = newlines + u64::from(piece.ends_line);
        at = piece.next();
    }
    scanned.newlines += newlines(&bytes[at..]);
    scanned
}

/// The first piece from `at` on that has any of the words.
fn next_hit(bytes: &[u8], mut at: usize) -> Option<Piece> {
    loop {
        let (begin, end) = keywords::find(&bytes[at..])?;
        let (begin, end) = (at + begin, at + end);
        let line = memchr::memrchr(b'\n', &bytes[at..begin]).map_or(at, |before| at + before + 1);
        let mut piece = Piece::at(line, bytes);
        while piece.end <= begin {
            piece = Piece::at(piece.next(), bytes);
        }
        // A word that a cut divides is none.
        if end <= piece.end {
            return Some(piece);
        }
        at = piece.next();
    }
}

/// What stands in a line.
pub(super) fn peeled(line: &[u8]) -> Vec<LogLine> {
    let text = String::from_utf8_lossy(line);
    let mut lines = Vec::with_capacity(1);
    peel::peel(text.trim_end_matches('\r'), &mut |line| lines.push(line));
    lines
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
