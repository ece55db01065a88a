//! Each job's end: whether it failed, and which death ended it. A victim that Ray retried or restarted did not.

use std::collections::BTreeMap;

use crate::{
    event::Role,
    ids::{BootTime, EventId, HexId, Pid},
    judge::{
        processes::ProcessState,
        report::{Death, Job, Killer, Outcome, Survived},
        world::World,
    },
    ray::facts::RayFact,
};

/// How long before the driver's end a death may lie that ended the job: Ray's own time-outs are below a minute,
/// except when a log says more.
const BEFORE_DRIVER_NS: i64 = 120_000_000_000;

/// All jobs whose driver was seen.
pub(super) fn all(
    world: &World,
    deaths: &[Death],
    cluster_number: impl Fn(&ProcessState) -> Option<u32>,
) -> Vec<Job> {
    // Drivers whose cluster is not known may share a job id.
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
        .map(|((cluster, job_id, _), driver)| job(world, deaths, cluster, &job_id, driver))
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
        outcome: Outcome::Running,
        ended: None,
        ended_by_death_id: None,
        driver_pid: Some(driver.key.pid),
        survived: Vec::new(),
        because: "its driver was running when the recording ended".into(),
    };
    let hits: Vec<&Death> = deaths
        .iter()
        .filter(|other| other.cluster == cluster && first_cause(other, job_id, driver))
        .collect();
    let Some(death) = death else {
        job.survived = hits.iter().filter_map(|hit| survived(world, hit)).collect();
        return job;
    };
    job.ended = death.exit_time.or(death.time);
    let end = world
        .exit(driver.key)
        .map_or(death.act_time, |exit| exit.time);
    let (outcome, ended_by, because) = stopped(deaths, cluster, death, end)
        .unwrap_or_else(|| outcome(world, deaths, death, &hits, end));
    job.outcome = outcome;
    job.ended_by_death_id = ended_by;
    job.because = because;
    job.survived = hits
        .iter()
        .filter(|hit| Some(hit.id) != ended_by && hit.act_time < end)
        .map(|hit| {
            survived(world, hit).unwrap_or(Survived {
                death_id: hit.id,
                how: "the job went on".into(),
            })
        })
        .collect();
    job
}

/// The driver's command line, else what the GCS has.
fn entrypoint(world: &World, job_id: &HexId, driver: &ProcessState) -> Option<String> {
    if !driver.argv.is_empty() {
        return Some(driver.argv.join(" "));
    }
    world.gcs.entrypoint(driver.cluster?, job_id).cloned()
}

/// A death of the job's own, or of the node's, that nothing else had caused and that somebody would ask about.
fn first_cause(death: &Death, job_id: &HexId, driver: &ProcessState) -> bool {
    let of_the_job = death.role == Role::Worker && death.job_id.as_ref() == Some(job_id);
    let of_the_node = matches!(death.role, Role::Raylet | Role::Gcs | Role::Agent);
    death.listed
        && death.verdict.cause_death_id.is_none()
        && death.pid != driver.key.pid
        && (of_the_job || of_the_node)
}

/// A driver that failed because somebody else stopped its node: `ray stop` ends the raylet first.
fn stopped(
    deaths: &[Death],
    cluster: Option<u32>,
    driver: &Death,
    end: BootTime,
) -> Option<(Outcome, Option<EventId>, String)> {
    let failed = matches!(driver.verdict.killer, Killer::Exit | Killer::RayIntended);
    if !failed || driver.exit_code == Some(0) {
        return None;
    }
    let node = deaths.iter().find(|death| {
        death.cluster == cluster
            && death.role == Role::Raylet
            && death.verdict.killer == Killer::RayIntended
            && death
                .sender
                .as_ref()
                .is_none_or(|sender| sender.pid != driver.pid)
            && (0..BEFORE_DRIVER_NS).contains(&end.since(death.act_time))
    })?;
    let because = format!("its raylet {}", verb(&node.verdict.summary));
    Some((Outcome::Stopped, Some(node.id), because))
}

/// The first death of a chain of causes.
fn first(deaths: &[Death], id: EventId) -> EventId {
    let cause = |id: EventId| {
        let death = deaths.iter().find(|death| death.id == id)?;
        death.verdict.cause_death_id
    };
    // A chain has the lengths of Ray's own: agent, raylet, driver, worker.
    let chain = std::iter::successors(Some(id), |id| cause(*id));
    chain.take(8).last().unwrap_or(id)
}

fn outcome(
    world: &World,
    deaths: &[Death],
    driver: &Death,
    hits: &[&Death],
    end: BootTime,
) -> (Outcome, Option<EventId>, String) {
    let own = Some(driver.id);
    match (driver.verdict.killer, driver.exit_code) {
        (Killer::Exit, Some(0)) => (
            Outcome::Succeeded,
            None,
            "its driver exited with code 0".into(),
        ),
        (Killer::RayCollapse, _) => (
            Outcome::Failed,
            Some(
                driver
                    .verdict
                    .cause_death_id
                    .map_or(driver.id, |cause| first(deaths, cause)),
            ),
            format!("its driver {}", verb(&driver.verdict.summary)),
        ),
        (Killer::RayIntended, _) => (
            Outcome::Stopped,
            own,
            format!("its driver {}", verb(&driver.verdict.summary)),
        ),
        (Killer::Signal, _)
            if driver
                .sender
                .as_ref()
                .is_some_and(|sender| sender.mechanism == crate::judge::report::Mechanism::Tty) =>
        {
            (
                Outcome::Stopped,
                own,
                "its driver was interrupted from its terminal".into(),
            )
        }
        (Killer::Exit, Some(code)) => match fatal(world, hits, end) {
            Some(hit) => (
                Outcome::Failed,
                Some(hit.id),
                format!(
                    "its driver exited with code {code} after this death, which Ray did not retry"
                ),
            ),
            None => (
                Outcome::Failed,
                own,
                format!(
                    "its driver exited with code {code}; no death of its workers that Ray left unretried was seen before"
                ),
            ),
        },
        (_, _) => (
            Outcome::Failed,
            own,
            format!("its driver {}", verb(&driver.verdict.summary)),
        ),
    }
}

fn verb(summary: &str) -> &str {
    summary
        .find(" was ")
        .or_else(|| summary.find(" exited "))
        .map_or("ended", |at| summary[at..].trim_start())
}

/// The last death before the driver's end that Ray did not make good.
fn fatal<'a>(world: &World, hits: &[&'a Death], end: BootTime) -> Option<&'a Death> {
    hits.iter()
        .filter(|hit| (0..BEFORE_DRIVER_NS).contains(&end.since(hit.act_time)))
        .filter(|hit| survived(world, hit).is_none())
        .max_by_key(|hit| hit.act_time)
        .copied()
}

/// How Ray made a death good, if its logs say so: the GCS names the worker of an actor, the owner of a task only the task.
pub(super) fn survived(world: &World, death: &Death) -> Option<Survived> {
    let worker = death.worker_id.as_ref()?;
    let near =
        |time: BootTime| (-500_000_000..15_000_000_000).contains(&time.since(death.act_time));
    let how = world
        .ray_words
        .iter()
        .filter(|seen| near(seen.time))
        .find_map(|seen| match &seen.what.fact {
            RayFact::TaskFailed {
                will_retry: Some(true),
                retries_left,
                task_name: Some(task),
                job_id,
                ..
            } if death.task_name.as_ref() == Some(task)
                && (job_id.is_none() || *job_id == death.job_id) =>
            {
                Some(match retries_left {
                    Some(left) if *left >= 0 => format!("task retried, {left} retries left"),
                    _ => "task retried".into(),
                })
            }
            RayFact::ActorState {
                state,
                worker_id: Some(of),
                actor_id,
                ..
            } if state == "RESTARTING" && of == worker => {
                Some(format!("actor {} restarted", actor_id.short()))
            }
            _ => None,
        })?;
    Some(Survived {
        death_id: death.id,
        how,
    })
}
