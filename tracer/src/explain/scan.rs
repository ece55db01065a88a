//! Finds the lines of a chunk that contain keywords, and unwraps them.
//!
//! The result does not depend on earlier lines, so that chunks can be scanned in any order.
//! `stream` processes the lines in their order.

use super::{
    chunks::Piece,
    configurations, kernel,
    keywords::{self, Search},
    line::{Groups, LogLine},
    unwrap_line,
};
use crate::ray::log::monitor_kill;

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

/// How many parts of a chunk are searched side by side.
const PARTS: usize = 4;

/// Scans a chunk.
pub(super) fn scan(bytes: &[u8]) -> Scanned {
    let mut scanned = Scanned::default();
    let mut with_words = with_words(bytes).into_iter().peekable();
    let (mut at, mut below) = (0, 0_usize);
    while at < bytes.len() {
        let next = if below > 0 {
            Some(Piece::at(at, bytes))
        } else {
            with_words.peek().copied()
        };
        let Some(piece) = next else { break };
        let has_words = with_words.next_if(|one| one.begin == piece.begin).is_some();
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

/// Returns the pieces that contain keywords, in order.
fn with_words(bytes: &[u8]) -> Vec<Piece> {
    let mut from = 0;
    let ends: [usize; PARTS] = std::array::from_fn(|part| {
        let end = (bytes.len() / PARTS * (part + 1)).max(from);
        let last = part + 1 == PARTS;
        let newline = memchr::memchr(b'\n', &bytes[end..]).filter(|_| !last);
        from = newline.map_or(bytes.len(), |newline| end + newline + 1);
        from
    });
    let mut begin = 0;
    let mut parts = ends.map(|end| {
        let search = Search::new(&bytes[begin..end]);
        begin = end;
        search
    });
    let mut found = ends.map(|end| Part {
        begin: end,
        end,
        pieces: Vec::new(),
    });
    for (part, search) in found.iter_mut().zip(&parts) {
        part.begin -= search.left();
    }
    while parts.iter().all(|part| part.left() > 0) {
        let lengths = keywords::side_by_side(&mut parts);
        for ((part, search), length) in found.iter_mut().zip(&mut parts).zip(lengths) {
            if let Some(length) = length {
                *search = part.take(bytes, search.left(), length);
            }
        }
    }
    for (part, search) in found.iter_mut().zip(&mut parts) {
        while let Some(length) = search.next() {
            *search = part.take(bytes, search.left(), length);
        }
    }
    found.into_iter().flat_map(|part| part.pieces).collect()
}

/// A part of a chunk: the begin of the line that is being searched, its end, and the pieces found.
struct Part {
    begin: usize,
    end: usize,
    pieces: Vec<Piece>,
}

impl Part {
    /// Takes the piece in which a keyword of this length ends, where so many bytes are left.
    /// Returns the search from the next piece on.
    fn take<'a>(&mut self, bytes: &'a [u8], left: usize, length: usize) -> Search<'a> {
        let end = self.end - left;
        let begin = end - length;
        let newline = memchr::memrchr(b'\n', &bytes[self.begin..begin]);
        let line = newline.map_or(self.begin, |newline| self.begin + newline + 1);
        let mut piece = Piece::at(line, bytes);
        while piece.end <= begin {
            piece = Piece::at(piece.next(), bytes);
        }
        // A keyword that is divided between two pieces does not count.
        if end <= piece.end {
            self.pieces.push(piece);
        }
        self.begin = piece.next().min(self.end);
        Search::new(&bytes[self.begin..self.end])
    }
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
        (has(Groups::MONITOR) && monitor_kill::opens(text), 50),
        (has(Groups::KERNEL) && kernel::heads_dump(text), 40),
        (has(Groups::ACTOR), 7),
    ];
    likely
        .into_iter()
        .find_map(|(opens, lines)| opens.then_some(lines))
        .unwrap_or(0)
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
