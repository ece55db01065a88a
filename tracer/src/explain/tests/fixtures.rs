//! A text for each known message, with the versions that print it and its verdicts.
//!
//! Names, ids and paths are invented. The words are those of the sources and of staged deaths.

mod ends;
mod host;
mod kernel;
mod monitor;
mod warnings;

use std::sync::LazyLock;

use crate::judge::report::Killer;

/// A text, and what it must give.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixture {
    pub(super) name: &'static str,
    /// The versions of Ray, or of the program that prints the text.
    pub(super) versions: &'static str,
    pub(super) text: &'static str,
    /// The pid (0 if the text names none) and killer of each death.
    pub(super) deaths: &'static [(u32, Killer)],
    /// The rules of the findings.
    pub(super) rules: &'static [&'static str],
    /// Killers that a part of the text rightly names although the whole text does not.
    pub(super) parts: &'static [Killer],
    /// Whether it gives the same verdicts after a terminal has broken its lines.
    pub(super) survives_breaks: bool,
}

impl Fixture {
    /// Returns whether it is a kernel log.
    pub(super) fn kernel(&self) -> bool {
        self.name.starts_with("kernel")
    }
}

/// All fixtures.
pub(super) static ALL: LazyLock<Vec<Fixture>> = LazyLock::new(|| {
    [
        ends::FIXTURES.as_slice(),
        host::FIXTURES.as_slice(),
        kernel::FIXTURES.as_slice(),
        monitor::FIXTURES.as_slice(),
        warnings::FIXTURES.as_slice(),
    ]
    .concat()
});
