//! Why Ray's memory monitor killed, by what raytrace itself measured: the only proof of that reason which no log line can forge.

use super::{Case, Draft};
use crate::{
    ids::Bytes,
    judge::{
        query::monitor,
        report::{Certainty, Killer},
    },
};

/// What the monitor of a node had before it as it acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    /// The most that was in use then.
    used: Bytes,
    /// What the monitor kills above, by the settings of the raylet that the kernel shows.
    threshold: Bytes,
    /// The same by the raylet's log, which also knows those that a driver has passed (`ray.init(_system_config=…)`).
    logged: Option<Bytes>,
}

impl Measured {
    /// Whether the monitor had reason to kill.
    fn is_above(self) -> bool {
        self.used >= self.threshold
    }

    /// Whether it had none by far: between two looks memory may rise and fall.
    pub(super) fn is_far_below(self) -> bool {
        let threshold = self.logged.unwrap_or(self.threshold).min(self.threshold);
        self.used.0 < threshold.0 / 10 * 7
    }
}

/// What was measured of the memory that the raylet's monitor counts, before this end; `None` where nothing was.
pub(super) fn around(case: &Case<'_>) -> Option<Measured> {
    let (used, threshold) = case.exit.around.monitor?;
    let raylet = case.cluster();
    Some(Measured {
        used,
        threshold,
        logged: raylet.and_then(|raylet| monitor::first_threshold(case.world, raylet)),
    })
}

impl Draft {
    /// Weighs a reason that a log gave against what was measured: a kill for memory is proven by the use that raytrace saw.
    pub(super) fn confirm_by_samples(self, case: &Case<'_>) -> Self {
        if self.killer != Killer::RayMemoryMonitor || self.certainty != Certainty::Proven {
            return self;
        }
        let above = around(case).is_some_and(Measured::is_above);
        let reason_certainty = if above {
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
