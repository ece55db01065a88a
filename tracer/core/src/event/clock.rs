//! Defines how far the wall clock may be off, as the kernel states it.

use serde::{Deserialize, Serialize};

/// What `adjtimex` says about the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockError {
    /// `maxerror`: the clock is off by at most this many microseconds, if the program that sets it
    /// (NTP, PTP) is right.
    pub max_us: u64,
    /// Whether a program keeps the clock set: `STA_UNSYNC` is absent.
    pub synchronised: bool,
}
