//! Keeps rows whose owner is not certain yet.
//!
//! A call is reported when it has run for a second, a shorter one when it has ended.

use std::collections::VecDeque;

use super::{CalledFrames, Frames};
use crate::{
    event::Unsampled,
    ids::{BootTime, Bytes, ProcessKey, SECOND_NS},
    ray::identify::Title,
};

/// A running call is reported within this time.
const CALL_NS: i64 = 2 * SECOND_NS;
/// At most this many rows wait. The oldest is then attributed as far as is known. All processes of
/// a busy machine write fewer rows in that time.
const MOST: usize = 65_536;

/// One row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) time: BootTime,
    pub(super) process: ProcessKey,
    pub(super) mapping: Option<u32>,
    pub(super) what: RowKind,
}

/// What a row says.
#[derive(Debug, Clone)]
pub(super) enum RowKind {
    /// Memory grew.
    Grew(Growth),
    /// This much was given back.
    Freed(Bytes),
}

/// The owner of growth, as far as the process tells.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    /// The actor's class, if it is an actor.
    pub(crate) class: Option<String>,
    /// The owner if no call is known.
    pub(crate) otherwise: String,
}

impl Owner {
    /// Returns the owner, given the call that grew. A call of an actor may have any name.
    pub(super) fn by(self, call: Option<Title>) -> String {
        let Some(call) = call else {
            return self.otherwise;
        };
        let class = call.actor_class.or(self.class);
        class.or(call.task).unwrap_or(self.otherwise)
    }
}

/// Growth under one stack.
#[derive(Debug, Clone)]
pub(super) struct Growth {
    pub(super) owner: Owner,
    pub(super) frames: Frames,
    pub(super) called: CalledFrames,
    pub(super) unsampled: Option<Unsampled>,
    pub(super) private: Bytes,
    pub(super) shared: Bytes,
}

/// The waiting rows, in order. What was given back comes after the growth that it takes away.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingRows(VecDeque<Row>);

impl WaitingRows {
    pub(super) fn push(&mut self, row: Row) {
        self.0.push_back(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next row if its call is known at `now`. Without `now` nothing more comes, and
    /// any row is returned.
    pub(super) fn next(&mut self, now: Option<BootTime>) -> Option<Row> {
        let is_full = self.0.len() > MOST;
        let first = self.0.front()?;
        let is_known = now.is_none_or(|now| now.since(first.time) >= CALL_NS);
        (is_known || is_full).then(|| self.0.pop_front()).flatten()
    }
}
