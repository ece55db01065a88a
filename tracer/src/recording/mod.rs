//! The recording: one SQLite file, valid at every instant. The only module that knows SQL.
//!
//! A recording is WAL while it is written and a single file after a clean end. [`Writer`] takes events on a queue of its own thread and
//! never makes a sender wait; [`read`] gives them back in the order of their ids.

mod error;
pub mod place;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

pub use error::RecordingError;
pub use reader::{Read, read};
pub use writer::{Sender, Summary, Writer};
