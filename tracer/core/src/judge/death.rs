//! Makes one death of the report from one verdict: names, times, memory, whether it is listed.

use crate::{
    event::Role,
    ids::{HexId, ProcessKey},
    judge::{
        cause::{Cause, SlurmReason},
        evidence,
        fatal_act::{self, FatalAct},
        query::{gcs, headroom, minute, place},
        report::{
            ActiveWarning, Activity, AtDeath, CgroupUse, Death, End, Killer, LastMinute, Memory,
            OomReport, Process, Relation, TopProcess, Verdict, When, Work,
        },
        state::{calls::Growth, processes::ProcessState, timestamped::ExitSeen, world::World},
        verdict::{Draft, Verdicts},
    },
    ray::{facts::RayFact, identify},
};

/// Returns the signal of the wait status, or the one that took effect if the status was lost.
fn signal(exit: &ExitSeen, act: FatalAct<'_>) -> Option<i32> {
    match (exit.exit.status, act) {
        (Some(_), _) => exit.exit.signal(),
        (None, FatalAct::Killed(seen)) => Some(seen.what.signal),
        (None, FatalAct::Unseen { signal }) => Some(signal),
        (None, FatalAct::Exited { .. }) => None,
    }
}

/// Returns the death of the process that exited.
pub(super) fn of(verdicts: &Verdicts<'_>, exit: &ExitSeen) -> Death {
    let world = verdicts.world;
    let draft = verdicts.of(exit);
    let act = fatal_act::of(world, exit);
    let act_time = act.time(exit);
    let key = exit.exit.process;
    let unknown = ProcessState::unknown(key);
    let state = world.processes.get(key).unwrap_or(&unknown);
    let title_by_ray = title_by_ray(world, state);
    let title = title_by_ray.clone().or_else(|| state.title_now());
    let named = title.as_deref().and_then(identify::title);
    let evidence = evidence::gather(world, exit, &draft);
    let listed = listed(world, state, exit, &draft);
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
        only_own_log: draft.is_by_own_log(),
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
    let warning = world.limit_warnings.of_kill(draft.killer, oom, act_time);
    Death {
        id: exit.id,
        recording_id: Some(0),
        cluster: world.cluster_number(state.cluster),
        when: When {
            time: world.clock.wall(act_time),
            act_time,
            began_before_ns: act_time.since(fatal_act::began(world, exit)),
            exit_time: world.clock.wall(exit.time),
            corrected_time: None,
            stamp: None,
        },
        work: Work {
            worker_id: state.worker_id.clone(),
            actor_id: ray_actor(world, key).or_else(|| Some(actor?.actor_id.clone())),
            actor_class: named
                .and_then(|title| title.actor_class)
                .or_else(|| state.actor_class.clone()),
            task_name: state
                .doing()
                .or_else(|| identify::title(title_by_ray.as_deref()?)?.task),
            gcs: gcs::report(world, state, job_id.as_ref()).map(Box::new),
            job_id,
            attempt: None,
        },
        end: End {
            exit_code: exit.exit.code(),
            signal: signal(exit, act),
        },
        listed,
        sender: draft.sender,
        memory: memory(world, exit, draft.oom, warning),
        activity: activity(world, exit, state),
        ..Death::new(process, verdict)
    }
}

/// Returns the title that a worker was about to set: it does so only when its task or actor begins
/// to run. Before that, the memory monitor's kill record has the name.
fn title_by_ray(world: &World, state: &ProcessState) -> Option<String> {
    let own = state.title_now();
    if state.role != Role::Worker || !own.as_deref().is_none_or(identify::is_idle) {
        return None;
    }
    let about = world.ray_about(state.key);
    about.iter().find_map(|record| match &record.what.fact {
        RayFact::MonitorKill(kill) => {
            let killed = kill.of_worker(state.worker_id.as_ref())?;
            Some(format!("ray::{}", killed.task_name.as_deref()?))
        }
        _ => None,
    })
}

/// Returns the memory of a process that ended, and of its surroundings.
fn memory(
    world: &World,
    exit: &ExitSeen,
    oom: Option<OomReport>,
    warning: Option<ActiveWarning>,
) -> Memory {
    let full = oom.as_ref().and_then(|oom| oom.cgroup.as_deref());
    let biggest = exit.around.biggest_in(full);
    Memory {
        own: exit.around.memory.clone(),
        gpu: exit.around.gpu.clone(),
        oom: oom.map(Box::new),
        at_death: at_death(world, exit),
        last_minute: last_minute(world, exit, &biggest.top),
        top: biggest.top,
        top_rest: biggest.rest,
        top_outside: biggest.outside,
        suspect: None,
        shared: exit.around.shared.clone(),
        warning: warning.map(Box::new),
    }
}

/// Returns what the process was running, by its last stack and its titles.
fn activity(world: &World, exit: &ExitSeen, state: &ProcessState) -> Activity {
    let key = exit.exit.process;
    let last_stack = world.growth_attribution.last(key);
    let stack_age_ms = last_stack
        .as_ref()
        .and_then(|(seen, _)| exit.time.ms_since(*seen));
    let calls = world.calls.get(&key.truncated());
    Activity {
        line_at_death: world.growth_attribution.last_line(key),
        stack_at_death: last_stack.map(|(_, stack)| stack),
        stack_age_ms,
        calls: calls.and_then(|calls| {
            let from_start = state.parent_key.is_some();
            let matters = |growth: &Growth| headroom::matters(world, state.cluster, growth);
            calls
                .at_death(exit.time, &exit.exit, from_start, matters)
                .map(Box::new)
        }),
    }
}

/// Whether this death is listed. Normal exits, ends that Ray intended, and children that their
/// parent ended are not. An end that Ray is only guessed to have intended is.
fn listed(world: &World, state: &ProcessState, exit: &ExitSeen, draft: &Draft) -> bool {
    let rays = state.role.is_ray_or_driver();
    // What a Slurm job runs beside Ray is tracked for the reasons of Slurm's acts.
    let commands = world
        .started
        .as_ref()
        .is_some_and(|(_, started)| started.supervisor.is_some());
    let wrapped = state.role == Role::Other && state.cluster.is_none();
    let is_beside = !rays && state.cluster.is_none() && state.slurm().is_some() && !commands;
    if is_beside && !ended_by_slurm(draft) && !draft.killer.is_kernel_oom() {
        return false;
    }
    match draft.killer {
        Killer::RayIntended => !draft.normal,
        Killer::Exit => {
            let failed = exit.exit.code() != Some(0) || draft.why.is_failed_exit();
            failed && (rays || wrapped) && !is_helper(state)
        }
        Killer::Signal => {
            let by_parent = draft.sender.as_ref().is_some_and(|sender| {
                matches!(sender.relation, Relation::Parent | Relation::SameJob)
            });
            (rays || !by_parent) && !is_cleaned_up(world, exit, draft)
        }
        Killer::Unknown => exit.exit.status != Some(0),
        _ => true,
    }
}

fn ended_by_slurm(draft: &Draft) -> bool {
    let sender = draft.sender.as_ref();
    sender.is_some_and(|one| one.relation == Relation::WorkloadManager)
}

/// Whether Slurm ended what its script had left, and no driver of the job lived any more.
fn is_cleaned_up(world: &World, exit: &ExitSeen, draft: &Draft) -> bool {
    let Cause::Slurm(ended) = &draft.why else {
        return false;
    };
    let by_slurm = |end: &ExitSeen| match fatal_act::of(world, end) {
        FatalAct::Killed(seen) => seen.what.sender.process.pid == ended.stepd.pid,
        _ => false,
    };
    let lives = |driver: &ProcessState| {
        let job = driver.slurm().map(|slurm| slurm.job);
        driver.role == Role::Driver
            && job == ended.job_id
            && world
                .exit(driver.key)
                .is_none_or(|end| end.time >= exit.time || by_slurm(end))
    };
    matches!(ended.reason, SlurmReason::TaskEnded { .. }) && !world.processes.iter().any(lives)
}

/// Whether it is a short-lived helper of Ray that ended before it had an id, a title or arguments.
fn is_helper(state: &ProcessState) -> bool {
    state.role == Role::Worker
        && state.worker_id.is_none()
        && state.title.is_none()
        && state.argv.is_empty()
}

fn ray_actor(world: &World, key: ProcessKey) -> Option<HexId> {
    let worker = world.processes.get(key)?.worker_id.clone();
    world
        .ray_about(key)
        .iter()
        .find_map(|record| match &record.what.fact {
            RayFact::MonitorKill(kill) => kill.of_worker(worker.as_ref())?.actor_id.clone(),
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
    let levels = victim.map(|seen| {
        let levels = seen.what.cgroups.iter();
        let levels = levels.filter(|level| level.limit.is_some());
        levels.filter_map(|level| Some((level, seen.what.path(level)?)))
    });
    let limits = levels.into_iter().flatten().map(|(level, path)| CgroupUse {
        cgroup: path.to_owned(),
        usage_bytes: level.usage,
        limit_bytes: level.limit,
    });
    let limits: Vec<CgroupUse> = limits.collect();
    (kill.is_some() || !limits.is_empty()).then(|| AtDeath {
        ray_used_bytes: kill.as_ref().and_then(|kill| kill.used),
        ray_threshold_bytes: kill.as_ref().and_then(|kill| kill.threshold),
        ray_total: kill.as_ref().and_then(|kill| kill.total),
        limits,
        object_store_bytes: None,
    })
}

fn last_minute(world: &World, exit: &ExitSeen, top: &[TopProcess]) -> Option<Box<LastMinute>> {
    let mut minute = exit.around.minute.clone()?;
    (minute.top).retain(|row| top.iter().any(|one| one.pid == row.pid));
    let key = exit.exit.process.truncated();
    let steps = world.steps.get(&key).map_or(&[][..], Vec::as_slice);
    minute::refine(&mut minute, exit.time, steps, world.mapped.get(&key));
    Some(minute)
}
