//! Groups the deaths of one act: one decision of Ray's memory monitor, or one sender's signals.
//!
//! Signals of one sender belong to one act if they are less than a second apart. The deaths of an
//! act are one first cause. One of them stands for it: the largest victim of a decision, or the
//! first victim of a sender. None of them caused another.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    event::{Ancestor, RayLog, Signal},
    ids::{BootTime, ByProcess, EventId, Pid, SECOND_NS},
    judge::{
        cause::SlurmReason,
        report::{Death, GroupKill, Killer, Memory, Relation, SenderReport, TopBefore, TopProcess},
        state::{timestamped::Timestamped, world::World},
    },
    ray::facts::{MonitorKill, RayFact},
};

/// Signals of one sender that are closer together than this are one act.
const VOLLEY_NS: i64 = SECOND_NS;
/// A decision is logged within this time before or after its kills.
const DECIDED_WITHIN_NS: i64 = 10 * SECOND_NS;
/// The subprocesses of a worker end within this time of the worker.
const WITH_ITS_WORKER_NS: i64 = SECOND_NS;
/// Programs that scripts call to send signals. Each call is a process of its own, but the script is
/// the sender.
const TOOLS: [&str; 6] = ["kill", "pkill", "killall", "xargs", "timeout", "ssh"];

/// What makes two deaths victims of one act.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KilledBy {
    /// The decision that was logged at this time in this cluster.
    Decision(Option<u32>, BootTime),
    /// The process that sent the signals, or had them sent.
    Sender(Pid, Killer),
    /// Slurm, which has one slurmstepd for each step of this job.
    SlurmJob(String),
}

/// Finds the deaths that one act caused, and notes for each which death stands for the act.
pub(super) fn group(world: &World, deaths: &mut [Death]) {
    let decisions: Vec<&Timestamped<RayLog>> = world
        .ray_log_records
        .iter()
        .filter(|seen| decision(seen).is_some())
        .collect();
    let mut by_cause: BTreeMap<KilledBy, Vec<usize>> = BTreeMap::new();
    for (at, death) in deaths.iter().enumerate() {
        if let Some(killed_by) =
            killed_by(death, &decisions).filter(|_| death.verdict.cause_death_id.is_none())
        {
            by_cause.entry(killed_by).or_default().push(at);
        }
    }
    for (killed_by, mut members) in by_cause {
        let times: BTreeMap<usize, BootTime> = members
            .iter()
            .map(|at| (*at, sent_at(&killed_by, &deaths[*at])))
            .collect();
        members.sort_by_key(|at| (times[at], deaths[*at].id));
        let several = volleys(&killed_by, &members, &times)
            .into_iter()
            .filter(|volley| volley.len() > 1);
        for volley in several.collect::<Vec<_>>() {
            let act = act(world, &killed_by, &volley, deaths);
            for at in volley {
                deaths[at].verdict.act = Some(act);
            }
        }
    }
    held_when_decided(deaths);
}

/// Maps victims of Ray's memory monitor to the first end that their kill brought about. Leaves out
/// victims that ended first themselves.
///
/// The victims of one decision end one after the other, and the raylet ends a worker's subprocesses
/// before the worker. What is still held at a later end is not what the decision was about.
pub(super) fn first_ends(deaths: &[Death]) -> HashMap<EventId, &Death> {
    let victims = || {
        deaths
            .iter()
            .filter(|death| death.verdict.killer == Killer::RayMemoryMonitor)
    };
    let kill = |victim: &Death| victim.verdict.act.map_or(victim.id, |act| act.death_id);
    let by_id: HashMap<EventId, &Death> = victims().map(|victim| (victim.id, victim)).collect();
    let with_a_victim = |death: &'_ Death| {
        let victim = by_id.get(&death.verdict.cause_death_id?)?;
        let apart = victim.when.act_time.since(death.when.act_time).abs();
        (apart <= WITH_ITS_WORKER_NS).then(|| kill(victim))
    };
    let mut first: HashMap<EventId, &Death> = HashMap::new();
    let ends = victims().map(|victim| (kill(victim), victim));
    let with_them = deaths
        .iter()
        .filter_map(|death| Some((with_a_victim(death)?, death)));
    for (kill, end) in ends.chain(with_them) {
        let earliest = first.entry(kill).or_insert(end);
        // Memory is sampled at each end, and ids are in the order of the ends. A process that was
        // signalled first may end last.
        if end.id < earliest.id {
            *earliest = end;
        }
    }
    victims()
        .filter_map(|victim| Some((victim.id, *first.get(&kill(victim))?)))
        .filter(|(id, first)| *id != first.id)
        .collect()
}

/// Gives each victim of a decision the memory that was held when the decision was taken. That is
/// what was held at the first end that the decision brought about.
fn held_when_decided(deaths: &mut [Death]) {
    let first = first_ends(deaths);
    let held: Vec<_> = deaths
        .iter()
        .enumerate()
        .filter_map(|(at, death)| Some((at, *first.get(&death.id)?)))
        .map(|(at, first)| {
            let memory = &first.memory;
            let (top, rest) = (memory.top.clone(), memory.top_rest.clone());
            (at, top, rest, minute_of_all(memory))
        })
        .collect();
    for (at, top, rest, before) in held {
        let memory = &mut deaths[at].memory;
        if let Some(minute) = &mut memory.last_minute {
            let own = deaths[at].process.pid;
            minute.top = before;
            minute.top.retain(|one| one.pid != own);
        }
        let own = memory.top.iter().find(|one| one.victim).cloned();
        (memory.top, memory.top_rest) = (top, rest);
        for one in &mut memory.top {
            one.victim = own.as_ref().is_some_and(|own| own.pid == one.pid);
        }
        // The list ends with the process that ended first, even if that one is small. For this
        // death, that process is only one of the rest.
        let listed = memory.top.iter().any(|one| one.victim);
        if let Some(own) = own.filter(|_| !listed) {
            memory.top_rest = memory.top_rest.take().and_then(|rest| rest.without(&own));
            memory.top.push(own);
        }
    }
}

/// Returns the last minute of the largest processes at a death, the one that died among them.
fn minute_of_all(memory: &Memory) -> Vec<TopBefore> {
    let Some(minute) = &memory.last_minute else {
        return Vec::new();
    };
    let row = |one: &TopProcess| {
        if !one.victim {
            let row = minute.top.iter().find(|row| row.pid == one.pid);
            return row.cloned();
        }
        Some(TopBefore {
            pid: one.pid,
            title: one.title.clone(),
            private_bytes: minute.victim_bytes.clone(),
        })
    };
    memory.top.iter().filter_map(row).collect()
}

fn killed_by(death: &Death, decisions: &[&Timestamped<RayLog>]) -> Option<KilledBy> {
    let sender = death.sender.as_ref()?;
    match death.verdict.killer {
        Killer::RayMemoryMonitor => {
            let record = decisions.iter().find(|seen| {
                let near = seen.time.since(death.when.act_time).abs() < DECIDED_WITHIN_NS;
                near && decision(seen).is_some_and(|kill| selects(kill, death))
            });
            let decided = record.map(|seen| KilledBy::Decision(death.cluster, seen.time));
            decided.or(Some(KilledBy::Sender(sender.pid, Killer::RayMemoryMonitor)))
        }
        Killer::Signal => Some(match slurm_job(death) {
            Some(job) => KilledBy::SlurmJob(job.to_owned()),
            None => KilledBy::Sender(who(sender)?, death.verdict.killer),
        }),
        _ => None,
    }
}

/// Returns the job that Slurm ended, if that is why a process died. One that somebody asked Slurm to
/// signal goes on.
fn slurm_job(death: &Death) -> Option<&str> {
    let end = death.verdict.cause.by_slurm()?;
    let job = end.job_id.as_deref();
    job.filter(|_| end.reason != SlurmReason::Requested)
}

/// Returns the decision in a record. The monitor decides once each time that it looks, so two
/// records are two decisions however close they are.
fn decision(seen: &Timestamped<RayLog>) -> Option<&MonitorKill> {
    match &seen.what.fact {
        RayFact::MonitorKill(kill) if kill.is_understood() => Some(kill),
        _ => None,
    }
}

fn selects(kill: &MonitorKill, death: &Death) -> bool {
    kill.selected.iter().any(|one| {
        let by_id = one.worker_id.is_some() && one.worker_id == death.work.worker_id;
        let pid = death.process.ns_pid.unwrap_or(death.process.pid);
        by_id || one.worker_id.is_none() && one.pid == Some(pid)
    })
}

/// Returns the sender, or its caller if the sender is one of [`TOOLS`].
fn who(sender: &SenderReport) -> Option<Pid> {
    if sender.pid.0 == 0 {
        return None;
    }
    Some(caller(sender.pid, &sender.comm, &sender.ancestors))
}

fn caller(pid: Pid, comm: &str, ancestors: &[Ancestor]) -> Pid {
    let caller = ancestors.first().filter(|_| TOOLS.contains(&comm));
    caller.map_or(pid, |caller| caller.pid)
}

/// Returns when the sender signalled this process. A process that caught the signal may have ended
/// much later. Slurm asks the processes of a job first, and kills what is left after `KillWait`.
fn sent_at(killed_by: &KilledBy, death: &Death) -> BootTime {
    match killed_by {
        KilledBy::Sender(_, Killer::Signal) => death.when.began(),
        KilledBy::SlurmJob(_) => {
            let asked = death.verdict.cause.by_slurm().and_then(|end| end.asked_ms);
            let asked = asked.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0);
            death.when.began().plus(asked.saturating_mul(-1_000_000))
        }
        _ => death.when.act_time,
    }
}

/// Splits the deaths that one sender or decision caused, wherever the sender paused.
fn volleys(
    killed_by: &KilledBy,
    members: &[usize],
    times: &BTreeMap<usize, BootTime>,
) -> Vec<Vec<usize>> {
    let mut volleys: Vec<Vec<usize>> = Vec::new();
    for at in members {
        let time = times[at];
        let follows = volleys
            .last()
            .and_then(|volley| volley.last())
            .is_some_and(|last| {
                matches!(killed_by, KilledBy::Decision(..)) || time.since(times[last]) <= VOLLEY_NS
            });
        match volleys.last_mut().filter(|_| follows) {
            Some(volley) => volley.push(*at),
            None => volleys.push(vec![*at]),
        }
    }
    volleys
}

fn act(world: &World, killed_by: &KilledBy, volley: &[usize], deaths: &[Death]) -> GroupKill {
    let members = || volley.iter().map(|at| &deaths[*at]);
    // Slurm signals the batch script and what started Ray first. Nobody looks for those.
    let is_script = |death: &Death| {
        let relation = death.sender.as_ref().map(|sender| sender.relation);
        relation == Some(Relation::WorkloadManager) && !death.process.role.is_ray_or_driver()
    };
    let first = members().min_by_key(|death| (is_script(death), death.when.act_time, death.id));
    let biggest =
        members().max_by_key(|death| (death.memory.own.resident(), std::cmp::Reverse(death.id)));
    let for_memory = members().all(|death| death.verdict.killer == Killer::RayMemoryMonitor);
    let stands = if for_memory { biggest } else { first };
    let signalled = match killed_by {
        KilledBy::Sender(pid, _) => signalled(world, *pid, volley, deaths),
        // What it says of Slurm has no number of signals.
        KilledBy::SlurmJob(_) | KilledBy::Decision(..) => volley.len(),
    };
    GroupKill {
        death_id: stands.map_or(EventId(0), |death| death.id),
        victims: u32::try_from(volley.len()).unwrap_or(u32::MAX),
        signalled: u32::try_from(signalled.max(volley.len())).unwrap_or(u32::MAX),
    }
}

/// Counts the processes that the sender signalled around these deaths, including the survivors.
fn signalled(world: &World, sender: Pid, volley: &[usize], deaths: &[Death]) -> usize {
    let killed_by = KilledBy::Sender(sender, Killer::Signal);
    let times = volley.iter().map(|at| sent_at(&killed_by, &deaths[*at]));
    let (Some(from), Some(to)) = (times.clone().min(), times.max()) else {
        return 0;
    };
    let by_sender = |seen: &Timestamped<Signal>| {
        let sent = &seen.what.sender;
        let pid = caller(sent.process.pid, &sent.comm, &sent.ancestors);
        pid == sender && from.since(seen.time) <= VOLLEY_NS && seen.time.since(to) <= VOLLEY_NS
    };
    let signals: &ByProcess<Vec<Timestamped<Signal>>> = &world.signals;
    let hit: HashSet<_> = signals
        .iter()
        .filter(|(_, sent)| sent.iter().any(by_sender))
        .map(|(key, _)| *key)
        .collect();
    hit.len()
}
