//! The two clocks: boot time, in which events are stamped, and the wall.

use rustix::time::{ClockId, clock_gettime};

use crate::ids::{BootTime, WallTime};

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// `CLOCK_BOOTTIME` now.
#[must_use]
pub fn boot() -> BootTime {
    BootTime(nanoseconds(ClockId::Boottime).max(0).cast_unsigned())
}

/// `CLOCK_REALTIME` now.
#[must_use]
pub fn wall() -> WallTime {
    WallTime(nanoseconds(ClockId::Realtime))
}

/// The boot time of a wall time, by both clocks now.
#[must_use]
pub fn boot_at(at: WallTime) -> BootTime {
    boot().plus(at.0 - wall().0)
}
