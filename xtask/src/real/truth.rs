//! The truth about a run by the kernel's own figures, as `tests/real/real.py` writes it down.

use serde::Deserialize;

/// The truth about one run.
#[derive(Debug, Deserialize)]
pub(super) struct Truth {
    /// Whether the job did all its work.
    pub(super) survived: bool,
    /// The killer that was meant to end it; empty for a healthy job.
    pub(super) killer: String,
    /// The line that keeps the memory, if there is one: `reward.py:8`.
    pub(super) line: String,
    /// How many processes the kernel killed, by the cgroup's own count.
    pub(super) kernel_kills: u64,
    /// What the driver itself said.
    pub(super) driver: Driver,
}

/// The end of a driver in its own words.
#[derive(Debug, Deserialize)]
pub(super) struct Driver {
    /// The pids that its exception names.
    pub(super) pids: Vec<u64>,
}

/// Memory that was held at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct Sample {
    /// The time in the format of reports, so that texts compare as times do.
    pub(super) time: String,
    /// Counters of the cluster's cgroup.
    pub(super) cgroup: Counters,
    /// The processes.
    pub(super) processes: Vec<Process>,
}

/// Counters of a cgroup, in bytes.
#[derive(Debug, Deserialize)]
pub(super) struct Counters {
    /// Private memory of all its processes.
    pub(super) anon: f64,
}

/// Figures of a process, in bytes.
#[derive(Debug, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u64,
    /// Private memory. Pages that are shared with a forked process count in parts.
    pub(super) pss_anon: f64,
    pub(super) title: String,
}

/// Returns the last sample with processes that is no later than `time`.
pub(super) fn at<'a>(samples: &'a [Sample], time: &str) -> Option<&'a Sample> {
    samples
        .iter()
        .rfind(|one| !one.processes.is_empty() && one.time.as_str() <= time)
}

/// Returns the most that the processes of a class or method held together. Without one, returns the
/// most that the whole cgroup held.
pub(super) fn held(samples: &[Sample], class: Option<&str>) -> f64 {
    let of = |sample: &Sample| -> f64 {
        let Some(class) = class else {
            return sample.cgroup.anon;
        };
        let own = sample
            .processes
            .iter()
            .filter(|one| is_of(&one.title, class));
        own.map(|one| one.pss_anon).sum()
    };
    samples.iter().map(of).fold(0.0, f64::max)
}

/// Returns whether a title belongs to a class: `ray::WorkerDict.update` belongs to `WorkerDict`.
fn is_of(title: &str, class: &str) -> bool {
    let Some(title) = title.strip_prefix("ray::") else {
        return class == "driver" && title.starts_with("python");
    };
    let rest = title.strip_prefix(class);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_belongs_to_its_class() {
        assert!(is_of("ray::WorkerDict.update_actor ", "WorkerDict"));
        assert!(is_of("ray::score ", "score"));
        assert!(is_of(
            "ray::MapWorker(MapBatches(Embed)).submit",
            "MapWorker(MapBatches(Embed))"
        ));
        assert!(!is_of("ray::TaskRunner.run", "WorkerDict"));
        assert!(is_of("python -m verl.trainer.main_ppo", "driver"));
    }
}
