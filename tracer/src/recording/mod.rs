//! The recording: one SQLite file that is valid at every instant. Only this module contains SQL.
//!
//! A recording is in WAL mode while it is written, and a single file after a clean end. [`Writer`]
//! takes events on a queue, writes them in a thread of its own, and never makes a sender wait.
//! [`read`] and [`in_batches`] return them in the order of their ids.

mod bound;
mod carry;
mod disk;
mod error;
mod follow;
mod frames;
mod lock;
mod merge;
mod outline;
mod parts;
pub mod place;
mod reader;
mod retention;
mod rotation;
pub(crate) mod row;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

pub use error::RecordingError;
pub use follow::{Begin, Follower};
pub use outline::Outline;
#[cfg(test)]
pub(crate) use parts::write_two;
pub use parts::{carried, group_by_recorder, parts_in_batches, parts_in_batches_until};
pub use reader::{Read, ReadSummary, in_batches, is_recording, read};
pub use retention::Retention;
pub use rotation::Rotation;
#[cfg(test)]
pub(crate) use tests::staged;
pub use writer::{EndFailure, Prepared, Sender, Summary, Writer};

use std::{path::Path, time::Duration};

use crate::event::Event;

/// Writes these events as a new recording, which is a single file at the end.
pub fn write(path: &Path, events: &[Event]) -> Result<(), RecordingError> {
    let disk = disk::Disk::create(path, None, bound::Bound(u64::MAX))?;
    let all = disk.write(events, |_, _| 0);
    let written = all.and_then(|_| disk.close(Duration::ZERO));
    written.map_err(RecordingError::damaged(path))
}
