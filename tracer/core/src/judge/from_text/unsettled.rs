//! What would settle the deaths that texts leave open.

use crate::{
    event::Role,
    judge::{
        missing::{Missing, Moment},
        report::{Certainty, Death, Killer},
    },
};

/// Fills in what is missing to know, for deaths from texts whose killer is not known.
pub(super) fn add(deaths: &mut [Death]) {
    for death in deaths {
        let open = matches!(death.verdict.killer, Killer::Unknown | Killer::KernelOom);
        if open || death.verdict.certainty == Certainty::Unknown {
            death.verdict.missing = Some(of_text(death));
        }
    }
}

fn of_text(death: &Death) -> Missing {
    let log = moment(death);
    if death.memory.oom.is_some() {
        return Missing::OomLines { log };
    }
    match (death.process.role, &death.work.worker_id) {
        (Role::Raylet, _) => Missing::RayletsEnd { log },
        (_, Some(worker_id)) => Missing::ExitType {
            log,
            worker_id: worker_id.clone(),
        },
        _ => Missing::NodesLogs { log },
    }
}

fn moment(death: &Death) -> Moment {
    if let Some(time) = death.when.time.or(death.when.exit_time) {
        return Moment::At(time.0);
    }
    // Times without a zone are the node's own, as journalctl takes them.
    let stamp = death.when.stamp.as_deref();
    let local = stamp.and_then(|stamp| stamp.parse().ok());
    local.map_or(Moment::Unknown, Moment::Local)
}
