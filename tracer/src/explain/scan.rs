//! Finds the lines of a chunk that contain keywords, and unwraps them.
//!
//! The result does not depend on earlier lines, so that chunks can be scanned in any order.
//! `stream` processes the lines in their order.

use super::{
    chunks::Piece,
    configurations, kernel, keywords,
    line::{Groups, LogLine},
    unwrap_line,
};
use crate::ray::log::kill;

/// A line that contains keywords, or follows one that opens a block.
#[derive(Debug)]
pub(super) struct Hit {
    /// Where the line begins in the chunk.
    pub(super) begin: usize,
    /// The number of newlines before it in the chunk.
    pub(super) newlines: u64,
    /// The unwrapped line; several if a wrapper had put several into one.
    pub(super) lines: Vec<LogLine>,
    /// Whether it contains keywords. A line without any is needed only while a block is open.
    pub(super) has_words: bool,
}

/// The result of scanning a chunk.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The lines found, in order.
    pub(super) hits: Vec<Hit>,
    /// The number of newlines in the whole chunk.
    pub(super) newlines: u64,
}

/// Scans a chunk.
pub(super) fn scan(bytes: &[u8]) -> Scanned {
    let mut scanned = Scanned::default();
    let (mut at, mut below) = (0, 0_usize);
    while at < bytes.len() {
        let Some((piece, has_words)) = next_wanted(bytes, at, below > 0) else {
            break;
        };
        let newlines = scanned.newlines + newlines(&bytes[at..piece.begin]);
        let lines = unwrap_line(&bytes[piece.begin..piece.end]);
        let opened = lines.iter().map(lines_below).max().unwrap_or(0);
        below = below.saturating_sub(1).max(opened);
        scanned.hits.push(Hit {
            begin: piece.begin,
            newlines,
            lines,
            has_words,
        });
        scanned.newlines = newlines + u64::from(piece.ends_line);
        at = piece.next();
    }
    scanned.newlines += newlines(&bytes[at..]);
    scanned
}

/// Returns the next piece that contains keywords, or within a block simply the next piece. Tells
/// whether it contains keywords.
fn next_wanted(bytes: &[u8], at: usize, in_block: bool) -> Option<(Piece, bool)> {
    if !in_block {
        return Some((next_hit(bytes, at)?, true));
    }
    let piece = Piece::at(at, bytes);
    let has_words = keywords::find(&bytes[piece.begin..piece.end]).is_some();
    Some((piece, has_words))
}

/// Estimates how many lines below this one will be needed whatever they contain.
///
/// They are unwrapped here, where threads share the work. A wrong number only costs time.
fn lines_below(line: &LogLine) -> usize {
    let text = line.text.as_str();
    let has = |group| line.keywords.groups.has(group);
    let likely = [
        (
            has(Groups::CONFIGURATIONS) && configurations::opens(text),
            340,
        ),
        (has(Groups::MONITOR) && kill::opens(text), 50),
        (has(Groups::KERNEL) && kernel::heads_dump(text), 40),
        (has(Groups::ACTOR), 7),
    ];
    likely
        .into_iter()
        .find_map(|(opens, lines)| opens.then_some(lines))
        .unwrap_or(0)
}

/// Returns the first piece from `at` on that contains keywords.
fn next_hit(bytes: &[u8], mut at: usize) -> Option<Piece> {
    loop {
        let (begin, end) = keywords::find(&bytes[at..])?;
        let (begin, end) = (at + begin, at + end);
        let line = memchr::memrchr(b'\n', &bytes[at..begin]).map_or(at, |before| at + before + 1);
        let mut piece = Piece::at(line, bytes);
        while piece.end <= begin {
            piece = Piece::at(piece.next(), bytes);
        }
        // A keyword that is divided between two pieces does not count.
        if end <= piece.end {
            return Some(piece);
        }
        at = piece.next();
    }
}

/// Unwraps a line.
pub(super) fn unwrap_line(line: &[u8]) -> Vec<LogLine> {
    let text = String::from_utf8_lossy(line);
    let mut lines = Vec::with_capacity(1);
    unwrap_line::unwrap_line(text.trim_end_matches('\r'), &mut |line| lines.push(line));
    lines
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
