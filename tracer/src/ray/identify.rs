//! What a process is to Ray, by its command line and title.

use crate::{event::Role, ids::HexId};

/// What a title says: `ray::Class.method`, `ray::task`, `ray::Class`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// The actor's class.
    pub actor_class: Option<String>,
    /// The task or method that runs.
    pub task: Option<String>,
}

/// The role that a command line shows; `None` where it says nothing.
#[must_use]
pub fn role(_comm: &str, _argv: &[String]) -> Option<Role> {
    None
}

/// `--worker-id` of a worker's command line.
#[must_use]
pub fn worker_id(_argv: &[String]) -> Option<HexId> {
    None
}

/// What a `ray::` title says.
#[must_use]
pub fn title(_title: &str) -> Option<Title> {
    None
}
