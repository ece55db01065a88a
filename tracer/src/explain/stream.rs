//! Gigabytes of log in seconds: most lines are passed over by one search for the words that the recognisers look for.

use std::io::{self, Read};

use super::{keywords, source::Source};
use crate::judge::from_text::claim::Gathered;

/// Read at once.
const CHUNK: usize = 1 << 20;
/// A longer line is cut: Ray's longest records are far below.
const MAX_LINE: usize = 512 << 10;

/// Reads a text to its end.
pub(super) fn read(
    mut text: impl Read,
    mut source: Source,
    number: usize,
    gathered: &mut Gathered,
    mut progress: impl FnMut(u64),
) -> io::Result<()> {
    let mut buffer = vec![0u8; CHUNK];
    let mut held = 0;
    loop {
        if held == buffer.len() {
            buffer.resize(held + CHUNK, 0);
        }
        let got = match text.read(&mut buffer[held..]) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        progress(got as u64);
        let filled = held + got;
        let whole = whole_lines(&buffer[..filled], got == 0);
        lines(&buffer[..whole], &mut source, number, gathered);
        buffer.copy_within(whole..filled, 0);
        held = filled - whole;
        if got == 0 {
            break;
        }
    }
    source.end(gathered);
    Ok(())
}

/// The end of the last whole line; everything at the end of the text, or where a line is too long.
fn whole_lines(bytes: &[u8], end: bool) -> usize {
    match memchr::memrchr(b'\n', bytes) {
        _ if end => bytes.len(),
        Some(at) => at + 1,
        None if bytes.len() >= MAX_LINE => bytes.len(),
        None => 0,
    }
}

/// Looks through whole lines; those without any of the words are counted only.
fn lines(bytes: &[u8], source: &mut Source, number: usize, gathered: &mut Gathered) {
    let mut at = 0;
    while at < bytes.len() {
        if !source.wants_all() {
            let Some(found) = keywords::find(&bytes[at..]) else {
                gathered.texts[number].lines += newlines(&bytes[at..]);
                return;
            };
            let hit = at + found;
            let begin =
                memchr::memrchr(b'\n', &bytes[at..hit]).map_or(at, |before| at + before + 1);
            gathered.texts[number].lines += newlines(&bytes[at..begin]);
            at = begin;
        }
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let line = &bytes[at..end.min(at + MAX_LINE)];
        gathered.texts[number].lines += 1;
        let line_number = gathered.texts[number].lines;
        let text = String::from_utf8_lossy(line);
        source.line(text.trim_end_matches('\r'), line_number, gathered);
        at = end + 1;
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    let lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
    // The last line of a text may lack its newline.
    lines + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}
