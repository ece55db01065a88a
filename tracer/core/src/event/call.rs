//! Defines a call: what a worker ran between two changes of its title.

use serde::{Deserialize, Serialize};

use crate::ids::{BootTime, Bytes, ProcessKey};

/// One run of a method or task, from the title that shows its start to the title that shows its
/// end.
///
/// A long call is written after it has run for a second, and again when it ends. A call that is
/// neither long nor moves memory is only counted: the `nth` of the next call includes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The worker.
    pub process: ProcessKey,
    /// `ray::Class.method` or `ray::task`.
    pub title: String,
    /// Which run of this title it is, counted from 1 since the process began or was first seen.
    pub nth: u32,
    /// When the title was set.
    pub began: BootTime,
    /// When the next title was set; `None` while the call runs.
    pub ended: Option<BootTime>,
    /// Anonymous memory when it began.
    pub before: Option<Bytes>,
    /// Anonymous memory when it ended.
    pub after: Option<Bytes>,
    /// The highest private memory during the call, where the process's high-water mark rose in it.
    pub peak: Option<Bytes>,
}
