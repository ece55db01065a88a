//! Stub for builds without the feature `record`: there is no probe to check.

use crate::event::{Mode, Probe};

/// Returns nothing: this build cannot record.
pub(super) fn probe() -> (Option<Mode>, Vec<Probe>) {
    (None, Vec::new())
}
