//! Stub for builds without the feature `record`: `top` needs a file.

use super::super::super::usage;
use crate::show::top::Top;

/// A type without values, since this build cannot observe anything.
pub(in super::super) enum LiveSource {}

impl LiveSource {
    pub(super) fn start() -> anyhow::Result<Self> {
        Err(usage(
            "this raytrace was built without recording (its feature record), and can only follow a recording: raytrace top run.raytrace",
        ))
    }

    pub(super) fn refresh(&self, _: &mut Top) {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "observers are waited for")]
    pub(super) async fn next(&mut self, _: &mut Top) -> bool {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "observers are waited for")]
    pub(super) async fn close(self) {
        match self {}
    }
}
