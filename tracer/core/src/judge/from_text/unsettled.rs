//! Names what would settle the deaths that texts leave open.

use std::collections::HashMap;

use libc::SIGTERM;

use crate::{
    event::Role,
    ids::EventId,
    judge::{
        cause::Cause,
        missing::Missing,
        report::{Certainty, Death, Killer},
    },
};

/// Fills in the missing evidence, for deaths with an unknown killer. `twins` has where the kernel
/// reports a kill that may be the same death.
pub(super) fn add(deaths: &mut [Death], twins: &HashMap<EventId, String>) {
    for death in deaths {
        let open = matches!(death.verdict.killer, Killer::Unknown | Killer::KernelOom);
        if open || death.verdict.certainty == Certainty::Unknown {
            let twin = twins.get(&death.id);
            let twin = twin.map(|kill| Missing::SameDeath { kill: kill.clone() });
            death.verdict.missing = twin.or_else(|| Some(of_text(death)));
        }
    }
}

fn of_text(death: &Death) -> Missing {
    if death.memory.oom.is_some() {
        return Missing::OomLines;
    }
    if death.process.role == Role::Raylet {
        // A raylet logs that it received SIGTERM. No log names the sender.
        return match death.verdict.cause {
            Cause::Signal {
                signal: SIGTERM,
                sender: None,
            } => Missing::Sender,
            _ => Missing::RayletEnd,
        };
    }
    let work = &death.work;
    Missing::NodeLogs {
        of_any_end: matches!(death.verdict.cause, Cause::SuddenEnd | Cause::Unexplained),
        named: death.process.pid.0 != 0 || work.worker_id.is_some() || work.actor_id.is_some(),
    }
}
