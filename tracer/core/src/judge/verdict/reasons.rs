//! Finds in Ray's logs why Ray ended a worker.
//!
//! Reasons are the memory monitor's kill record, the owner's death, a shutdown, and others.

use libc::{SIGINT, SIGTERM};

use super::{Case, Draft, LATE_NS, aftermath, measured, senders, starter, watched};
use crate::{
    event::{RayLog, Role},
    ids::{BootTime, HexId, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        cause::{Cause, ProcessRef, Request},
        ray_reason::{RayReason, owner_ended},
        report::{Certainty, Killer, Remote},
        state::{processes::ProcessState, timestamped::Timestamped},
    },
    ray::{
        facts::{ExitType, MonitorKill, RayFact},
        tree::Part,
        words,
    },
};

/// The error of a log line's time. Lines have a time in whole milliseconds, and the two clocks are
/// read one after the other.
pub(super) const LOG_STAMP_NS: i64 = 2_000_000;

/// Why Ray ended a process.
pub(super) enum Reason {
    /// Its memory monitor chose it.
    Memory(MonitorKill),
    /// Ray ended it on purpose.
    Intended(Cause),
    /// Something else had died.
    Collapse {
        why: Cause,
        cause: Option<ProcessKey>,
        remote: Option<Remote>,
    },
}

impl Reason {
    /// Returns the reason of a process that followed another on this node.
    fn followed(why: Cause, cause: ProcessKey) -> Self {
        Self::Collapse {
            why,
            cause: Some(cause),
            remote: None,
        }
    }

    /// Returns the reason that a record gives.
    fn of(record: &Timestamped<RayLog>) -> Option<Self> {
        Some(match RayReason::of(&record.what.fact)? {
            RayReason::Memory => Self::Memory(MonitorKill::default()),
            RayReason::Intended(why) => Self::Intended(why),
            RayReason::Collapse { why, remote } => Self::Collapse {
                why,
                cause: None,
                remote: remote.map(Remote::Says),
            },
        })
    }

    /// Names what ended before, if that is known here. Else Ray's words stand for it.
    fn after(self, ended: Option<ProcessKey>) -> Self {
        match self {
            Self::Collapse { why, remote, .. } => Self::Collapse {
                why,
                cause: ended,
                remote: remote.filter(|_| ended.is_none()),
            },
            other => other,
        }
    }

    /// Returns whether the record can be about the act at all. Used for reasons that name only a
    /// pid.
    fn near(record: BootTime, act: BootTime) -> bool {
        (-10 * SECOND_NS..=10 * SECOND_NS).contains(&act.since(record))
    }

    /// Returns the verdict. Its reason comes from a log and is therefore inferred, even if it is
    /// proven who acted.
    pub(super) fn draft(self, case: &Case<'_>, certainty: Certainty) -> Draft {
        self.made(case, certainty).by_text()
    }

    fn made(self, case: &Case<'_>, certainty: Certainty) -> Draft {
        match self {
            Self::Memory(kill) => {
                let cause = Cause::RayMemoryMonitor {
                    used_bytes: kill.used,
                    threshold_bytes: kill.threshold,
                };
                Draft::new(Killer::RayMemoryMonitor, certainty, cause)
            }
            Self::Intended(why) => {
                // The worker's own log may be read after the raylet's, and so may the job that it
                // belonged to.
                let vague = match why {
                    Cause::Intended | Cause::RayRequest { says: None, .. } => true,
                    Cause::JobEnded => driver_of(case).is_none(),
                    _ => false,
                };
                Draft::new(Killer::RayIntended, certainty, why)
                    .open_if(vague && case.may_still_learn())
            }
            Self::Collapse { why, cause, remote } => {
                let mut draft = Draft::new(Killer::RayCollapse, certainty, why).caused_by(cause);
                draft.cause_remote = remote;
                draft
            }
        }
    }
}

/// Returns the reason that Ray's logs give for ending this process around `act`.
pub(super) fn for_process(case: &Case<'_>, raylet: ProcessKey, act: BootTime) -> Option<Reason> {
    let gone = aftermath::gone_by(case, act);
    // After a signal from the raylet, the exit code is that of the signal's handler.
    if act == case.exit.time && aftermath::has_own_code(case) {
        return shutdown(case, raylet, gone);
    }
    let about = case.world.ray_about(case.key());
    let by_worker = about.iter().find_map(|record| monitor(case, record, act));
    let by_worker = by_worker.or_else(|| about.iter().find_map(|record| exit_type(record)));
    // If raytrace measured that memory was not short, another reason is the better one.
    let contradicted = by_worker.is_some()
        && measured::around(case).is_some_and(measured::MonitorReading::is_far_below);
    let (first, last) = if contradicted {
        (None, by_worker)
    } else {
        (by_worker, None)
    };
    // A raylet that ends its workers by name was ending before it asked for anything else.
    let stopped = || {
        let named = about
            .iter()
            .any(|record| matches!(record.what.fact, RayFact::StopSignal { .. }));
        named.then(|| shutdown(case, raylet, gone)).flatten()
    };
    first
        .or_else(stopped)
        .or_else(|| {
            about
                .iter()
                .find_map(|record| specific(case, record, act, gone))
        })
        .or_else(|| {
            about
                .iter()
                .find_map(|record| actor_kill(case, record, gone))
        })
        .or_else(|| shutdown(case, raylet, gone))
        .or_else(|| {
            about
                .iter()
                .rev()
                .find_map(|record| disconnect(case, record, act))
        })
        .or(last)
}

/// Returns the reason of a kill record by which the memory monitor selected this process. The text
/// must come from the raylet.
fn monitor(case: &Case<'_>, record: &Timestamped<RayLog>, act: BootTime) -> Option<Reason> {
    let RayFact::MonitorKill(kill) = &record.what.fact else {
        return None;
    };
    let worker = case.world.processes.get(case.key())?.worker_id.clone();
    let same_worker = kill
        .selected
        .iter()
        .any(|one| one.worker_id.is_some() && one.worker_id == worker);
    (same_worker || Reason::near(record.time, act)).then(|| Reason::Memory(kill.clone()))
}

/// Returns the memory monitor as the reason, if the raylet or the GCS recorded that as the type of
/// this worker's exit. Only the raylet sets that type, for workers that its monitor killed.
fn exit_type(record: &Timestamped<RayLog>) -> Option<Reason> {
    match &record.what.fact {
        RayFact::Disconnected { exit_type, .. } | RayFact::GcsWorkerExit { exit_type, .. } => {
            let for_memory = *exit_type == ExitType::NodeOutOfMemory;
            for_memory.then(|| Reason::Memory(MonitorKill::default()))
        }
        _ => None,
    }
}

/// Returns the reason of a record that names this worker and nothing else.
fn specific(
    case: &Case<'_>,
    record: &Timestamped<RayLog>,
    act: BootTime,
    gone: BootTime,
) -> Option<Reason> {
    // A later record cannot be the reason. The raylet writes these before it acts. What is written
    // once the worker is gone may follow from its end, like the end of a job that failed because of
    // it.
    let late = match record.what.fact {
        RayFact::OwnerDied { .. } | RayFact::JobFinished { .. } => {
            record.time.since(gone) > LOG_STAMP_NS
        }
        _ => record.time.since(act) > SECOND_NS,
    };
    if late {
        return None;
    }
    match &record.what.fact {
        RayFact::OwnerDied {
            owner_worker_id,
            reason,
            ..
        } => {
            let owner = owner_worker_id.as_ref().and_then(|id| owner(case, id));
            Some(after_owner(case, owner.map(|state| state.key), reason))
        }
        RayFact::JobFinished { .. } => Some(after_job(case)),
        RayFact::ForceKilled { .. } | RayFact::NotRegistered { .. } => {
            Reason::of(record).filter(|_| Reason::near(record.time, act))
        }
        // A pid alone may be that of an earlier worker.
        RayFact::MonitorEvicted { worker_id, .. } => {
            let state = case.world.processes.get(case.key())?;
            let same = worker_id.is_some() && *worker_id == state.worker_id;
            let fits = same || worker_id.is_none() && Reason::near(record.time, act);
            Reason::of(record).filter(|_| fits)
        }
        _ => None,
    }
}

/// Returns the reason for a request to kill the actor. The worker's own log gives it (≥ 2.9).
/// Otherwise nothing more is known than the request.
fn actor_kill(case: &Case<'_>, record: &Timestamped<RayLog>, gone: BootTime) -> Option<Reason> {
    // The raylet writes it before it asks the worker (node_manager.cc, HandleKillLocalActor). A
    // later one is about an actor that had died by itself and has lost its last handle.
    if record.time.since(gone) > LOG_STAMP_NS {
        return None;
    }
    // The GCS may learn of an actor's end before its raylet does. It sends the request then too.
    let followed = aftermath::was_an_error(case) || aftermath::was_out_of_reach(case);
    if own_words(case).is_none() && followed {
        return None;
    }
    match &record.what.fact {
        RayFact::KillActorRequested { .. } => own_words(case).or_else(|| Reason::of(record)),
        _ => None,
    }
}

/// Returns the reason that the worker's own log gives: `Force kill actor request has received. …
/// The actor is dead because its owner has died. Owner Id: …`.
fn own_words(case: &Case<'_>) -> Option<Reason> {
    let about = case.world.ray_about(case.key());
    about.iter().find_map(|record| match &record.what.fact {
        RayFact::ForceKillActor { reason, .. } => Some(actor_reason(case, reason)),
        _ => None,
    })
}

/// Returns the reason in the text that a worker gets when its actor is to be killed.
pub(super) fn actor_reason(case: &Case<'_>, reason: &str) -> Reason {
    if let Some(gone) = words::owner_gone(reason) {
        let owner = gone.owner.and_then(|id| owner(case, &id));
        if gone.node_crashed {
            return after_node(owner.and_then(|state| state.cluster));
        }
        return after_owner(case, owner.map(|state| state.key), "owner has died");
    }
    // Up to Ray 2.9, the GCS takes the loss of a dead owner for the end of all references.
    let out_of_references = words::is_out_of_references(reason);
    if let Some(owners_end) = owners_end(case).filter(|_| out_of_references) {
        return owners_end;
    }
    let why = Cause::RayRequest {
        request: Request::of(reason).unwrap_or(Request::Other),
        says: Some(words::short_reason(reason)),
    };
    let dead_driver = driver_of(case).map(|state| state.key).filter(|driver| {
        let before = case
            .act_time(*driver)
            .is_some_and(|time| time < case.exit.time);
        before && case.ended_well(*driver) == Some(false)
    });
    match dead_driver {
        Some(driver) if out_of_references => Reason::followed(why, driver),
        _ => Reason::Intended(why),
    }
}

/// Returns the end of its owner as the reason, if the raylet recorded it before this process ended.
fn owners_end(case: &Case<'_>) -> Option<Reason> {
    let about = case.world.ray_about(case.key());
    let mut ends = about
        .iter()
        .filter(|record| matches!(record.what.fact, RayFact::OwnerDied { .. }));
    ends.find_map(|record| specific(case, record, case.exit.time, case.exit.time))
}

/// Returns the owner with this worker id. A process that joins one cluster after another
/// (`ray.init()` again after `ray.shutdown()`) is known only as the driver of the first. The raylet
/// logs the pid of a driver that has left.
fn owner<'a>(case: &Case<'a>, id: &HexId) -> Option<&'a ProcessState> {
    let cluster = case.cluster()?;
    let processes = &case.world.processes;
    processes.by_worker(cluster, id).or_else(|| {
        let (pid, left) = case.world.driver_left(cluster, id)?;
        let lived = |state: &&ProcessState| {
            let exit = case.world.exit(state.key);
            state.key.start <= left && exit.is_none_or(|exit| left <= exit.time)
        };
        let is_it = |state: &&ProcessState| {
            state.role == Role::Driver && state.pid_for_ray() == pid && lived(state)
        };
        let mut found = processes.iter().filter(is_it);
        // Two containers may have the same pid.
        found.next().filter(|_| found.next().is_none())
    })
}

fn after_node(raylet: Option<ProcessKey>) -> Reason {
    Reason::Collapse {
        why: Cause::OwnersNodeCrashed,
        cause: raylet,
        remote: raylet.is_none().then_some(Remote::OwnerNode),
    }
}

fn after_owner(case: &Case<'_>, owner: Option<ProcessKey>, reason: &str) -> Reason {
    let mut why = owner_ended(reason);
    let of_job = why == Cause::JobEnded;
    if let Cause::OwnerDied { owner_lived, .. } = &mut why {
        *owner_lived = owner.and_then(|owner| lived(case, owner));
    }
    match owner.map(|key| (key, case.ended_well(key))) {
        Some((_, Some(true))) => Reason::Intended(why),
        Some((key, _)) if outlived_by(case, key) => Reason::Intended(why),
        // The owner left Ray and lives on: `ray.shutdown()` in a notebook. An owner that ends tells
        // Ray first and exits later.
        Some((key, None)) if lives_on(case, key) => Reason::Intended(why),
        Some((key, _)) => Reason::followed(why, key),
        None if of_job => Reason::Intended(why),
        None => Reason::Collapse {
            why,
            cause: None,
            remote: Some(Remote::Owner),
        },
    }
}

/// Returns the role of `other`, if it was still there when this process ended.
fn lived(case: &Case<'_>, other: ProcessKey) -> Option<Role> {
    let ended_later = case
        .act_time(other)
        .is_none_or(|died| died > case.exit.time);
    let state = case.world.processes.get(other)?;
    ended_later.then_some(state.role)
}

/// Returns whether `other` has not ended and is not expected to end any more.
fn lives_on(case: &Case<'_>, other: ProcessKey) -> bool {
    case.world.exit(other).is_none() && !case.may_still_end(other)
}

/// Returns whether `other` lived on, so that its end is not why this one ended. An example is a
/// driver that left Ray by `ray.shutdown()`.
fn outlived_by(case: &Case<'_>, other: ProcessKey) -> bool {
    !case.is_before(other)
        || case
            .act_time(other)
            .is_some_and(|died| died.since(case.exit.time) > LATE_NS)
}

/// Returns the reason if the job of this worker is over, by its driver's intended end or by the
/// driver's death.
pub(super) fn after_job(case: &Case<'_>) -> Reason {
    let collapses = |driver: &ProcessKey| match case.ended_well(*driver) {
        Some(true) => false,
        Some(false) => !outlived_by(case, *driver),
        None => case.may_still_end(*driver),
    };
    match driver_of(case).map(|state| state.key).filter(collapses) {
        Some(driver) => Reason::followed(Cause::JobEnded, driver),
        None => Reason::Intended(Cause::JobEnded),
    }
}

/// Returns the driver of this worker's job.
fn driver_of<'a>(case: &Case<'a>) -> Option<&'a ProcessState> {
    let worker = case.world.processes.get(case.key())?;
    let job = worker
        .job_id
        .clone()
        .or_else(|| case.world.ray_job(case.key()))?;
    let cluster = worker.cluster?;
    case.world.processes.iter().find(|state| {
        state.role == Role::Driver && state.belongs_to(cluster) && state.job() == Some(job.clone())
    })
}

/// Returns the reason if the raylet was shutting down.
pub(super) fn shutdown(case: &Case<'_>, raylet: ProcessKey, act: BootTime) -> Option<Reason> {
    // The raylet writes after it has sent a signal. A process that exited by itself before that did
    // so for another reason.
    let ended = case.exit.time;
    let by_itself =
        case.exit.exit.code().is_some() && (act == ended || act == aftermath::gone_by(case, ended));
    let early = if by_itself { LOG_STAMP_NS } else { SECOND_NS };
    let before = |record: &&Timestamped<RayLog>| {
        (-early..MINUTE_NS).contains(&act.since(record.time))
            && (!by_itself || watched::ends_at_shutdown(case, raylet, record.time))
    };
    let with_an_agent = case.part().is_none_or(Part::ends_with_an_agent);
    let mut agent = None;
    let mut lost_gcs = None;
    let mut marked = None;
    let mut drained = None;
    let mut told = false;
    for record in case.world.ray_of_cluster(raylet).filter(before) {
        match &record.what.fact {
            RayFact::AgentFailed { agent: name } if with_an_agent => {
                let key = agent_of(case, raylet, name, record.time);
                agent = Reason::of(record).map(|reason| (reason.after(key), key));
            }
            RayFact::RayletMarkedDead { reason } if words::lost_the_gcs(reason) => {
                lost_gcs = Reason::of(record);
            }
            RayFact::RayletMarkedDead { .. } => marked = Reason::of(record),
            RayFact::RayletShutdown { reason, .. } if words::was_drained(reason) => {
                drained = Reason::of(record);
            }
            RayFact::RayletSigterm | RayFact::StopSignal { .. } => told = true,
            _ => {}
        }
    }
    // What the raylet logs about this very agent follows from the agent's end.
    let agent = agent.filter(|(_, key)| key.is_none_or(|key| !key.same(case.key())));
    let itself = case.key().same(raylet);
    // A raylet ends when it learns that the GCS had declared its node dead, and takes the rest of
    // the node along.
    let marked = || marked.map(|marked| marked.after((!itself).then_some(raylet)));
    let lost_gcs = || lost_gcs.map(|lost| lost.after(gcs_of(case, raylet, act)));
    let known = agent.map(|(reason, _)| reason).or(drained);
    let known = known.or_else(marked).or_else(|| without_gcs(case, raylet));
    if let Some(reason) = known.or_else(lost_gcs) {
        return Some(reason);
    }
    if itself {
        return None;
    }
    let stopped = raylet_was_stopped(case, raylet, act, by_itself);
    let told = told && !was_told_later(case, raylet, act);
    (told || stopped.is_some()).then(|| {
        let why = Cause::RayletShutdown { requested_by: None };
        stopped.unwrap_or(Reason::followed(why, raylet))
    })
}

/// Returns whether the raylet was seen to get a SIGTERM shortly after `act`. In that case `act` had
/// another reason.
fn was_told_later(case: &Case<'_>, raylet: ProcessKey, act: BootTime) -> bool {
    let mut signals = case.world.signals_to(raylet).iter();
    signals
        .any(|seen| seen.what.signal == SIGTERM && (1..SECOND_NS).contains(&seen.time.since(act)))
}

/// Returns the reason if the raylet was seen to get a signal to end, before `act`. The reason names
/// the sender.
fn raylet_was_stopped(
    case: &Case<'_>,
    raylet: ProcessKey,
    act: BootTime,
    by_itself: bool,
) -> Option<Reason> {
    let term = case.world.signals_to(raylet).iter().find(|seen| {
        // A raylet blocks SIGINT, so Ctrl-C in its terminal does nothing to it.
        (seen.what.signal == SIGTERM || seen.what.signal == SIGINT && seen.what.took_effect)
            && matches!(seen.what.result, 0 | 4)
            && (0..MINUTE_NS).contains(&act.since(seen.time))
            && (!by_itself || watched::ends_at_shutdown(case, raylet, seen.time))
    })?;
    let tool = senders::tool(case, &term.what)
        .or_else(|| senders::own_driver(case, term, raylet))
        .or_else(|| starter::leaving(case, term));
    if let Some(tool) = tool {
        return Some(Reason::Intended(tool.cause(true)));
    }
    let requested_by = Some(ProcessRef::of(&term.what.sender));
    let why = Cause::RayletShutdown { requested_by };
    Some(Reason::followed(why, raylet))
}

/// Returns the agent that the raylet reports as ended: of the agents with that name, the last one
/// to end before the record.
fn agent_of(case: &Case<'_>, raylet: ProcessKey, name: &str, time: BootTime) -> Option<ProcessKey> {
    let part = if words::is_dashboard_agent(name) {
        Part::DashboardAgent
    } else {
        Part::RuntimeEnvAgent
    };
    case.world
        .exits
        .values()
        .filter(|exit| (-SECOND_NS / 10..30 * SECOND_NS).contains(&time.since(exit.time)))
        .filter_map(|exit| case.world.processes.get(exit.exit.process))
        .filter(|state| {
            state.belongs_to(raylet) && watched::part(case.world, state.key) == Some(part)
        })
        .map(|state| state.key)
        .next_back()
}

/// Returns the reason of a process that failed because it had lost the GCS. The GCS ended before,
/// no other one has taken its place, and the raylet was still there.
///
/// All processes give up after `gcs_rpc_server_reconnect_timeout_s`
/// (`src/ray/common/ray_config_def.h`). Some do so before their raylet, which logs it.
fn without_gcs(case: &Case<'_>, raylet: ProcessKey) -> Option<Reason> {
    // A process that failed by itself in the meantime did not do so when the raylet gave up.
    let told = gave_up(case, raylet, case.exit.time);
    let lost = |cause, remote| Reason::Collapse {
        why: Cause::GcsLost,
        cause,
        remote,
    };
    match gcs_before(case, raylet)? {
        Gcs::Here(gcs) if is_agent(case) || told.is_some() => Some(lost(Some(gcs), None)),
        Gcs::Here(_) => None,
        Gcs::Elsewhere => told.map(|words| lost(None, Some(Remote::Says(words)))),
    }
}

/// Returns whether the raylet may still log that it has given up on the GCS, which may be why this
/// process failed.
pub(super) fn may_give_up(case: &Case<'_>) -> bool {
    let lost = |raylet| gcs_before(case, raylet).is_some();
    case.is_within(GIVE_UP_NS) && case.cluster().is_some_and(lost)
}

/// The GCS that a process may have lost.
enum Gcs {
    /// It ended on this node.
    Here(ProcessKey),
    /// It is on another node.
    Elsewhere,
}

fn is_agent(case: &Case<'_>) -> bool {
    matches!(
        case.part(),
        Some(Part::DashboardAgent | Part::RuntimeEnvAgent)
    )
}

/// Returns the GCS that this process may have lost, if it failed the way a process without its GCS
/// fails.
fn gcs_before(case: &Case<'_>, raylet: ProcessKey) -> Option<Gcs> {
    let ended = case.exit.time;
    let code = case.exit.exit.code();
    let part = case.part().filter(|part| part.watches(Part::Gcs));
    let failed = match part {
        Some(Part::DashboardAgent | Part::RuntimeEnvAgent) => code != Some(0),
        Some(Part::Worker | Part::Dashboard) => code == Some(1),
        _ => false,
    };
    let had_raylet = case.act_time(raylet).is_none_or(|died| died > ended);
    if !failed || !had_raylet {
        return None;
    }
    if is_elsewhere(case, raylet) {
        return Some(Gcs::Elsewhere);
    }
    let gcs = gcs_of(case, raylet, ended)?;
    // Another one at that time, not at the end of the recording.
    let other = case.world.processes.iter().any(|state| {
        let exit = case.world.exit(state.key);
        let lived = state.key.start <= ended && exit.is_none_or(|exit| exit.time > ended);
        lived && is_gcs_of(case, raylet, state)
    });
    (!other).then_some(Gcs::Here(gcs))
}

fn is_elsewhere(case: &Case<'_>, raylet: ProcessKey) -> bool {
    let cluster = case.world.cluster(raylet);
    let of_head = cluster.is_none_or(|cluster| cluster.head || cluster.gcs_address.is_none());
    let mut processes = case.world.processes.iter();
    !of_head && !processes.any(|state| is_gcs_of(case, raylet, state))
}

/// Returns what the raylet logged as it gave up on its GCS, if that was at about this time.
fn gave_up(case: &Case<'_>, raylet: ProcessKey, time: BootTime) -> Option<String> {
    let mut records = case.world.ray_of_cluster(raylet);
    records.find_map(|record| match &record.what.fact {
        RayFact::RayletMarkedDead { reason } if words::lost_the_gcs(reason) => {
            let about = record.time.since(time).abs() < GIVE_UP_NS;
            about.then(|| reason.clone())
        }
        _ => None,
    })
}

/// The longest time between the first and the last process of a node that give up.
pub(super) const GIVE_UP_NS: i64 = 5 * SECOND_NS;

/// Returns the GCS of this cluster, if it ended within the raylet's time-outs before `act`.
fn gcs_of(case: &Case<'_>, raylet: ProcessKey, act: BootTime) -> Option<ProcessKey> {
    case.world
        .exits
        .values()
        .filter(|exit| (0..2 * MINUTE_NS).contains(&act.since(exit.time)))
        .filter_map(|exit| case.world.processes.get(exit.exit.process))
        .filter(|state| is_gcs_of(case, raylet, state))
        .map(|state| state.key)
        .next_back()
}

/// Returns whether this is the raylet's GCS, by its cluster or by the port that the raylet was
/// given.
fn is_gcs_of(case: &Case<'_>, raylet: ProcessKey, state: &ProcessState) -> bool {
    let address = case.world.cluster(raylet);
    let address = address.and_then(|cluster| cluster.gcs_address.as_deref());
    let is_its = match (address, &state.cluster) {
        (_, Some(cluster)) => cluster.same(raylet),
        (Some(address), None) => address
            .rsplit(':')
            .next()
            .is_some_and(|port| state.argv.iter().any(|arg| arg.ends_with(port))),
        (None, None) => false,
    };
    state.role == Role::Gcs && is_its
}

/// Returns the reason of the raylet's disconnect record, if that says that Ray ended the worker on
/// purpose.
fn disconnect(case: &Case<'_>, record: &Timestamped<RayLog>, act: BootTime) -> Option<Reason> {
    let RayFact::Disconnected { exit_type, .. } = &record.what.fact else {
        return None;
    };
    let before = record.time.since(act) < SECOND_NS;
    let wanted = exit_type.is_intended() && before && !aftermath::was_out_of_reach(case);
    wanted.then_some(Reason::Intended(Cause::Intended))
}
