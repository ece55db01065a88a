//! Checks a kill by Ray's memory monitor against what raytrace itself measured.
//!
//! This is the only proof of the reason that no log line can forge.

use super::{Case, Draft};
use crate::{
    ids::{Bytes, SECOND_NS},
    judge::{
        fatal_act,
        query::monitor,
        report::{Certainty, Killer},
    },
    ray::facts::RayFact,
};

/// What the memory monitor of a node saw when it acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MonitorReading {
    /// The most that was in use then.
    used: Bytes,
    /// The threshold above which the monitor kills, by the settings that the kernel shows for the
    /// raylet.
    threshold: Bytes,
    /// The threshold in the raylet's log. It includes settings that a driver has passed
    /// (`ray.init(_system_config=…)`).
    logged: Option<Bytes>,
}

impl MonitorReading {
    /// Returns whether the monitor had reason to kill.
    fn is_above(self) -> bool {
        self.used >= self.threshold
    }

    /// Returns whether memory was far below the threshold. A smaller gap says nothing, because
    /// memory may rise and fall between two samples.
    pub(super) fn is_far_below(self) -> bool {
        let threshold = self.logged.unwrap_or(self.threshold).min(self.threshold);
        self.used.0 < threshold.0 / 10 * 7
    }
}

/// Returns what was measured, before this end, of the memory that the raylet's monitor counts;
/// `None` if nothing was.
pub(super) fn around(case: &Case<'_>) -> Option<MonitorReading> {
    let (used, threshold) = case.exit.around.monitor?;
    let raylet = case.cluster();
    Some(MonitorReading {
        used,
        threshold,
        logged: raylet.and_then(|raylet| monitor::first_threshold(case.world, raylet)),
    })
}

/// How far apart the monitor's record and its kill are at most.
const ACTS_NS: i64 = SECOND_NS;

/// Returns whether Ray recorded nothing else about this process before it was killed, and the
/// monitor's choice just then. Anybody who may write into the raylet's log can forge that record
/// while Ray ends the process for another reason.
fn is_alone(case: &Case<'_>) -> bool {
    let act = fatal_act::of(case.world, case.exit).time(case.exit);
    let about = case.world.ray_about(case.key());
    let is_choice = |fact: &RayFact| {
        matches!(
            fact,
            RayFact::MonitorKill(_) | RayFact::MonitorEvicted { .. }
        )
    };
    let just_then = about
        .iter()
        .any(|record| is_choice(&record.what.fact) && record.time.since(act).abs() <= ACTS_NS);
    let another = about.iter().any(|record| {
        record.time <= act
            && !is_choice(&record.what.fact)
            && record.what.fact.shows_an_end_by_ray()
    });
    just_then && !another
}

impl Draft {
    /// Checks a reason that a log gave against what was measured. A memory kill is proven if
    /// raytrace itself saw memory above the threshold.
    pub(super) fn confirm_by_samples(self, case: &Case<'_>) -> Self {
        if self.killer != Killer::RayMemoryMonitor || self.certainty != Certainty::Proven {
            return self;
        }
        let above = around(case).is_some_and(MonitorReading::is_above);
        let reason_certainty = if above && is_alone(case) {
            Certainty::Proven
        } else {
            Certainty::Inferred
        };
        Self {
            reason_certainty,
            ..self
        }
    }
}
