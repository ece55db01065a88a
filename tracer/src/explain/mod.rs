//! Collects what texts say about deaths: any mix of logs, in any wrapping.
//!
//! `command::explain` opens the texts, and `judge::from_text` makes the verdicts. Pure: a text is
//! an `impl Read`.

mod broken_lines;
mod chunks;
mod configurations;
mod headings;
mod kernel;
mod keywords;
mod line;
mod pool;
mod prose;
mod ray_actor;
mod ray_component;
mod ray_exit;
mod ray_monitor;
mod ray_prefix;
mod ray_remarks;
mod rejoin;
mod rows;
mod said;
mod scan;
mod source;
mod stamp;
mod stream;
mod task_dump;
#[cfg(test)]
mod tests;
mod torchrun;
mod unread;
mod unwrap_line;
mod warnings;

use std::{
    collections::VecDeque,
    io::{self, Read},
};

#[cfg(test)]
pub(crate) use tests::texts;

use regex::Regex;

use crate::{
    ids::HexId,
    judge::from_text::{claim::Text, text_evidence::TextEvidence},
};
use chunks::Chunks;
use pool::{Done, Pool};
use stream::Stream;
use unread::Unread;

/// The most bytes of a line that are kept as evidence.
const QUOTE_BYTES: usize = 300;

/// How many bytes a thread scans at a time.
const CHUNK: usize = 256 << 10;

/// Reads texts one after another.
///
/// Several threads scan large texts. Their results are processed in the order of the text, so that
/// the outcome is the same for any number of threads.
#[derive(Debug, Default)]
pub struct Explainer {
    gathered: TextEvidence,
    pool: Pool,
    /// Texts that have not been processed to their end, in order.
    open: VecDeque<Stream>,
    /// Small texts, in case nothing in them reports a death.
    unread: Unread,
    /// The size of chunks, if it is not [`CHUNK`].
    chunk: Option<usize>,
}

impl Explainer {
    /// Creates an explainer with this many threads for all texts and this size of chunks.
    #[cfg(test)]
    fn with(threads: usize, chunk: usize) -> Self {
        Self {
            pool: Pool::new(threads, 0),
            chunk: Some(chunk),
            ..Self::default()
        }
    }

    /// Reads one text to its end. `progress` gets the number of bytes read since its last call.
    #[expect(clippy::disallowed_methods, reason = "what is read is bounded")]
    pub fn read(
        &mut self,
        name: &str,
        text: impl Read,
        mut progress: impl FnMut(u64),
    ) -> io::Result<()> {
        let number = self.gathered.texts.len();
        self.gathered.texts.push(Text {
            name: name.to_owned(),
            ..Text::default()
        });
        self.open.push_back(Stream::new(name, number));
        let mut text = text;
        let mut begin = Vec::new();
        let most = rejoin::MAX_TEXT as u64 + 1;
        text.by_ref().take(most).read_to_end(&mut begin)?;
        if begin.len() <= rejoin::MAX_TEXT {
            self.unread.keep(number, &begin);
            begin = rejoin::rejoin(&begin).into_owned();
        }
        let text = begin.as_slice().chain(text);
        let mut chunks = Chunks::new(text, self.chunk.unwrap_or(CHUNK));
        while let Some(chunk) = chunks.next()? {
            progress(chunk.bytes.len() as u64);
            if let Some(done) = self.pool.push(number, chunk) {
                self.take(done);
            }
        }
        Ok(())
    }

    /// Returns what all texts said.
    pub fn finish(mut self) -> TextEvidence {
        while let Some(done) = self.pool.pop() {
            self.take(done);
        }
        for stream in self.open {
            stream.end(&mut self.gathered);
        }
        let claims = &self.gathered.claims;
        let counted = !self.gathered.remarks.summaries.is_empty();
        let mut nameless = claims.nameless.iter();
        let tells = nameless.any(|one| !one.claim.is_no_end());
        if !counted && !tells && claims.deaths().next().is_none() {
            self.gathered.remarks.unread = self.unread.lines();
        }
        self.gathered
    }

    /// Processes the next chunk. The texts before its own are complete.
    fn take(&mut self, done: Done) {
        let ended = |stream: &Stream| stream.number() < done.text;
        while self.open.front().is_some_and(ended) {
            if let Some(stream) = self.open.pop_front() {
                stream.end(&mut self.gathered);
            }
        }
        if let Some(stream) = self.open.front_mut() {
            stream.take(done, &mut self.gathered);
        }
    }
}

/// Reads Ray's ids only in their full length, because a cut id would be another one.
trait HexIds {
    /// Reads the text as an id of `digits` digits.
    fn hex(&self, digits: usize) -> Option<HexId>;
    /// Reads the id of `digits` digits behind `words`.
    fn hex_after(&self, words: &str, digits: usize) -> Option<HexId>;
}

impl HexIds for str {
    fn hex(&self, digits: usize) -> Option<HexId> {
        (self.len() == digits).then(|| HexId::parse(self)).flatten()
    }

    fn hex_after(&self, words: &str, digits: usize) -> Option<HexId> {
        let rest = &self[self.find(words)? + words.len()..];
        let end = rest
            .find(|character: char| !character.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        rest[..end].hex(digits)
    }
}

#[expect(
    clippy::expect_used,
    reason = "the patterns are literals and are compiled in tests"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// Cuts a line for use as evidence: at most [`QUOTE_BYTES`], at a character boundary.
fn cut(text: &str) -> String {
    let text = text.trim();
    let end = (0..=QUOTE_BYTES.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}
