//! Removes duplicates: two recorders on one machine both see a process die.

use std::collections::HashMap;

use crate::{
    ids::{EventId, Pid},
    judge::report::{
        CauseLink, Certainty, Death, Killer, LinkReason, LinkRule, Remote, Report, Utc,
    },
};

/// Two recorders convert one boot time to wall times that differ by at most this.
pub(super) const SAME_NS: i64 = 50_000_000;

/// Keeps each death once, from the recording that knows most of it.
pub(super) fn remove(report: &mut Report) {
    let boots: HashMap<u32, &str> = report
        .recordings
        .iter()
        .map(|recording| (recording.id, recording.host.boot_id.as_str()))
        .collect();
    let mut recordings: HashMap<&str, usize> = HashMap::new();
    for boot in boots.values() {
        *recordings.entry(boot).or_default() += 1;
    }
    let several = |boot: &str| recordings.get(boot).is_some_and(|count| *count > 1);
    let mut kept: HashMap<(&str, Pid), Vec<usize>> = HashMap::new();
    let mut instead: HashMap<EventId, EventId> = HashMap::new();
    let mut gone = vec![false; report.deaths.len()];
    for (at, death) in report.deaths.iter().enumerate() {
        let boot = death.recording_id.and_then(|id| boots.get(&id).copied());
        let Some(boot) = boot.filter(|boot| !boot.is_empty() && several(boot)) else {
            continue;
        };
        let of_pid = kept.entry((boot, death.process.pid)).or_default();
        let same = of_pid.iter_mut().find(|known| {
            let known = &report.deaths[**known];
            known.recording_id != death.recording_id && is_same(known, death)
        });
        let Some(known) = same else {
            of_pid.push(at);
            continue;
        };
        let (keep, drop) = if knowledge(death) > knowledge(&report.deaths[*known]) {
            (at, *known)
        } else {
            (*known, at)
        };
        *known = keep;
        gone[drop] = true;
        instead.insert(report.deaths[drop].id, report.deaths[keep].id);
    }
    if instead.is_empty() {
        return;
    }
    let mut gone = gone.into_iter();
    report.deaths.retain(|_| !gone.next().unwrap_or(false));
    replace(report, &instead);
    link_to_others(report);
}

/// Turns a cause into a link if the kept copy of the cause is from another recording. The id of a
/// cause always refers to the death's own recording.
fn link_to_others(report: &mut Report) {
    let known: HashMap<EventId, (String, Pid, Killer)> = (report.deaths.iter())
        .map(|death| {
            let (process, verdict) = (&death.process, &death.verdict);
            (
                death.id,
                (process.comm.clone(), process.pid, verdict.killer),
            )
        })
        .collect();
    for death in &mut report.deaths {
        let own = death.id.recording();
        let cause = death.verdict.cause_death_id;
        let Some(cause) = cause.filter(|cause| cause.recording() != own) else {
            continue;
        };
        let Some((comm, pid, killer)) = known.get(&cause).cloned() else {
            continue;
        };
        death.verdict.cause_death_id = None;
        death.verdict.cause_remote = Some(Remote::Death {
            reason: LinkReason::SameMachine,
            comm,
            pid,
            killer,
        });
        death.verdict.cause_link = Some(Box::new(CauseLink {
            recording_id: cause.recording(),
            death_id: cause,
            node: String::new(),
            rule: LinkRule::SameMachine,
            link_certainty: Certainty::Inferred,
            because: LinkReason::SameMachine,
        }));
    }
}

/// Names the node of the cause in links within one machine, once deaths have their nodes.
pub(super) fn name_nodes(report: &mut Report) {
    let nodes: HashMap<EventId, Option<String>> = (report.deaths.iter())
        .map(|death| (death.id, death.node.clone()))
        .collect();
    for death in &mut report.deaths {
        if let Some(link) = &mut death.verdict.cause_link
            && let Some(Some(node)) = nodes.get(&link.death_id)
        {
            link.node.clone_from(node);
        }
    }
}

fn is_same(one: &Death, other: &Death) -> bool {
    let near = |one: Option<Utc>, other: Option<Utc>| {
        one.zip(other)
            .is_some_and(|(one, other)| (one.0.0 - other.0.0).abs() <= SAME_NS)
    };
    near(one.when.exit_time, other.when.exit_time)
        && (one.process.start_time.is_none()
            || other.process.start_time.is_none()
            || near(one.process.start_time, other.process.start_time))
}

/// Ranks what a recording knows of a death: the cluster and the worker of the process, and a
/// certain verdict.
fn knowledge(death: &Death) -> (bool, bool, bool, bool) {
    (
        death.cluster.is_some(),
        death.work.worker_id.is_some() || death.work.job_id.is_some(),
        death.verdict.certainty == Certainty::Proven,
        death.verdict.cause_death_id.is_some(),
    )
}

/// Replaces each reference to a removed death by one to the death that is kept.
fn replace(report: &mut Report, instead: &HashMap<EventId, EventId>) {
    let of = |id: &mut EventId| {
        // The replacement may have been replaced itself, by the death from a third recorder.
        for _ in 0..8 {
            match instead.get(id) {
                Some(kept) => *id = *kept,
                None => break,
            }
        }
    };
    for death in &mut report.deaths {
        death.verdict.cause_death_id.iter_mut().for_each(of);
        let acts = death.verdict.act.iter_mut();
        acts.for_each(|act| of(&mut act.death_id));
    }
    for job in &mut report.jobs {
        job.ended_by_death_id.iter_mut().for_each(of);
        for survived in &mut job.survived {
            of(&mut survived.death_id);
        }
    }
    for finding in &mut report.findings {
        finding.deaths.iter_mut().for_each(of);
        finding.deaths.sort_unstable_by_key(|id| id.0);
        finding.deaths.dedup();
    }
}
