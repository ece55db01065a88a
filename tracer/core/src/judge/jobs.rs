//! Finds how each job ended: whether it failed, and which death ended it.
//!
//! A victim that Ray retried or restarted did not end it.

use std::collections::BTreeMap;

use crate::{
    event::Role,
    ids::{BootTime, EventId, HexId, Pid, SECOND_NS},
    judge::{
        job_end::{self, BEFORE_DRIVER_NS, FailedJob},
        job_run::Runs,
        report::{
            Basis, Death, Job, Killer, Mechanism, Outcome, OutcomeReason, Recovery, SurvivedDeath,
        },
        state::{processes::ProcessState, world::World},
    },
    ray::facts::RayFact,
};

/// Returns all jobs whose driver was seen.
pub(super) fn all(
    world: &World,
    deaths: &[Death],
    cluster_number: impl Fn(&ProcessState) -> Option<u32>,
) -> Vec<Job> {
    // Drivers of unknown clusters may share a job id.
    let runs = Runs::of(world);
    let mut drivers: BTreeMap<(Option<u32>, HexId, Pid), &ProcessState> = BTreeMap::new();
    for state in world
        .processes
        .iter()
        .filter(|state| state.role == Role::Driver)
    {
        if let Some(job) = state.job() {
            drivers.insert((cluster_number(state), job, state.key.pid), state);
        }
    }
    drivers
        .into_iter()
        .map(|((cluster, job_id, _), driver)| {
            let job = job(world, deaths, cluster, &job_id, driver);
            Job {
                framework: runs.framework(driver, &job_id),
                last_step: runs.last_step(driver, &job_id),
                ..job
            }
        })
        .collect()
}

fn job(
    world: &World,
    deaths: &[Death],
    cluster: Option<u32>,
    job_id: &HexId,
    driver: &ProcessState,
) -> Job {
    let death = driver
        .exit
        .and_then(|id| deaths.iter().find(|death| death.id == id));
    let mut job = Job {
        cluster,
        job_id: job_id.clone(),
        entrypoint: entrypoint(world, job_id, driver),
        driver_pid: Some(driver.key.pid),
        ..Job::default()
    };
    let is_here =
        |other: &Death| other.cluster == cluster || took_along_its_raylet(deaths, cluster, other);
    let hits: Vec<&Death> = deaths
        .iter()
        .filter(|other| is_here(other) && first_cause(other, job_id, driver))
        .collect();
    let Some(death) = death else {
        job.survived = hits.iter().filter_map(|hit| survived(world, hit)).collect();
        return job;
    };
    job.ended = death.when.exit_time.or(death.when.time);
    let end = world
        .exit(driver.key)
        .map_or(death.when.act_time, |exit| exit.time);
    let failed = FailedJob {
        cluster,
        job_id,
        driver: driver.worker_id.as_ref(),
        end,
    };
    let (outcome, ended_by, because) = stopped(deaths, cluster, death, end)
        .unwrap_or_else(|| outcome(world, deaths, death, &hits, &failed));
    job.outcome = outcome;
    job.ended_by_death_id = ended_by;
    job.because = because;
    let by = ended_by.and_then(|id| deaths.iter().find(|death| death.id == id));
    let before = hits.iter().filter(|hit| hit.when.act_time < end);
    // An exception may be about a death long before the driver's exit. If nothing names that death,
    // later ones do not show that the job went on.
    let is_named = !matches!(
        job.because,
        OutcomeReason::NoDeathSeen { .. }
            | OutcomeReason::AfterDeath {
                basis: Basis::Order,
                ..
            }
    );
    job.survived = before
        .filter_map(|hit| {
            let went_on = is_named && by.is_none_or(|by| job_end::went_on(hit, by));
            outlived(world, hit, by, went_on)
        })
        .collect();
    job
}

/// Returns how a job survived a death, if it did: Ray recovered from it, or the job `went_on`.
fn outlived(
    world: &World,
    hit: &Death,
    ended_by: Option<&Death>,
    went_on: bool,
) -> Option<SurvivedDeath> {
    if ended_by.is_some_and(|by| is_of_one_act(hit, by)) {
        return None;
    }
    let without_recovery = || SurvivedDeath {
        death_id: hit.id,
        how: Recovery::WentOn,
    };
    survived(world, hit).or_else(|| went_on.then(without_recovery))
}

fn is_of_one_act(one: &Death, other: &Death) -> bool {
    let act = |death: &Death| death.verdict.act.map(|act| act.death_id);
    one.id == other.id || act(one).is_some() && act(one) == act(other)
}

/// Links a driver that exited because a process of its job had died to that death. The driver is
/// then no first cause.
pub(super) fn link_drivers(jobs: &[Job], deaths: &mut [Death]) {
    for job in jobs.iter().filter(|job| job.outcome == Outcome::Failed) {
        let driver = deaths.iter_mut().find(|death| {
            death.process.role == Role::Driver
                && Some(death.process.pid) == job.driver_pid
                && death.cluster == job.cluster
                && death.verdict.killer == Killer::Exit
        });
        if let Some(driver) = driver.filter(|driver| job.ended_by_death_id != Some(driver.id)) {
            let verdict = &mut driver.verdict;
            verdict.cause_death_id = verdict.cause_death_id.or(job.ended_by_death_id);
        }
    }
}

/// Returns the driver's command line, else what the GCS has.
fn entrypoint(world: &World, job_id: &HexId, driver: &ProcessState) -> Option<String> {
    if !driver.argv.is_empty() {
        return Some(driver.argv.join(" "));
    }
    world.gcs.entrypoint(driver.cluster?, job_id).cloned()
}

/// Whether this is the end of a GCS from which the end of the cluster's raylet followed. A GCS
/// belongs to no raylet, and so to no cluster of the report.
fn took_along_its_raylet(deaths: &[Death], cluster: Option<u32>, gcs: &Death) -> bool {
    let is_its_raylet = |death: &Death| {
        death.process.role == Role::Raylet
            && death.cluster == cluster
            && death.verdict.cause_death_id == Some(gcs.id)
    };
    gcs.process.role == Role::Gcs
        && gcs.cluster.is_none()
        && cluster.is_some()
        && deaths.iter().any(is_its_raylet)
}

/// Whether a death of the job or of its node has no other cause and is of interest.
fn first_cause(death: &Death, job_id: &HexId, driver: &ProcessState) -> bool {
    let of_the_job =
        death.process.role == Role::Worker && death.work.job_id.as_ref() == Some(job_id);
    let of_the_node = matches!(death.process.role, Role::Raylet | Role::Gcs | Role::Agent);
    death.listed
        && death.verdict.cause_death_id.is_none()
        && death.process.pid != driver.key.pid
        && (of_the_job || of_the_node)
}

/// Returns the outcome of a driver that failed because somebody else stopped its node. `ray stop`
/// ends the raylet first.
fn stopped(
    deaths: &[Death],
    cluster: Option<u32>,
    driver: &Death,
    end: BootTime,
) -> Option<(Outcome, Option<EventId>, OutcomeReason)> {
    let failed = matches!(driver.verdict.killer, Killer::Exit | Killer::RayIntended);
    if !failed || driver.end.exit_code == Some(0) {
        return None;
    }
    let node = deaths.iter().find(|death| {
        death.cluster == cluster
            && death.process.role == Role::Raylet
            && death.verdict.killer == Killer::RayIntended
            && death
                .sender
                .as_ref()
                .is_none_or(|sender| sender.pid != driver.process.pid)
            && (0..BEFORE_DRIVER_NS).contains(&end.since(death.when.act_time))
    })?;
    let because = OutcomeReason::Raylet {
        cause: node.verdict.cause.clone(),
        exited: node.end.exit_code.is_some(),
    };
    Some((Outcome::Stopped, Some(node.id), because))
}

/// Returns the first death of a chain of causes.
fn first(deaths: &[Death], id: EventId) -> EventId {
    let cause = |id: EventId| {
        let death = deaths.iter().find(|death| death.id == id)?;
        death.verdict.cause_death_id
    };
    // Chains are as short as Ray's own: agent, raylet, driver, worker.
    let chain = std::iter::successors(Some(id), |id| cause(*id));
    chain.take(8).last().unwrap_or(id)
}

fn outcome(
    world: &World,
    deaths: &[Death],
    driver: &Death,
    hits: &[&Death],
    failed: &FailedJob<'_>,
) -> (Outcome, Option<EventId>, OutcomeReason) {
    let own = Some(driver.id);
    let by_its_end = || OutcomeReason::Driver {
        cause: driver.verdict.cause.clone(),
        exited: driver.end.exit_code.is_some(),
    };
    match (driver.verdict.killer, driver.end.exit_code) {
        (Killer::Exit, Some(0)) => (Outcome::Succeeded, None, OutcomeReason::Succeeded),
        (Killer::RayCollapse, _) => {
            let cause = driver.verdict.cause_death_id;
            let ended_by = cause.map_or(driver.id, |cause| first(deaths, cause));
            (Outcome::Failed, Some(ended_by), by_its_end())
        }
        (Killer::RayIntended, _) => (Outcome::Stopped, own, by_its_end()),
        (Killer::Signal, _) if by_terminal(driver) => {
            (Outcome::Stopped, own, OutcomeReason::Interrupted)
        }
        (Killer::Exit, Some(code)) => match fatal(world, deaths, driver, hits, failed) {
            Some((hit, basis)) => {
                let because = OutcomeReason::AfterDeath { code, basis };
                (Outcome::Failed, Some(hit), because)
            }
            None => (Outcome::Failed, own, OutcomeReason::NoDeathSeen { code }),
        },
        (_, _) => (Outcome::Failed, own, by_its_end()),
    }
}

fn by_terminal(driver: &Death) -> bool {
    let sender = driver.sender.as_ref();
    sender.is_some_and(|sender| sender.mechanism == Mechanism::Tty)
}

/// Returns the first cause that made the job fail, and the evidence for it.
fn fatal(
    world: &World,
    deaths: &[Death],
    driver: &Death,
    hits: &[&Death],
    failed: &FailedJob<'_>,
) -> Option<(EventId, Basis)> {
    let left = hits.iter().copied();
    let left = left.filter(|hit| survived(world, hit).is_none());
    let children = job_end::children_killed_for_memory(world, deaths, failed);
    let left: Vec<&Death> = left.chain(children).collect();
    let (death, basis) = job_end::death(world, deaths, &left, failed)?;
    let root = first(deaths, death.id);
    (root != driver.id).then_some((root, basis))
}

/// Returns how Ray recovered from a death, if its logs say so. The GCS names the worker of an
/// actor; the owner of a task names only the task.
pub(super) fn survived(world: &World, death: &Death) -> Option<SurvivedDeath> {
    let worker = death.work.worker_id.as_ref()?;
    let near = |time: BootTime| {
        (-SECOND_NS / 2..15 * SECOND_NS).contains(&time.since(death.when.act_time))
    };
    let words = || world.ray_log_records.iter().filter(|seen| near(seen.time));
    // A retried task of an actor that is not restarted fails again.
    let is_dead = |fact: &RayFact| matches!(fact, RayFact::ActorState { state, worker_id: Some(of), .. } if state == "DEAD" && of == worker);
    if words().any(|seen| is_dead(&seen.what.fact)) {
        return None;
    }
    let how = words().find_map(|seen| match &seen.what.fact {
        RayFact::TaskFailed {
            will_retry: Some(true),
            retries_left,
            task_name: Some(task),
            job_id,
            ..
        } if death.work.task_name.as_ref() == Some(task)
            && (job_id.is_none() || *job_id == death.work.job_id) =>
        {
            Some(Recovery::TaskRetried {
                left: retries_left.filter(|left| *left >= 0),
            })
        }
        RayFact::ActorState {
            state,
            worker_id: Some(of),
            actor_id,
            ..
        } if state == "RESTARTING" && of == worker => Some(Recovery::ActorRestarted {
            actor_id: actor_id.clone(),
        }),
        _ => None,
    })?;
    Some(SurvivedDeath {
        death_id: death.id,
        how,
    })
}
