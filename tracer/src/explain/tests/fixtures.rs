//! A text for every message form that is known, with the versions that print it and what it allows to say. Names, ids and paths are
//! invented; the words are those of the sources and of staged deaths.

mod ends;
mod host;
mod kernel;
mod monitor;
mod warnings;

use std::sync::LazyLock;

use crate::judge::report::Killer;

/// One text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixture {
    pub(super) name: &'static str,
    /// Versions of Ray, or of what prints it.
    pub(super) versions: &'static str,
    pub(super) text: &'static str,
    /// Pid (0 where the text names none) and killer of each death.
    pub(super) deaths: &'static [(u32, Killer)],
    /// Rules of the findings.
    pub(super) rules: &'static [&'static str],
    /// Killers that parts of the text name truly although the whole does not.
    pub(super) parts: &'static [Killer],
    /// Whether it is read as well when a terminal broke its lines.
    pub(super) survives_breaks: bool,
}

impl Fixture {
    /// Whether it is a kernel log.
    pub(super) fn kernel(&self) -> bool {
        self.name.starts_with("kernel")
    }
}

/// All of them.
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
