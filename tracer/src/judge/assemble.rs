//! From verdicts to the report: names, times, cause links, what is listed.

use std::collections::HashMap;

use crate::{
    event::{Observation, Role},
    ids::{BootTime, Bytes, EventId, ProcessKey},
    judge::{
        act::{self, Act},
        evidence, findings, gcs, gpus, jobs,
        limits::Limits,
        minute,
        oom::size,
        owners, pending,
        processes::ProcessState,
        report::{
            AtDeath, ClusterReport, Death, Host, InUse, Killer, LastMinute, Limit, Monitor, Peak,
            Recording, Relation, Report, Verdict,
        },
        shared_files,
        verdict::{Case, Draft, LATE_NS},
        world::{ExitSeen, Fullest, World},
    },
    path,
    ray::{facts::RayFact, identify},
};

/// The contract's version.
const SCHEMA: u32 = 1;

/// The report of all that was folded in.
pub(super) fn report(world: &World, limits: &Limits) -> Report {
    let mut deaths: Vec<Death> = world
        .exits
        .values()
        .map(|exit| death(world, exit, None))
        .collect();
    let order: HashMap<EventId, (BootTime, EventId)> = deaths
        .iter()
        .map(|death| (death.id, (death.act_time, death.id)))
        .collect();
    for death in &mut deaths {
        break_future_cause(death, &order);
    }
    deaths.sort_by_key(|death| (death.act_time, death.id));
    let jobs = jobs::all(world, &deaths, |state| cluster_number(world, state.cluster));
    for death in &mut deaths {
        death.then = jobs::survived(world, death).map(|survived| survived.how);
    }
    let mut report = Report {
        schema: SCHEMA,
        raytrace: env!("CARGO_PKG_VERSION").into(),
        recordings: recording(world, &deaths).into_iter().collect(),
        clusters: clusters(world),
        jobs,
        deaths,
        pending: pending::all(world),
        owners: owners::report(world),
        gpus: gpus::report(world),
        gpu_errors: world.gpu_errors.report(|time| world.clock.wall(time)),
        growth: world.blame_so_far().growth(),
        unread_stacks: world.blame.unread(),
        settings: Vec::new(),
        findings: Vec::new(),
        peak: world.peak.and_then(|(time, used_bytes, total_bytes)| {
            Some(Peak {
                time: world.clock.wall(time)?,
                used_bytes,
                total_bytes,
            })
        }),
        limits: limits.report(&world.clock, machine_bytes(world)),
        in_use: in_use(world),
        shared_memory: shared_files::report(world),
        notes: Vec::new(),
        texts: Vec::new(),
    };
    let facts = findings::of_recording(world, &report.deaths);
    report.settings = findings::settings(&facts, &report);
    report.findings = findings::all(&facts, &report);
    report
}

/// The signal of its wait status; where that was lost, the one that took effect.
fn signal(exit: &ExitSeen, act: Act<'_>) -> Option<i32> {
    match (exit.exit.status, act) {
        (Some(_), _) => exit.exit.signal(),
        (None, Act::Killed(seen)) => Some(seen.what.signal),
        (None, Act::Unseen { signal }) => Some(signal),
        (None, Act::Exited { .. }) => None,
    }
}

/// One death; `now` as in [`Case`].
pub(super) fn death(world: &World, exit: &ExitSeen, now: Option<BootTime>) -> Death {
    let case = Case::new(world, exit, now);
    let draft = case.verdict();
    let act = act::of(world, exit);
    let act_time = act.time(exit);
    let key = exit.exit.process;
    let unknown = ProcessState::unknown(key);
    let state = world.processes.get(key).unwrap_or(&unknown);
    let title = exit.exit.title.clone().or_else(|| state.title.clone());
    let named = title.as_deref().and_then(identify::title);
    let evidence = evidence::gather(world, exit, &draft);
    let actor = gcs::actor_of(world, state).filter(|_| state.role == Role::Worker);
    let job_id = state.job_id.clone().or_else(|| world.ray_job(key));
    let last_stack = world.blame.last(key);
    let stack_age_ms = last_stack
        .as_ref()
        .and_then(|(seen, _)| u64::try_from(exit.time.since(*seen) / 1_000_000).ok());
    Death {
        id: exit.id,
        recording_id: Some(0),
        cluster: cluster_number(world, state.cluster),
        time: world.clock.wall(act_time),
        act_time,
        exit_time: world.clock.wall(exit.time),
        stamp: None,
        pid: key.pid,
        ns_pid: exit.exit.ns_pid.or(state.ns_pid),
        start_time: world.clock.wall(state.key.start),
        comm: exit.exit.comm.clone(),
        role: state.role,
        ppid: exit.exit.parent.or(state.parent),
        container_id: state.container_id.clone(),
        worker_id: state.worker_id.clone(),
        actor_id: ray_actor(world, key).or_else(|| Some(actor?.actor_id.clone())),
        actor_class: named
            .as_ref()
            .and_then(|title| title.actor_class.clone())
            .or_else(|| state.actor_class.clone()),
        task_name: named.and_then(|title| title.task),
        gcs: gcs::report(world, state, job_id.as_ref()),
        job_id,
        attempt: None,
        exit_code: exit.exit.code(),
        signal: signal(exit, act),
        listed: listed(world, state, exit, &draft),
        verdict: Verdict {
            killer: draft.killer,
            certainty: draft.certainty,
            summary: summary(state, exit, title.as_deref(), &draft),
            clause: draft.clause,
            settled: draft.settled,
            evidence,
            cause_death_id: draft
                .cause
                .and_then(|cause| world.exit(cause))
                .map(|cause| cause.id),
            owner_lives: !draft.settled && owner_lives(world, draft.cause),
            cause_remote: draft.cause_remote,
            missing: draft.missing,
        },
        title,
        sender: draft.sender,
        memory: exit.around.memory.clone(),
        gpu: exit.around.gpu.clone(),
        oom: draft.oom,
        at_death: at_death(world, exit),
        top: exit.around.top.clone(),
        shared: exit.around.shared.clone(),
        last_minute: last_minute(world, exit),
        stack_at_death: last_stack.map(|(_, stack)| stack),
        stack_age_ms,
        calls: world
            .calls
            .get(&key.truncated())
            .and_then(|calls| calls.at_death(exit, state.parent_key.is_some())),
        then: None,
    }
}

fn owner_lives(world: &World, cause: Option<ProcessKey>) -> bool {
    let owner = cause.and_then(|cause| world.processes.get(cause));
    owner.is_some_and(|owner| {
        owner.exit.is_none() && matches!(owner.role, Role::Driver | Role::Worker)
    })
}

/// A cause must have been doomed before its effect: clocks of logs err, acts do not.
fn break_future_cause(death: &mut Death, order: &HashMap<EventId, (BootTime, EventId)>) {
    let Some(cause) = death.verdict.cause_death_id else {
        return;
    };
    let mine = order.get(&death.id).map(|(time, _)| *time);
    let its = order.get(&cause).map(|(time, _)| *time);
    let future = matches!((mine, its), (Some(mine), Some(its)) if its.since(mine) > LATE_NS);
    if cause == death.id || future {
        death.verdict.cause_death_id = None;
    }
}

fn summary(state: &ProcessState, exit: &ExitSeen, title: Option<&str>, draft: &Draft) -> String {
    let name = match title {
        Some(title) if !title.is_empty() => title.trim_start_matches("ray::"),
        _ => exit.exit.comm.as_str(),
    };
    let what = match state.role {
        Role::Worker => "",
        Role::Driver => "driver ",
        Role::Raylet => "raylet ",
        Role::Gcs => "GCS ",
        Role::Dashboard => "dashboard ",
        Role::Agent => "agent ",
        Role::Descendant => "subprocess ",
        Role::Other => "process ",
    };
    let name: String = if state.role == Role::Worker {
        name.into()
    } else {
        first_word(name)
    };
    let memory = exit.around.memory.resident().filter(|bytes| bytes.0 > 0);
    let memory = memory.map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
    format!(
        "{what}{name} (pid {}{memory}) {}",
        exit.exit.process.pid, draft.clause
    )
}

/// A command line is named by its program alone: arguments may hold secrets and are long.
fn first_word(name: &str) -> String {
    let word = name.split_whitespace().next().unwrap_or(name);
    if name.starts_with('/') || word.contains('/') {
        path::base(word).into()
    } else {
        name.chars().take(60).collect()
    }
}

/// Whether people ask about this death: not normal exits, not what Ray meant, not a child that its parent ended.
fn listed(world: &World, state: &ProcessState, exit: &ExitSeen, draft: &Draft) -> bool {
    let rays = state.role.is_rays();
    let wrapped = state.role == Role::Other && state.cluster.is_none();
    match draft.killer {
        Killer::RayIntended => false,
        Killer::Exit => exit.exit.code() != Some(0) && (rays || wrapped) && !helper(world, state),
        Killer::Signal => {
            let by_parent = draft.sender.as_ref().is_some_and(|sender| {
                matches!(sender.relation, Relation::Parent | Relation::SameJob)
            });
            rays || !by_parent
        }
        Killer::Unknown => exit.exit.status != Some(0),
        _ => true,
    }
}

/// Short-lived helpers of Ray's own that exit as they please before they are anything.
fn helper(_world: &World, state: &ProcessState) -> bool {
    state.role == Role::Worker
        && state.worker_id.is_none()
        && state.title.is_none()
        && state.argv.is_empty()
}

fn ray_actor(world: &World, key: ProcessKey) -> Option<crate::ids::HexId> {
    let worker = world.processes.get(key)?.worker_id.clone();
    world
        .ray_about(key)
        .iter()
        .find_map(|record| match &record.what.fact {
            RayFact::MonitorKill(kill) => kill
                .selected
                .iter()
                .find(|one| one.worker_id == worker)
                .and_then(|one| one.actor_id.clone()),
            RayFact::KillActorRequested { actor_id, .. } => actor_id.clone(),
            RayFact::ActorState { actor_id, .. } => Some(actor_id.clone()),
            _ => None,
        })
}

fn at_death(world: &World, exit: &ExitSeen) -> Option<AtDeath> {
    let kill = world
        .ray_about(exit.exit.process)
        .into_iter()
        .find_map(|record| match &record.what.fact {
            RayFact::MonitorKill(kill) => Some(kill.clone()),
            _ => None,
        });
    let victim = world
        .victims
        .iter()
        .find(|seen| seen.what.victim.same(exit.exit.process));
    let limits: Vec<Limit> = victim
        .into_iter()
        .flat_map(|seen| &seen.what.cgroups)
        .filter(|level| level.limit.is_some())
        .map(|level| Limit {
            cgroup: level.path.clone(),
            usage_bytes: level.usage,
            limit_bytes: level.limit,
        })
        .collect();
    (kill.is_some() || !limits.is_empty()).then(|| AtDeath {
        ray_used_bytes: kill.as_ref().and_then(|kill| kill.used),
        ray_threshold_bytes: kill.as_ref().and_then(|kill| kill.threshold),
        limits,
        object_store_bytes: None,
    })
}

fn last_minute(world: &World, exit: &ExitSeen) -> Option<LastMinute> {
    let mut minute = exit.around.minute.clone()?;
    let key = exit.exit.process.truncated();
    let steps = world.steps.get(&key).map_or(&[][..], Vec::as_slice);
    minute::refine(&mut minute, exit.time, steps, world.mapped.get(&key));
    Some(minute)
}

fn cluster_number(world: &World, cluster: Option<ProcessKey>) -> Option<u32> {
    let raylet = cluster?;
    let at = world
        .clusters
        .iter()
        .position(|known| known.raylet.same(raylet))?;
    u32::try_from(at).ok()
}

fn clusters(world: &World) -> Vec<ClusterReport> {
    let numbered = (0u32..).zip(&world.clusters);
    numbered
        .map(|(id, cluster)| ClusterReport {
            id,
            recording_id: 0,
            session: cluster.session.clone(),
            ray_version: cluster.ray_version.clone(),
            node_id: cluster.node_id.clone(),
            raylet_pid: cluster.raylet.pid,
            container_id: cluster.container_id.clone(),
            monitor: monitor(world, cluster.raylet),
            object_store_bytes: cluster.object_store_bytes,
            log_utc_offset_s: cluster.log_utc_offset_s,
        })
        .collect()
}

pub(super) fn monitor(world: &World, raylet: ProcessKey) -> Option<Monitor> {
    world
        .ray_of_cluster(raylet)
        .rev()
        .find_map(|record| match &record.what.fact {
            RayFact::MonitorStarted {
                threshold,
                total,
                interval_ms,
                ..
            } => Some(Monitor {
                enabled: true,
                threshold_bytes: Some(*threshold),
                total_bytes: Some(*total),
                refresh_ms: *interval_ms,
            }),
            RayFact::MonitorDisabled => Some(Monitor {
                enabled: false,
                threshold_bytes: None,
                total_bytes: None,
                refresh_ms: None,
            }),
            _ => None,
        })
}

/// All memory of the machine; as much as any where it is not known.
fn machine_bytes(world: &World) -> Bytes {
    let sampled = world.peak.map(|(_, _, total)| total);
    let started = world.started.as_ref();
    let told = started.map(|(_, started)| started.memory_bytes);
    sampled.or(told).unwrap_or(Bytes(u64::MAX))
}

fn in_use(world: &World) -> Option<InUse> {
    let Fullest {
        time,
        node,
        tracked,
        shared,
    } = world.fullest.as_ref()?;
    let anon = node.anon?;
    // Pages that a child shares with its parent until one writes are counted for both.
    let private = tracked.0.min(anon.0);
    let kernel = node.kernel?.0 + node.huge?.0 + node.cpu_lists?.0;
    Some(InUse {
        time: world.clock.wall(*time)?,
        used_bytes: Bytes(node.total.0.saturating_sub(node.free.0)),
        private_bytes: Bytes(private),
        others_private_bytes: Bytes(anon.0 - private),
        shared_bytes: node.shmem,
        shared_remainder_bytes: shared_files::remainder(node.shmem, shared),
        shared_files: shared.clone(),
        cache_bytes: node.file?,
        kernel_bytes: Bytes(kernel),
        remainder_bytes: node.remainder()?,
    })
}

fn recording(world: &World, deaths: &[Death]) -> Option<Recording> {
    let (time, started) = world.started.as_ref()?;
    let normal_exits = deaths.iter().filter(|death| !death.listed).count();
    Some(Recording {
        id: 0,
        host: Host {
            name: started.host.clone(),
            kernel: started.kernel.clone(),
            boot_id: started.boot_id.clone(),
            memory_bytes: started.memory_bytes,
        },
        mode: started.mode,
        started: world.clock.wall(*time)?,
        ended: world.clock.wall(world.last_time)?,
        clean_end: world.clean_end,
        probes: world.probes.clone(),
        lost_events: world.ledgers.iter().map(crate::event::Ledger::lost).sum(),
        ledgers: world.ledgers.clone(),
        normal_exits: normal_exits as u64,
    })
}

/// Whether an event can change a verdict that was given before: the live recorder judges again then.
pub(super) fn bears_on_verdicts(what: &Observation) -> bool {
    matches!(
        what,
        Observation::RayLog(_) | Observation::Kmsg(_) | Observation::Exit(_)
    )
}
