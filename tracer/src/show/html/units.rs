//! The units of the page's data.

use crate::{ids::Bytes, judge::report::Utc};

/// Returns bytes as KiB.
pub(super) fn kib(bytes: Bytes) -> u64 {
    bytes.0 / 1024
}

/// Returns a moment in ms since 1970.
pub(super) fn milliseconds(time: Utc) -> i64 {
    time.0.0.div_euclid(1_000_000)
}
