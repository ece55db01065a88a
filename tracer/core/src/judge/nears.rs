//! What the recorder foresaw of each limit, as the recording has it.

use std::collections::VecDeque;

use crate::{
    event::{LimitName, LimitWarning},
    ids::BootTime,
    judge::report::{Foreseen, Killer, OomReport},
};

/// Rows that are kept, the last ones.
const KEPT: usize = 256;

/// The rows, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Nears(VecDeque<(BootTime, LimitWarning)>);

/// The limit at which that killer killed.
pub(super) fn limit_of(killer: Killer, oom: Option<&OomReport>) -> Option<LimitName> {
    match killer {
        Killer::RayMemoryMonitor => Some(LimitName::RayMonitor),
        Killer::KernelOomMemcg => Some(LimitName::Cgroup(oom?.cgroup.clone()?)),
        Killer::KernelOomGlobal => Some(LimitName::Machine),
        _ => None,
    }
}

impl Nears {
    pub(super) fn push(&mut self, time: BootTime, near: &LimitWarning) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back((time, near.clone()));
    }

    /// The warnings that stand: of each limit the last row, where that is one.
    pub(super) fn standing(&self) -> Vec<(BootTime, LimitWarning)> {
        let is_last = |(place, row): &(usize, &(BootTime, LimitWarning))| {
            let mut later = self.0.iter().skip(place + 1);
            !later.any(|(_, later)| later.limit == row.1.limit)
        };
        let rows = self.0.iter().enumerate().filter(is_last);
        let standing = rows.filter(|(_, (_, near))| near.within.is_some());
        standing.map(|(_, row)| row.clone()).collect()
    }

    /// The warning of the limit that killed, where one stood at `time`.
    pub(super) fn of_kill(
        &self,
        killer: Killer,
        oom: Option<&OomReport>,
        time: BootTime,
    ) -> Option<Foreseen> {
        let limit = limit_of(killer, oom)?;
        let mut rows = self.0.iter().rev();
        let last = rows.find(|(told, near)| *told <= time && near.limit == limit);
        let (told, near) = last?;
        let within = near.within?;
        let name = |process: &Option<crate::event::NearProcess>| {
            process.as_ref().map(|process| process.name.clone())
        };
        Some(Foreseen {
            ms_before: u64::try_from(time.since(*told) / 1_000_000).ok()?,
            soonest_ms: within.soonest_ms,
            latest_ms: within.latest_ms,
            grower: name(&near.doer),
            likely_victim: name(&near.victim),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Within, ids::Bytes};

    fn near(limit: LimitName, is_near: bool) -> LimitWarning {
        LimitWarning {
            limit,
            at: Bytes(2),
            used: Bytes(1),
            within: is_near.then_some(Within {
                soonest_ms: 60_000,
                latest_ms: 110_000,
            }),
            doer: None,
            victim: None,
            seen_ms: 0,
            at_once: 0,
        }
    }

    fn at(second: u64) -> BootTime {
        BootTime(second * 1_000_000_000)
    }

    #[test]
    fn a_kill_was_foreseen_where_the_warning_of_its_own_limit_stood() {
        let mut nears = Nears::default();
        let kill =
            |nears: &Nears, second| nears.of_kill(Killer::RayMemoryMonitor, None, at(second));
        nears.push(at(10), &near(LimitName::Machine, true));
        assert_eq!(kill(&nears, 84), None);
        nears.push(at(10), &near(LimitName::RayMonitor, true));
        assert_eq!(kill(&nears, 84).map(|one| one.ms_before), Some(74_000));
        assert_eq!(kill(&nears, 9), None);
        nears.push(at(90), &near(LimitName::RayMonitor, false));
        assert_eq!(kill(&nears, 95), None);
        let standing = nears.standing();
        assert_eq!(standing.len(), 1);
        assert_eq!(standing[0].1.limit, LimitName::Machine);
    }
}
