//! Reads the clocks: boot time, the wall clock, and this thread's processor time.
//!
//! Events are stamped with the boot time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{
    event::ClockError,
    ids::{BootTime, SECOND_NS, WallTime},
};

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * SECOND_NS + time.tv_nsec
}

/// Reads `CLOCK_BOOTTIME`.
pub fn boot() -> BootTime {
    BootTime(nanoseconds(ClockId::Boottime).max(0).cast_unsigned())
}

/// Returns how long the machine has been suspended since its boot, in nanoseconds.
pub fn suspended_ns() -> i64 {
    (nanoseconds(ClockId::Boottime) - nanoseconds(ClockId::Monotonic)).max(0)
}

/// Reads `CLOCK_REALTIME`.
pub fn wall() -> WallTime {
    WallTime(nanoseconds(ClockId::Realtime))
}

/// Reads both clocks at one moment. The wall clock is read between two reads of boot time; of five
/// tries, the one with the shortest interval counts.
pub fn both() -> (BootTime, WallTime) {
    let look = || {
        let (before, wall, after) = (boot(), wall(), boot());
        let width = after.since(before);
        (width, before.plus(width / 2), wall)
    };
    let looks = std::iter::repeat_with(look).take(5);
    let closest = looks.min_by_key(|(width, ..)| *width);
    closest.map_or_else(|| (boot(), wall()), |(_, boot, wall)| (boot, wall))
}

/// Returns how far the wall clock may be off; `None` where the kernel or a sandbox does not say.
pub fn error() -> Option<ClockError> {
    // SAFETY: `timex` consists of plain numbers, and all zeros ask for no change.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `asked` lives through the call, which writes nothing else.
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    let max_us = u64::try_from(asked.maxerror).ok();
    max_us.filter(|_| state >= 0).map(|max_us| ClockError {
        max_us,
        synchronised: asked.status & libc::STA_UNSYNC == 0,
    })
}

/// Converts a wall time to boot time, by the present difference of both clocks.
pub fn boot_at(at: WallTime) -> BootTime {
    boot().plus(at.0 - wall().0)
}

/// Returns the processor time that this thread has used. A busy machine does not increase it.
pub fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_states_the_clock_error() {
        // A sandbox may forbid the call. Then there is nothing to check.
        if let Some(error) = error() {
            assert!(error.max_us > 0 || error.synchronised, "{error:?}");
        }
    }
}
