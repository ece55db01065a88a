//! Keeps when each slurmstepd sent SIGTERM and SIGKILL: the first of each volley.

use libc::{SIGKILL, SIGTERM};

use crate::{
    cgroup_path::STEPD,
    event::Signal,
    ids::{BootTime, ByProcess, MINUTE_NS, ProcessKey, SECOND_NS},
};

/// A signal that follows another one sooner is of the same volley.
const APART_NS: i64 = SECOND_NS;
/// As many volleys of one slurmstepd are kept.
const MOST_VOLLEYS: usize = 64;
/// The signals of as many slurmstepds are kept. A node runs some hundreds of steps at most.
const MOST_STEPDS: usize = 1024;
/// Where there are more, those that sent nothing for this time are given up.
const OLD_NS: i64 = 60 * MINUTE_NS;

/// The signals of all slurmstepds.
#[derive(Debug, Default)]
pub(crate) struct StepdSignals(ByProcess<Volleys>);

#[derive(Debug, Default)]
struct Volleys {
    terms: Vec<BootTime>,
    kills: Vec<BootTime>,
}

impl Volleys {
    fn is_of_late(&self, time: BootTime) -> bool {
        let last = self.terms.last().max(self.kills.last());
        last.is_some_and(|last| time.since(*last) < OLD_NS)
    }
}

impl StepdSignals {
    /// Notes a signal, if a slurmstepd sent it.
    pub(crate) fn sent(&mut self, time: BootTime, signal: &Signal) {
        if signal.sender.comm != STEPD {
            return;
        }
        let stepd = signal.sender.process.truncated();
        if self.0.len() >= MOST_STEPDS && !self.0.contains_key(&stepd) {
            self.0.retain(|_, volleys| volleys.is_of_late(time));
            if self.0.len() >= MOST_STEPDS {
                return;
            }
        }
        let volleys = self.0.entry(stepd).or_default();
        let times = match signal.signal {
            SIGTERM => &mut volleys.terms,
            SIGKILL => &mut volleys.kills,
            _ => return,
        };
        let mut last = times.last().into_iter();
        if last.all(|last| time.since(*last) > APART_NS) && times.len() < MOST_VOLLEYS {
            times.push(time);
        }
    }

    /// Returns when a slurmstepd began to send SIGTERM or SIGKILL.
    pub(crate) fn times(&self, stepd: ProcessKey, signal: i32) -> &[BootTime] {
        match (self.0.get(&stepd.truncated()), signal) {
            (Some(volleys), SIGTERM) => &volleys.terms,
            (Some(volleys), SIGKILL) => &volleys.kills,
            _ => &[],
        }
    }
}
