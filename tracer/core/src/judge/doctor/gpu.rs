//! Compares the GPUs that NVML counts with what Ray was told, and finds leftover processes on them.

use super::{
    Check, State,
    facts::{Gpu, GpuProcess, Machine, Node},
};
use crate::{ids::size, ray::identify};

/// A younger process is not yet called a leftover.
const SETTLED_S: u64 = 30;

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let gpus = match &machine.gpus {
        Ok(gpus) => gpus,
        Err(reason) => {
            let text = reason.clone();
            return vec![Check::new("gpu.count", State::Note, text).word("")];
        }
    };
    let mut checks: Vec<Check> = machine
        .nodes
        .iter()
        .filter(|node| node.cluster.is_some())
        .map(|node| count(node, gpus.len()))
        .collect();
    if checks.is_empty() {
        let text = format!("NVML reports {}", gpus.len());
        let check = Check::new("gpu.count", State::Note, text);
        checks.push(check.word("").value(&gpus.len()));
    }
    checks.extend(gpus.iter().filter_map(held));
    for gpu in gpus {
        let left = gpu.processes.iter().filter(|process| is_leftover(process));
        checks.extend(left.map(|process| leftover(gpu, process)));
    }
    checks
}

fn count(node: &Node, by_nvml: usize) -> Check {
    let by_ray = node.gpus.unwrap_or(0.0);
    let visible = node.visible_devices.as_deref();
    let devices = visible.map_or_else(
        || "CUDA_VISIBLE_DEVICES unset".to_owned(),
        |list| format!("CUDA_VISIBLE_DEVICES={list}"),
    );
    let usable = visible.map_or(by_nvml, |list| {
        let named = list
            .split(',')
            .filter(|one| !one.trim().is_empty() && one.trim() != "-1");
        named.count().min(by_nvml)
    });
    let text = format!("NVML reports {by_nvml}, --num-gpus is {by_ray}, {devices}");
    let check = |state, text| Check::new("gpu.count", state, text).of(node.pid());
    if (by_ray - usable as f64).abs() < f64::EPSILON {
        return check(State::Ok, format!("{text}: agree"))
            .word("")
            .value(&by_ray);
    }
    let check = if by_ray > usable as f64 {
        check(
            State::Problem,
            format!("{text}: Ray schedules more GPUs than exist"),
        )
        .word("DIFFER")
    } else {
        check(State::Note, format!("{text}: Ray does not use all of them"))
    };
    check
        .value(&by_ray)
        .expected(&usable)
        .command(format!("ray start --num-gpus={usable}"))
}

/// Reports which processes hold memory of a GPU.
fn held(gpu: &Gpu) -> Option<Check> {
    let holder = |process: &GpuProcess| {
        let held = process.used.map_or_else(|| "?".to_owned(), size);
        format!("{held} {} (pid {})", process.title, process.pid)
    };
    let holders: Vec<String> = gpu.processes.iter().map(holder).collect();
    let text = format!("GPU {}: {}", gpu.index, holders.join(", "));
    (!holders.is_empty()).then(|| Check::new("gpu.held", State::Note, text))
}

/// Whether a process lost its parent and looks like an engine or a worker.
fn is_leftover(process: &GpuProcess) -> bool {
    let orphan = process.parent.is_some_and(|parent| parent.0 == 1);
    let settled = process.age_s.is_some_and(|age| age > SETTLED_S);
    let comm = process.comm.as_deref().unwrap_or_default();
    orphan && settled && identify::is_engine(comm)
}

fn leftover(gpu: &Gpu, process: &GpuProcess) -> Check {
    let held = process.used.map_or_else(|| "memory".to_owned(), size);
    let pid = process.pid;
    let mut text = format!(
        "GPU {}: {held}, pid {pid}, {}, parent 1",
        gpu.index, process.title
    );
    text.extend(process.age_s.map(|age| format!(", {}", age_in_words(age))));
    text.extend(process.user.as_ref().map(|user| format!(", user {user}")));
    let command = format!("check: ps -fp {pid}; end: kill {pid}");
    Check::new("gpu.leftover", State::Problem, text)
        .word("LEFTOVER")
        .value(&pid)
        .command(command)
}

fn age_in_words(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    if hours > 0 {
        format!("{hours} h {minutes} min")
    } else {
        format!("{minutes} min")
    }
}
