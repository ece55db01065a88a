//! Waiting for what a test cannot be told of.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a test waits at most for what takes a moment on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `is_so` returns true.
///
/// # Panics
///
/// Panics if it does not within [`PATIENCE`].
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_within(PATIENCE, what, is_so);
}

/// Waits until `is_so` returns true.
///
/// # Panics
///
/// Panics if it does not within `patience`.
pub fn until_within(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {patience:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
