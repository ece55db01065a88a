//! Keeps the warnings of each limit that the recording has.

use std::collections::VecDeque;

use crate::{
    event::{LimitOwner, LimitWarning},
    ids::BootTime,
    judge::report::{ActiveWarning, Killer, OomReport},
};

/// At most this many rows are kept: the last ones.
const KEPT: usize = 256;

/// The rows, the oldest first.
#[derive(Debug, Default)]
pub(super) struct LimitWarnings(VecDeque<(BootTime, LimitWarning)>);

/// Returns the limit at which this killer killed.
pub(super) fn limit_of(killer: Killer, oom: Option<&OomReport>) -> Option<LimitOwner> {
    match killer {
        Killer::RayMemoryMonitor => Some(LimitOwner::RayMonitor),
        Killer::KernelOomMemcg => Some(LimitOwner::Cgroup(oom?.cgroup.clone()?)),
        Killer::KernelOomGlobal => Some(LimitOwner::Machine),
        _ => None,
    }
}

impl LimitWarnings {
    pub(super) fn push(&mut self, time: BootTime, warning: &LimitWarning) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back((time, warning.clone()));
    }

    /// Returns the active warnings: the last row of each limit, unless it ends the warning.
    pub(super) fn active(&self) -> Vec<(BootTime, LimitWarning)> {
        let is_last = |(place, row): &(usize, &(BootTime, LimitWarning))| {
            let mut later = self.0.iter().skip(place + 1);
            !later.any(|(_, later)| later.limit == row.1.limit)
        };
        let rows = self.0.iter().enumerate().filter(is_last);
        let active = rows.filter(|(_, (_, warning))| warning.within.is_some());
        active.map(|(_, row)| row.clone()).collect()
    }

    /// Returns the warning of the limit that killed, if one was active at `time`.
    pub(super) fn of_kill(
        &self,
        killer: Killer,
        oom: Option<&OomReport>,
        time: BootTime,
    ) -> Option<ActiveWarning> {
        let limit = limit_of(killer, oom)?;
        let mut rows = self.0.iter().rev();
        let last = rows.find(|(told, warning)| *told <= time && warning.limit == limit);
        let (told, warning) = last?;
        let within = warning.within?;
        let name = |process: &Option<crate::event::ForecastProcess>| {
            process.as_ref().map(|process| process.name.clone())
        };
        Some(ActiveWarning {
            ms_before: time.ms_since(*told)?,
            soonest_ms: within.soonest_ms,
            latest_ms: within.latest_ms,
            grower: name(&warning.grower),
            likely_victim: name(&warning.victim),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Within, ids::Bytes};

    fn warning(limit: LimitOwner, is_active: bool) -> LimitWarning {
        LimitWarning {
            limit,
            at: Bytes(2),
            used: Bytes(1),
            within: is_active.then_some(Within {
                soonest_ms: 60_000,
                latest_ms: 110_000,
            }),
            grower: None,
            victim: None,
            seen_ms: 0,
            at_once: 0,
        }
    }

    fn at(second: u64) -> BootTime {
        BootTime(second * 1_000_000_000)
    }

    #[test]
    fn active_warning_of_the_limit_covers_the_kill() {
        let mut warnings = LimitWarnings::default();
        let kill = |warnings: &LimitWarnings, second| {
            warnings.of_kill(Killer::RayMemoryMonitor, None, at(second))
        };
        warnings.push(at(10), &warning(LimitOwner::Machine, true));
        assert_eq!(kill(&warnings, 84), None);
        warnings.push(at(10), &warning(LimitOwner::RayMonitor, true));
        assert_eq!(kill(&warnings, 84).map(|one| one.ms_before), Some(74_000));
        assert_eq!(kill(&warnings, 9), None);
        warnings.push(at(90), &warning(LimitOwner::RayMonitor, false));
        assert_eq!(kill(&warnings, 95), None);
        let active = warnings.active();
        assert_eq!(active.len(), 1);
        assert_eq!(active[0].1.limit, LimitOwner::Machine);
    }
}
