//! The verdict from logs alone: reads any mix of texts, in any wrapping, and gathers what they say about deaths.
//!
//! `command::explain` opens the texts and hands them in; `judge::from_text` makes the verdicts. Pure: a text is an `impl Read`.

mod configured;
mod daemons;
mod kernel;
mod keywords;
mod peel;
mod ray_actor;
mod ray_component;
mod ray_exit;
mod ray_monitor;
mod ray_words;
mod ray_worker;
mod source;
mod stamp;
mod stream;
mod task_dump;
#[cfg(test)]
mod tests;
mod warnings;
mod wrapped;

use std::io::{self, Read};

#[cfg(test)]
pub(crate) use tests::texts;

use regex::Regex;

use crate::{
    ids::HexId,
    judge::from_text::claim::{Gathered, Text},
};
use source::Source;

/// Longest evidence text kept of a line.
const QUOTE_BYTES: usize = 300;

/// Reads texts one after another.
#[derive(Debug, Default)]
pub struct Explainer {
    gathered: Gathered,
}

impl Explainer {
    /// Reads one text to its end; `progress` is told how many bytes were read since the last call.
    pub fn read(
        &mut self,
        name: &str,
        text: impl Read,
        progress: impl FnMut(u64),
    ) -> io::Result<()> {
        let number = self.gathered.texts.len();
        self.gathered.texts.push(Text {
            name: name.to_owned(),
            ..Text::default()
        });
        let source = Source::new(number, name);
        stream::read(text, source, number, &mut self.gathered, progress)
    }

    /// What all texts said.
    #[must_use]
    pub fn finish(self) -> Gathered {
        self.gathered
    }
}

/// Ids of Ray's, of exactly the digits that they have: a cut one is another one.
trait HexIds {
    /// The text as an id of `digits` digits.
    fn hex(&self, digits: usize) -> Option<HexId>;
    /// The id of `digits` digits behind `words`.
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

/// A line as evidence: at most [`QUOTE_BYTES`], on a character border.
fn cut(text: &str) -> String {
    let text = text.trim();
    let end = (0..=QUOTE_BYTES.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}
