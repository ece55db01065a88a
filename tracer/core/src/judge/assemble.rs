//! From verdicts to the report: names, times, cause links, what is listed.

use std::collections::{BTreeMap, HashMap};

use crate::{
    event::{Observation, Role},
    ids::{BootTime, Bytes, EventId, ProcessKey},
    judge::{
        act::{self, FatalAct},
        acts, dialect, evidence, findings, gcs,
        gone::Gone,
        gpus, jobs,
        limits::Limits,
        marks, minute, owners, peers, pending, place,
        processes::ProcessState,
        report::{
            Activity, AtDeath, ClockState, ClusterReport, Death, End, Foreseen, Host, InUse,
            Killer, LastMinute, Limit, Memory, Monitor, OomReport, Peak, Process, Recording,
            Relation, Report, Utc, Verdict, WentAway, When, Work,
        },
        said, shared_files,
        verdict::{Case, Draft, LATE_NS},
        world::{ExitSeen, World},
    },
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
        .map(|death| (death.id, (death.when.act_time, death.id)))
        .collect();
    for death in &mut deaths {
        break_future_cause(death, &order);
    }
    deaths.sort_by_key(|death| (death.when.act_time, death.id));
    report_of(world, limits, deaths)
}

/// The report of these deaths, in the order of their acts.
pub(super) fn report_of(world: &World, limits: &Limits, mut deaths: Vec<Death>) -> Report {
    peers::link(world, &mut deaths);
    acts::group(world, &mut deaths);
    let jobs = jobs::all(world, &deaths, |state| cluster_number(world, state.cluster));
    jobs::link_drivers(&jobs, &mut deaths);
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
        growth: world.growth(),
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
        nodes: Vec::new(),
        marks: marks::all(world, |cluster| cluster_number(world, cluster)),
        said: said::all(world, |cluster| cluster_number(world, cluster)),
        machines: Vec::new(),
    };
    let facts = findings::of_recording(world, &report.deaths);
    findings::name_suspects(&facts, &mut report);
    report.settings = findings::settings(&facts, &report);
    report.findings = findings::all(&facts, &report);
    report.notes.extend(dialect::note(&report));
    report.notes.extend(unread_kills(world));
    report
}

/// A note for each version of Ray whose kill records no grammar reads.
fn unread_kills(world: &World) -> impl Iterator<Item = String> + '_ {
    let mut unread: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for cluster in &world.clusters {
        let records = world.ray_of_cluster(cluster.raylet);
        let records = records.filter(|record| match &record.what.fact {
            RayFact::MonitorKill(kill) => !kill.is_understood(),
            _ => false,
        });
        *unread.entry(cluster.ray_version.as_deref()).or_default() += records.count();
    }
    let notes = unread.into_iter();
    notes.filter_map(|(version, records)| dialect::unread(records, version))
}

/// The signal of its wait status; where that was lost, the one that took effect.
fn signal(exit: &ExitSeen, act: FatalAct<'_>) -> Option<i32> {
    match (exit.exit.status, act) {
        (Some(_), _) => exit.exit.signal(),
        (None, FatalAct::Killed(seen)) => Some(seen.what.signal),
        (None, FatalAct::Unseen { signal }) => Some(signal),
        (None, FatalAct::Exited { .. }) => None,
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
    let listed = listed(state, exit, &draft);
    let actor = gcs::actor_of(world, state).filter(|_| state.role == Role::Worker);
    let job_id = state.job_id.clone().or_else(|| world.ray_job(key));
    let process = Process {
        ns_pid: exit.exit.ns_pid.or(state.ns_pid),
        start_time: world.clock.wall(state.key.start),
        title,
        ppid: exit.exit.parent.or(state.parent),
        container_id: state.container_id.clone(),
        place: place::of(world, state),
        ..Process::new(key.pid, exit.exit.comm.clone(), state.role)
    };
    let verdict = Verdict {
        reason_certainty: draft.reason_certainty,
        settled: draft.settled,
        evidence,
        cause_death_id: draft
            .cause
            .and_then(|cause| world.exit(cause))
            .map(|cause| cause.id),
        cause_remote: draft.cause_remote,
        missing: draft.missing,
        ..Verdict::new(draft.killer, draft.certainty, draft.why)
    };
    let oom = draft.oom.as_ref();
    let foreseen = world.nears.of_kill(draft.killer, oom, act_time);
    Death {
        id: exit.id,
        recording_id: Some(0),
        cluster: cluster_number(world, state.cluster),
        when: When {
            time: world.clock.wall(act_time),
            act_time,
            exit_time: world.clock.wall(exit.time),
            corrected_time: None,
            stamp: None,
        },
        work: Work {
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
        },
        end: End {
            exit_code: exit.exit.code(),
            signal: signal(exit, act),
        },
        listed,
        sender: draft.sender,
        memory: memory(world, exit, draft.oom, foreseen),
        activity: activity(world, exit, state),
        ..Death::new(process, verdict)
    }
}

/// The memory of a process that ended, and of its surroundings.
fn memory(
    world: &World,
    exit: &ExitSeen,
    oom: Option<OomReport>,
    foreseen: Option<Foreseen>,
) -> Memory {
    Memory {
        own: exit.around.memory.clone(),
        gpu: exit.around.gpu.clone(),
        oom,
        at_death: at_death(world, exit),
        top: exit.around.top.clone(),
        top_rest: exit.around.top_rest.clone(),
        suspect: None,
        shared: exit.around.shared.clone(),
        last_minute: last_minute(world, exit),
        foreseen,
    }
}

/// What it was running, by the last stack and its titles.
fn activity(world: &World, exit: &ExitSeen, state: &ProcessState) -> Activity {
    let key = exit.exit.process;
    let last_stack = world.blame.last(key);
    let stack_age_ms = last_stack
        .as_ref()
        .and_then(|(seen, _)| u64::try_from(exit.time.since(*seen) / 1_000_000).ok());
    let calls = world.calls.get(&key.truncated());
    Activity {
        line_at_death: world.blame.last_line(key),
        stack_at_death: last_stack.map(|(_, stack)| stack),
        stack_age_ms,
        calls: calls.and_then(|calls| calls.at_death(exit, state.parent_key.is_some())),
    }
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

/// Whether this death is listed: not normal exits, not what Ray meant, not a child that its parent ended.
fn listed(state: &ProcessState, exit: &ExitSeen, draft: &Draft) -> bool {
    let rays = state.role.is_rays();
    let wrapped = state.role == Role::Other && state.cluster.is_none();
    match draft.killer {
        Killer::RayIntended => false,
        Killer::Exit => exit.exit.code() != Some(0) && (rays || wrapped) && !is_helper(state),
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
fn is_helper(state: &ProcessState) -> bool {
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
            node_ip: node_ip(world, cluster.raylet),
            place: place::of_raylet(world, cluster.raylet),
            monitor: monitor(world, cluster.raylet),
            object_store_bytes: cluster.object_store_bytes,
            log_utc_offset_s: cluster.log_utc_offset_s,
            gcs_address: cluster.gcs_address.clone(),
            head: cluster.head,
        })
        .collect()
}

/// Those whose raylet lives.
pub(super) fn clusters_alive(world: &World) -> Vec<ClusterReport> {
    let lives = |cluster: &&crate::event::Cluster| world.exit(cluster.raylet).is_none();
    let alive: Vec<_> = world.clusters.iter().filter(lives).collect();
    let mut reports = clusters(world);
    reports.retain(|report| alive.iter().any(|one| one.raylet.pid == report.raylet_pid));
    reports
}

/// The address that a raylet names itself by.
fn node_ip(world: &World, raylet: ProcessKey) -> Option<String> {
    let state = world.processes.get(raylet)?;
    identify::option(&state.argv, "node-ip-address").map(str::to_owned)
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
    let full = world.fullest.as_ref()?;
    let (node, shared) = (&full.node, &full.shared);
    let anon = node.anon?.0;
    let used = node.total.0.saturating_sub(node.free.0);
    let error = ((full.processes as u64) << 20) + (full.tracked.0 + used) / 100;
    // Files of earlier versions do not say what forked children share: there it counts for each of them, and what the
    // kernel counts is the only bound.
    let twice = !world.tells_shares() && full.tracked.0 > anon + error;
    let tracked = if twice { anon } else { full.tracked.0 };
    let others = full
        .others
        .map_or(anon.saturating_sub(tracked), |others| others.0);
    // What the processes have, counted one by one, beside what the kernel counts.
    let unknown = anon.cast_signed() - (tracked + others).cast_signed();
    let kernel = node.kernel?.0 + node.huge?.0 + node.cpu_lists?.0;
    Some(InUse {
        time: world.clock.wall(full.time)?,
        used_bytes: Bytes(used),
        private_bytes: Bytes(tracked),
        others_private_bytes: Bytes(others),
        others_counted: full.others.is_some(),
        shared_bytes: node.shmem,
        shared_remainder_bytes: shared_files::remainder(node.shmem, shared),
        shared_files: shared.clone(),
        cache_bytes: node.file?,
        kernel_bytes: Bytes(kernel),
        remainder_bytes: node.remainder()? + unknown,
        error_bytes: Bytes(error),
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
        still_recording: false,
        clock: world.clock.error().map(|error| ClockState {
            max_error_us: error.max_us,
            synchronised: error.synchronised,
        }),
        previous_ended: (started.previous.as_ref()).map(|previous| Utc(previous.ended)),
        probes: world.probes.clone(),
        went_away: went_away(world),
        lost_events: world.ledgers.iter().map(crate::event::Ledger::lost).sum(),
        ledgers: world.ledgers.clone(),
        normal_exits: normal_exits as u64,
    })
}

fn went_away(world: &World) -> Vec<WentAway> {
    let told = |gone: &Gone| {
        Some(WentAway {
            name: gone.name.clone(),
            time: world.clock.wall(gone.time)?,
            back: gone.back.and_then(|back| world.clock.wall(back)),
            reason: gone.reason.clone(),
        })
    };
    world.gone.iter().filter_map(told).collect()
}

/// Whether an event can change a verdict that was given before: the live recorder judges again then.
pub(super) fn bears_on_verdicts(what: &Observation) -> bool {
    matches!(
        what,
        Observation::RayLog(_) | Observation::Kmsg(_) | Observation::Exit(_)
    )
}
