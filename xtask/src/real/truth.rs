//! What `tests/real/real.py` writes down of a run, by the kernel's own figures.

use serde::Deserialize;

/// One run.
#[derive(Debug, Deserialize)]
pub(super) struct Truth {
    /// Whether the job did all its work.
    pub(super) survived: bool,
    /// What was to end it; empty for a healthy one.
    pub(super) killer: String,
    /// The line that keeps the memory, where it is one: `reward.py:8`.
    pub(super) line: String,
    /// How many the kernel killed, by the cgroup's own count.
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

/// What was held at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct Sample {
    /// As reports write it, so that texts compare as times do.
    pub(super) time: String,
    /// The cluster's cgroup.
    pub(super) cgroup: Counters,
    /// The processes.
    pub(super) processes: Vec<Process>,
}

/// Of a cgroup, in bytes.
#[derive(Debug, Deserialize)]
pub(super) struct Counters {
    /// Private memory of all.
    pub(super) anon: f64,
}

/// Of a process, in bytes.
#[derive(Debug, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u64,
    /// Private memory, with pages that it shares with a forked one counted in parts.
    pub(super) pss_anon: f64,
    pub(super) title: String,
}

/// The last sample of processes that is no later than `time`.
pub(super) fn at<'a>(samples: &'a [Sample], time: &str) -> Option<&'a Sample> {
    samples
        .iter()
        .rfind(|one| !one.processes.is_empty() && one.time.as_str() <= time)
}

/// The most that the processes of a class, or in a method, held together; without one, all that is in the cgroup.
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

/// `ray::WorkerDict.update` is of `WorkerDict`.
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
    fn a_title_is_of_its_class() {
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
