//! What logs warn of and is no kill for memory: GPU memory, `/dev/shm`, the object store, disks, refused allocations and settings.

use super::{Run, facts::Said, remedy};
use crate::{
    judge::{
        from_text::claim::Warning,
        oom::size,
        report::{Certainty, Finding},
    },
    ray::framework::Aim,
};

/// What an exception in a log warns of.
pub(super) fn of_exception(class: &str, message: &str) -> Option<Warning> {
    let cuda =
        message.contains("CUDA out of memory") || message.contains("CUDA error: out of memory");
    let gpu = cuda
        || class.ends_with("torch.OutOfMemoryError")
        || class.ends_with("cuda.OutOfMemoryError");
    if gpu {
        return Some(Warning::GpuMemory);
    }
    class
        .ends_with("ObjectStoreFullError")
        .then_some(Warning::ObjectStore)
}

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.facts
        .said
        .iter()
        .map(|said| finding(run, said))
        .collect()
}

fn finding(run: Run<'_>, said: &Said) -> Finding {
    let (rule, text, remedies) = words(said.warning);
    let lines = match said.count {
        1 => String::new(),
        count => format!(" ({count} lines)"),
    };
    let bytes = match (said.warning, said.bytes) {
        (Warning::ObjectStore, Some(bytes)) => format!("; spilled so far: {}", size(bytes)),
        _ => String::new(),
    };
    let certainty = if said.first_hand {
        Certainty::Proven
    } else {
        Certainty::Inferred
    };
    let mut remedy: Vec<String> = remedies.iter().map(|text| (*text).to_owned()).collect();
    let mut evidence = said.lines.clone();
    let mut cost = None;
    if said.warning == Warning::GpuMemory {
        remedy.extend(remedy::keys(run, Aim::Gpu));
        evidence.extend(run.report.gpus.iter().map(|gpu| {
            let (peak, total) = (size(gpu.peak_bytes), size(gpu.total_bytes));
            format!(
                "GPU {}: {peak} of {total} in use at most, by NVML",
                gpu.device
            )
        }));
        cost = Some("offloading: host memory rises by what the GPU gains".to_owned());
    }
    Finding {
        evidence,
        remedy,
        cost,
        ..Finding::new(rule, certainty, format!("{text}{bytes}{lines}"))
    }
}

type Words = (&'static str, &'static str, &'static [&'static str]);

fn words(warning: Warning) -> Words {
    match warning {
        Warning::GpuMemory => (
            "gpu-out-of-memory",
            "memory of a GPU ran out: that is no kill and not the node's memory",
            &[
                "lower gpu_memory_utilization or the micro batch size per GPU",
                "offloading parameters or the optimizer to the host helps here",
            ],
        ),
        Warning::SharedMemory => (
            "shared-memory-small",
            "/dev/shm is too small or full; nobody is killed for that, but Ray falls back to a disk and a write may end in SIGBUS",
            &[
                "docker run --shm-size, or an emptyDir of medium Memory on /dev/shm",
                "a smaller --object-store-memory",
            ],
        ),
        Warning::ObjectStore => (
            "object-store-pressure",
            "the object store is full: Ray spills objects or puts them on disk; that is slow, and no kill",
            &[
                "drop references to objects sooner",
                "ray start --object-store-memory=BYTES",
            ],
        ),
        Warning::Disk => (
            "disk-full",
            "a disk is full; that is not memory",
            &["df -h /tmp; remove old sessions under /tmp/ray"],
        ),
        Warning::Allocation => (
            "allocation-refused",
            "an allocation was refused: the process got an exception, nobody was killed",
            &["ulimit -v; cat /proc/sys/vm/overcommit_memory"],
        ),
        Warning::Setting => ("setting-refused", "a setting was refused", &[]),
        Warning::NoVictim => (
            "monitor-without-victim",
            "Ray's memory monitor wanted to kill and found no worker that it may kill: the memory is held by others",
            &["look at the driver, the dashboard agent, gcs_server and processes outside Ray"],
        ),
    }
}
