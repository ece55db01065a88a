//! Converts boot time to wall time by the pairs that the recorder noted.
//!
//! The nearest earlier pair counts.

use crate::{
    event::ClockError,
    ids::{BootTime, WallTime},
    judge::report::Utc,
};

/// The clock pairs of one recording, in order of boot time.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pairs: Vec<(BootTime, WallTime)>,
    /// The largest error that the kernel stated, and whether the clock was synchronized whenever it
    /// was asked.
    error: Option<ClockError>,
}

impl Clock {
    /// Notes that the wall clock read `wall` at `boot`.
    pub(crate) fn note(&mut self, boot: BootTime, wall: WallTime, error: Option<ClockError>) {
        let at = self.pairs.partition_point(|(known, _)| *known <= boot);
        self.pairs.insert(at, (boot, wall));
        let worse = |known: ClockError, now: ClockError| ClockError {
            max_us: known.max_us.max(now.max_us),
            synchronised: known.synchronised && now.synchronised,
        };
        self.error = match (self.error, error) {
            (Some(known), Some(now)) => Some(worse(known, now)),
            (known, now) => known.or(now),
        };
    }

    /// Returns how far the wall clock may have been off at worst, as the kernel stated.
    pub(crate) fn error(&self) -> Option<ClockError> {
        self.error
    }

    /// Returns the wall time of `boot`; `None` before any pair is known.
    pub(crate) fn wall(&self, boot: BootTime) -> Option<Utc> {
        let after = self.pairs.partition_point(|(known, _)| *known <= boot);
        let (known, wall) = self.pairs.get(after.saturating_sub(1))?;
        Some(Utc(WallTime(wall.0 + boot.since(*known))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stepped_clock_applies_from_its_step() {
        let mut clock = Clock::default();
        assert_eq!(clock.wall(BootTime(5)), None);
        clock.note(BootTime(100), WallTime(1_000), None);
        clock.note(BootTime(200), WallTime(5_000), None);
        assert_eq!(clock.wall(BootTime(50)), Some(Utc(WallTime(950))));
        assert_eq!(clock.wall(BootTime(150)), Some(Utc(WallTime(1_050))));
        assert_eq!(clock.wall(BootTime(250)), Some(Utc(WallTime(5_050))));
    }

    #[test]
    fn largest_clock_error_counts() {
        let mut clock = Clock::default();
        let error = |max_us, synchronised| {
            Some(ClockError {
                max_us,
                synchronised,
            })
        };
        clock.note(BootTime(1), WallTime(1), None);
        assert_eq!(clock.error(), None);
        clock.note(BootTime(2), WallTime(2), error(900, true));
        clock.note(BootTime(3), WallTime(3), error(400_000, true));
        clock.note(BootTime(4), WallTime(4), error(500, true));
        assert_eq!(clock.error(), error(400_000, true));
        clock.note(BootTime(5), WallTime(5), error(16_000_000, false));
        assert_eq!(clock.error(), error(16_000_000, false));
    }
}
