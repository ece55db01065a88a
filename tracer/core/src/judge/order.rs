//! Keeps the links between deaths of one recording in order: no cause is later than its effect.
//!
//! A verdict checks the cause that it names. Links that are made of several verdicts (of peers, of
//! drivers) are checked here. Times in texts are those at which somebody noticed an end, so the
//! links of `explain` are not.

use std::collections::HashMap;

use super::report::Death;
use crate::ids::{BootTime, EventId, Pid, SECOND_NS};

/// When a process ended, and who sent the signal that ended it.
#[derive(Debug, Clone, Copy)]
struct End {
    began: BootTime,
    act: BootTime,
    sender: Option<Pid>,
}

impl End {
    fn of(death: &Death) -> Self {
        Self {
            began: death.when.began(),
            act: death.when.act_time,
            sender: death.sender.as_ref().map(|sender| sender.pid),
        }
    }

    /// Returns whether this end can have caused `effect`: it had begun by then, or one sender ended
    /// both.
    fn is_before(self, effect: Self) -> bool {
        let one_sender = self.sender.is_some() && self.sender == effect.sender;
        self.began <= effect.act || one_sender && self.act.since(effect.act).abs() < SECOND_NS
    }
}

/// Removes each cause that is later than its effect, or the effect itself.
pub(super) fn keep(deaths: &mut [Death]) {
    let ends: HashMap<EventId, End> = deaths
        .iter()
        .map(|death| (death.id, End::of(death)))
        .collect();
    for death in deaths {
        let effect = End::of(death);
        let id = death.id;
        let cause = &mut death.verdict.cause_death_id;
        *cause = cause.filter(|cause| {
            let end = ends.get(cause);
            *cause != id && end.is_none_or(|end| end.is_before(effect))
        });
    }
}
