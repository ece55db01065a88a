//! Splits a text into chunks of whole lines, which can be scanned in parallel.
//!
//! A line longer than [`MAX_LINE`] is cut into pieces of that length. The cuts do not depend on
//! where chunks end. Each piece is read as a line with the same line number, so nothing is skipped.

use std::{
    io::{self, Read},
    sync::Arc,
};

/// Longer lines are cut. Ray's longest records are far shorter.
pub(super) const MAX_LINE: usize = 512 << 10;

/// Some lines of a text, or pieces of a long line.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Ends with a newline, except at the end of the text and inside a line that is too long.
    pub(super) bytes: Vec<u8>,
}

/// Reads a text chunk by chunk.
#[derive(Debug)]
pub(super) struct Chunks<R> {
    text: R,
    /// How many bytes are read at a time.
    size: usize,
    /// The beginning of a line that has not been read to its end.
    held: Vec<u8>,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    pub(super) fn new(text: R, size: usize) -> Self {
        Self {
            text,
            size,
            held: Vec::new(),
            ended: false,
        }
    }

    /// Returns the next chunk, or `None` at the end of the text.
    pub(super) fn next(&mut self) -> io::Result<Option<Arc<Chunk>>> {
        let mut bytes = std::mem::take(&mut self.held);
        loop {
            self.fill(&mut bytes)?;
            let whole = if self.ended {
                bytes.len()
            } else {
                whole_lines(&bytes)
            };
            if whole > 0 {
                self.held = bytes[whole..].to_vec();
                bytes.truncate(whole);
                return Ok(Some(Arc::new(Chunk { bytes })));
            }
            if self.ended {
                return Ok(None);
            }
        }
    }

    /// Reads up to `size` more bytes.
    #[expect(clippy::disallowed_methods, reason = "what is read is bounded")]
    fn fill(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let wanted = self.size as u64;
        bytes.reserve(self.size);
        let got = self.text.by_ref().take(wanted).read_to_end(bytes)?;
        self.ended = (got as u64) < wanted;
        Ok(())
    }
}

/// Returns where the last whole line ends, or the last whole piece of a line that is too long.
fn whole_lines(bytes: &[u8]) -> usize {
    match memchr::memrchr(b'\n', bytes) {
        Some(at) => at + 1,
        // At least one byte is left over, because the line goes on.
        None => bytes.len().saturating_sub(1) / MAX_LINE * MAX_LINE,
    }
}

/// A line, or a piece of one, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Whether this piece ends its line.
    pub(super) ends_line: bool,
}

impl Piece {
    /// Returns the piece that begins at `begin`.
    pub(super) fn at(begin: usize, bytes: &[u8]) -> Self {
        let room = bytes.len().min(begin + MAX_LINE + 1);
        match memchr::memchr(b'\n', &bytes[begin..room]) {
            Some(length) => Self {
                begin,
                end: begin + length,
                ends_line: true,
            },
            None => Self {
                begin,
                end: bytes.len().min(begin + MAX_LINE),
                ends_line: false,
            },
        }
    }

    /// Returns where the next piece begins.
    pub(super) fn next(&self) -> usize {
        self.end + usize::from(self.ends_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all pieces of a text and the number of newlines before each, read in chunks of
    /// `size`.
    fn pieces(text: &[u8], size: usize) -> Vec<(u64, Vec<u8>)> {
        let mut chunks = Chunks::new(text, size);
        let (mut pieces, mut line) = (Vec::new(), 0);
        while let Some(chunk) = chunks.next().expect("a text in memory") {
            let mut at = 0;
            while at < chunk.bytes.len() {
                let piece = Piece::at(at, &chunk.bytes);
                pieces.push((line, chunk.bytes[piece.begin..piece.end].to_vec()));
                line += u64::from(piece.ends_line);
                at = piece.next();
            }
        }
        pieces
    }

    #[test]
    fn pieces_do_not_depend_on_chunk_size() {
        let long = [vec![b'a'; 2 * MAX_LINE], b"\n".to_vec()].concat();
        let longer = [vec![b'b'; 2 * MAX_LINE + 7], b"\nend".to_vec()].concat();
        let text = [b"one\n\n\ntwo\r\n".as_slice(), &long, &longer].concat();
        let whole = pieces(&text, 1 << 30);
        let lengths: Vec<_> = whole.iter().map(|(_, piece)| piece.len()).collect();
        let expected = [3, 0, 0, 4, MAX_LINE, MAX_LINE, MAX_LINE, MAX_LINE, 7, 3];
        assert_eq!(lengths, expected);
        let lines: Vec<_> = whole.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [0, 1, 2, 3, 4, 4, 5, 5, 5, 6]);
        for size in [100, 4096, MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 1 << 20] {
            assert_eq!(pieces(&text, size), whole, "{size}");
        }
    }
}
