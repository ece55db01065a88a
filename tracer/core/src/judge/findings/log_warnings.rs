//! Reports warnings in logs that are not memory kills.
//!
//! They concern GPU memory, `/dev/shm`, the object store, disks, refused allocations, refused
//! settings, and a memory monitor without a victim.

use super::{Run, facts::LogWarning, remedy};
use crate::{
    ids::size,
    judge::{
        report::{Certainty, Finding},
        warning::Warning,
    },
    ray::{framework::RemedyGoal, start::Change, torch},
};

/// Returns what an exception in a log warns of.
pub(super) fn of_exception(class: &str, message: &str) -> Option<Warning> {
    let cuda =
        message.contains("CUDA out of memory") || message.contains("CUDA error: out of memory");
    let gpu = cuda
        || class.ends_with("torch.OutOfMemoryError")
        || class.ends_with("cuda.OutOfMemoryError");
    if message.contains("No available memory for the cache blocks") {
        return Some(Warning::KvCache);
    }
    if gpu {
        return Some(Warning::GpuMemory);
    }
    class
        .ends_with("ObjectStoreFullError")
        .then_some(Warning::ObjectStore)
}

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.facts
        .log_warnings
        .iter()
        .map(|warning| finding(run, warning))
        .collect()
}

fn finding(run: Run<'_>, warning: &LogWarning) -> Finding {
    let (rule, text) = words(warning.warning);
    let lines = match warning.count {
        1 => String::new(),
        count => format!(" ({count} lines)"),
    };
    let bytes = match (warning.warning, warning.bytes) {
        (Warning::ObjectStore, Some(bytes)) => format!("; spilled so far: {}", size(bytes)),
        _ => String::new(),
    };
    let certainty = if warning.first_hand {
        Certainty::Proven
    } else {
        Certainty::Inferred
    };
    let gpu = warning.warning == Warning::GpuMemory;
    let mut figures = warning.lines.iter().filter(|_| gpu);
    let figures = figures.find_map(|line| torch::figures(line));
    let figures = figures.map_or_else(String::new, |figures| format!("; {figures}"));
    let mut evidence = warning.lines.clone();
    if warning.warning == Warning::GpuMemory {
        evidence.extend(run.report.gpus.iter().map(|gpu| {
            let (peak, total) = (size(gpu.peak_bytes), size(gpu.total_bytes));
            format!(
                "GPU {}: {peak} of {total} in use at most, by NVML",
                gpu.device
            )
        }));
    }
    Finding {
        evidence,
        remedy: remedy(run, warning),
        ..Finding::new(rule, certainty, format!("{text}{bytes}{figures}{lines}"))
    }
}

/// Returns whether there were memory kills too, so that RAM is short.
fn host_full(run: Run<'_>) -> bool {
    run.memory_kills().next().is_some()
}

fn words(warning: Warning) -> (&'static str, &'static str) {
    match warning {
        Warning::GpuMemory => (
            "gpu-out-of-memory",
            "A GPU ran out of memory: no process was killed, and host memory is not affected",
        ),
        Warning::KvCache => (
            "kv-cache-small",
            "The share of GPU memory that vLLM may use leaves too little for its KV cache: no process was killed, and host memory is not affected",
        ),
        Warning::SharedMemory => (
            "shared-memory-small",
            "/dev/shm is too small or full: no process is killed for that, but Ray falls back to a disk, and a write may end in SIGBUS",
        ),
        Warning::ObjectStore => (
            "object-store-pressure",
            "The object store was short of room: Ray spilled objects, put them on disk or refused a put; no process is killed for that",
        ),
        Warning::Disk => (
            "disk-full",
            "A disk is full or nearly full: that is no lack of memory",
        ),
        Warning::Allocation => (
            "allocation-refused",
            "An allocation was refused: the process got an exception and was not killed",
        ),
        Warning::NodeMemory => (
            "node-memory-error",
            "A node's memory was nearly full: Ray raised an error in the task that it was about to run, and killed no process",
        ),
        Warning::Threads => (
            "threads-refused",
            "No thread or process could be started: the system refused it, mostly at a limit on their number",
        ),
        Warning::Setting => ("setting-refused", "Ray refused a setting"),
        Warning::NoVictim => (
            "monitor-without-victim",
            "Ray's memory monitor found no worker that it is allowed to kill: other processes hold the memory",
        ),
    }
}

fn remedy(run: Run<'_>, warning: &LogWarning) -> Vec<String> {
    let start = run.start();
    let larger = Change::SharedMemory {
        size: "SIZE".into(),
        host: None,
    };
    let text = |text: &str| text.to_owned();
    match warning.warning {
        Warning::GpuMemory => {
            let keys = remedy::keys(run, RemedyGoal::Gpu, None);
            if !keys.is_empty() {
                return keys;
            }
            let lower = "lower gpu_memory_utilization or the micro batch size per GPU";
            // The host has no room for it if that ran out too.
            let offload = format!(
                "offload parameters or the optimizer to the host: {}",
                remedy::RAISES_HOST
            );
            let offload = (!host_full(run)).then_some(offload);
            [text(lower)].into_iter().chain(offload).collect()
        }
        Warning::KvCache => vec![
            more_for_the_cache(run),
            text("lower max_num_batched_tokens or max_model_len"),
        ],
        Warning::SharedMemory => vec![
            format!("{} (SIZE: more than the object store)", larger.at(start)),
            text("a smaller --object-store-memory"),
        ],
        Warning::ObjectStore => {
            let store = if host_full(run) {
                text("no larger store: it would take more of the RAM that ran out")
            } else {
                let larger = Change::flag("object-store-memory", "MORE").at(start);
                format!("a larger --object-store-memory: {larger}")
            };
            let earlier = "delete object references earlier; if one object is larger than the whole store, put it in smaller parts";
            vec![text(earlier), store]
        }
        Warning::Disk => vec![text(
            "on the node of that log, df -h /tmp; remove old sessions under /tmp/ray (raytrace doctor lists them)",
        )],
        Warning::Allocation => vec![text(
            "see which limit refused it, on the node of that log: ulimit -v in the shell that starts Ray, and cat /proc/sys/vm/overcommit_memory",
        )],
        Warning::NodeMemory => vec![text(
            "see who holds the memory, in the table below that line; what the table lacks may be outside the container. Run fewer tasks at a time, or take a node with more memory",
        )],
        Warning::Threads => vec![
            text(
                "see which limit it is, on the node of that log: ulimit -u in the shell that starts Ray, pids.max of its cgroup, and cat /proc/sys/kernel/threads-max; raise the one that is reached",
            ),
            text("start fewer threads: OMP_NUM_THREADS=1 for the workers, fewer workers at a time"),
        ],
        Warning::Setting => warning
            .lines
            .iter()
            .filter_map(|line| refused(line))
            .map(text)
            .collect(),
        Warning::NoVictim => vec![text(
            "look at the driver, the dashboard agent, gcs_server and processes outside Ray",
        )],
    }
}

/// Advises a larger share of GPU memory, with the key and value that were seen.
fn more_for_the_cache(run: Run<'_>) -> String {
    let given = super::settings::of_framework(run.facts);
    let share = given.iter().find(|one| {
        let key = one.key.replace('-', "_");
        !one.overruled && key.ends_with("gpu_memory_utilization")
    });
    match share {
        Some(one) => format!("raise {} (now {})", one.key, one.value),
        None => "raise gpu_memory_utilization".to_owned(),
    }
}

/// Returns what to set instead of what Ray refused.
fn refused(line: &str) -> Option<&'static str> {
    if line.contains("cap object store memory usage") {
        return Some("--object-store-memory of 75 MiB (78643200) or more");
    }
    super::advice::instead(line).or_else(|| {
        line.contains("No such option")
            .then_some("leave it out: this version has no such option")
    })
}
