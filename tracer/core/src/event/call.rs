//! A call: what a worker ran from one change of its title to the next.

use crate::ids::{BootTime, Bytes, ProcessKey};

/// One run of a method or task, as the titles at its two ends show it. One that takes long is written when it has run for a second and
/// again when it ends; one that neither took long nor moved memory is only counted, in the `nth` of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The worker.
    pub process: ProcessKey,
    /// `ray::Class.method` or `ray::task`.
    pub title: String,
    /// Which run of this title it is, from 1, since the process began or was first seen.
    pub nth: u32,
    /// When the title was set.
    pub began: BootTime,
    /// When the next one was; `None` while it runs.
    pub ended: Option<BootTime>,
    /// Anonymous memory when it began.
    pub before: Option<Bytes>,
    /// Anonymous memory when it ended.
    pub after: Option<Bytes>,
    /// Highest private memory while it ran, where the process's high-water mark rose in it.
    pub peak: Option<Bytes>,
}
