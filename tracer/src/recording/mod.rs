//! The recording: one SQLite file, valid at every instant. The only module that knows SQL.
//!
//! A recording is WAL while it is written and a single file after a clean end. [`Writer`] takes events on a queue of its own thread and
//! never makes a sender wait; [`read`] and [`in_batches`] give them back in the order of their ids.

mod disk;
mod error;
mod follow;
mod merge;
pub mod place;
mod reader;
mod retention;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

pub use error::RecordingError;
pub use follow::Follower;
pub use reader::{Read, Told, in_batches, read};
pub use retention::Retention;
pub use writer::{Prepared, Sender, Summary, Writer};
