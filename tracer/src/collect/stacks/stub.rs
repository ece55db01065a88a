//! Stub for builds without the feature `stacks`: no stacks are read, and the first call says so.

#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "the real one starts a thread, which can fail, and keeps state"
)]

use super::Ids;
use crate::{
    ids::ProcessKey,
    observe::kernel::{Growth, NewGrowth, NewMapping, Slot},
    recording,
};

/// Has no thread.
pub(super) struct Stacks {
    said: bool,
}

pub(super) fn start(
    _: Ids,
    _: recording::Sender,
    _: Option<&mut Growth>,
    _: u32,
) -> std::io::Result<Stacks> {
    Ok(Stacks { said: false })
}

impl Stacks {
    pub(super) fn update_processes(
        &mut self,
        _: Vec<(ProcessKey, Option<Slot>)>,
        _: bool,
    ) -> Option<&'static str> {
        let said = std::mem::replace(&mut self.said, true);
        (!said).then_some("this raytrace was built without reading stacks (its feature stacks)")
    }

    pub(super) fn replaced(&mut self, _: ProcessKey) {}

    pub(super) fn mapped(&mut self, _: NewMapping) {}

    pub(super) fn grew(&mut self, _: NewGrowth) {}

    pub(super) fn dropped_requests(&self) -> u64 {
        0
    }
}
