//! From boot time to wall time: the pairs that the recorder noted, nearest earlier one wins.

use crate::{
    ids::{BootTime, WallTime},
    judge::report::Utc,
};

/// The clock pairs of one recording, in order of boot time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pairs: Vec<(BootTime, WallTime)>,
}

impl Clock {
    /// Notes that the wall clock read `wall` at `boot`.
    pub(super) fn note(&mut self, boot: BootTime, wall: WallTime) {
        let at = self.pairs.partition_point(|(known, _)| *known <= boot);
        self.pairs.insert(at, (boot, wall));
    }

    /// The wall time of `boot`; `None` before any pair is known.
    pub(super) fn wall(&self, boot: BootTime) -> Option<Utc> {
        let after = self.pairs.partition_point(|(known, _)| *known <= boot);
        let (known, wall) = self.pairs.get(after.saturating_sub(1))?;
        Some(Utc(WallTime(wall.0 + boot.since(*known))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stepped_clock_counts_from_its_step_on() {
        let mut clock = Clock::default();
        assert_eq!(clock.wall(BootTime(5)), None);
        clock.note(BootTime(100), WallTime(1_000));
        clock.note(BootTime(200), WallTime(5_000));
        assert_eq!(clock.wall(BootTime(50)), Some(Utc(WallTime(950))));
        assert_eq!(clock.wall(BootTime(150)), Some(Utc(WallTime(1_050))));
        assert_eq!(clock.wall(BootTime(250)), Some(Utc(WallTime(5_050))));
    }
}
