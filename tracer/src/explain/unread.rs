//! Finds the lines that look like the report of a death, for texts in which nothing reports one.

use std::sync::LazyLock;

use regex::Regex;

use super::{pattern, scan};
use crate::{
    catalogue::{self, Kind},
    judge::from_text::claim::Place,
};

/// At most this many lines are shown.
const MAX_LINES: usize = 5;
/// At most this many bytes of texts are kept for it.
const MAX_BYTES: usize = 1 << 20;

static LOOKS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:fatal|killed|terminated|aborted|died|crashed|is dead|has exited|lost communication|exceeded \d+% memory budget|core dumped|dumped core|invoked oom-killer|segmentation fault|exit ?code[ :=]+-?[1-9]\d*|exit status [1-9]\d*|signal[ :=]+(?:sig\w+|\d+)|SIG(?:KILL|TERM|SEGV|ABRT|BUS|ILL|FPE))\b",
    )
});

/// Small texts, in case nothing in them is understood.
#[derive(Debug, Default)]
pub(super) struct Unread {
    texts: Vec<(usize, Vec<u8>)>,
    bytes: usize,
}

impl Unread {
    /// Keeps a text.
    pub(super) fn keep(&mut self, number: usize, text: &[u8]) {
        if self.bytes + text.len() <= MAX_BYTES {
            self.bytes += text.len();
            self.texts.push((number, text.to_vec()));
        }
    }

    /// Returns the first lines that look like the report of a death.
    pub(super) fn lines(&self) -> Vec<(Place, String)> {
        let lines = self.texts.iter().flat_map(|(text, bytes)| {
            let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
            lines.map(move |(line, number)| {
                (
                    Place {
                        text: *text,
                        line: number,
                    },
                    line,
                )
            })
        });
        lines.filter_map(shown).take(MAX_LINES).collect()
    }
}

/// Whether a row says that a line tells of no death: a remark, an after-effect, a wanted end.
fn is_known(text: &str) -> bool {
    let rows = catalogue::find(text);
    rows.iter().any(|found| found.row.kind != Kind::Death)
}

fn shown((place, line): (Place, &[u8])) -> Option<(Place, String)> {
    let lines = scan::unwrap_line(line).into_iter();
    let mut found = lines.filter(|line| LOOKS.is_match(&line.text) && !is_known(&line.text));
    found.next().map(|line| (place, super::cut(&line.text)))
}
