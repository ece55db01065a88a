//! Describes each of the two runs: its machines, when they were recorded, and for how long.

use super::{JobEnd, Side, deaths, machines::Machines};
use crate::{
    ids::{Bytes, SECOND_NS},
    judge::report::{Death, Killer, Recording, Report},
};

/// Describes one run, with the name of its file.
pub(super) fn of((file, report): (&str, &Report)) -> Side {
    let recordings = report.recordings.as_slice();
    let started = recordings.iter().map(|one| one.started).min();
    let ended = recordings.iter().map(|one| one.ended).max();
    Side {
        file: file.to_owned(),
        nodes: u32::try_from(Machines::of(report).count()).unwrap_or(u32::MAX),
        host: same(recordings, |one| one.host.name.clone()),
        memory_bytes: same(recordings, |one| one.host.memory_bytes),
        mode: same(recordings, |one| one.mode),
        started,
        seconds: started
            .zip(ended)
            .and_then(|(from, to)| u64::try_from((to.0.0 - from.0.0) / SECOND_NS).ok()),
        peak: report.peak,
        jobs: jobs(report),
    }
}

fn jobs(report: &Report) -> Vec<JobEnd> {
    let death = |id| report.deaths.iter().find(|death| death.id == id);
    let jobs = report.jobs.iter().map(|job| {
        let death = job.ended_by_death_id.and_then(death);
        let (killer, class) = death.map(deaths::killer_and_class).unzip();
        JobEnd {
            job_id: job.job_id.clone(),
            outcome: job.outcome,
            probable: job.is_ended_by_order(),
            killer,
            class,
            limit_bytes: death.and_then(limit),
            limit_of_bytes: death.and_then(|death| counted(report, death)),
        }
    });
    jobs.collect()
}

fn limit(death: &Death) -> Option<Bytes> {
    let at_death = death.memory.at_death.as_ref();
    let of_cgroup = death.memory.oom.as_ref().and_then(|oom| oom.limit_bytes);
    of_cgroup.or_else(|| at_death.and_then(|at| at.ray_threshold_bytes))
}

/// Returns all memory that Ray counted, if its monitor killed.
fn counted(report: &Report, death: &Death) -> Option<Bytes> {
    if death.verdict.killer != Killer::RayMemoryMonitor {
        return None;
    }
    report.cluster_of(death)?.monitor.as_ref()?.total_bytes
}

/// Returns the value that all recordings have in common, if they do.
fn same<T: PartialEq>(recordings: &[Recording], of: impl Fn(&Recording) -> T) -> Option<T> {
    let mut all = recordings.iter().map(of);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
