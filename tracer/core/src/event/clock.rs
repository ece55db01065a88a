//! How far the wall clock may be off, as the kernel states it.

/// What `adjtimex` says of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// `maxerror`: it is off by no more microseconds, if whoever sets it (NTP, PTP) is right.
    pub max_us: u64,
    /// Whether somebody keeps it set: `STA_UNSYNC` is not there.
    pub synchronised: bool,
}
