//! The time that the kernel counts in each eBPF program (`kernel.bpf_stats_enabled`) while processes come and go.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The programs in the order of their load.
const NAMES: [&str; 11] = [
    "oom/mark_victim",
    "signal/signal_generate",
    "signal/signal_deliver",
    "sched/sched_process_fork",
    "sched/sched_process_fork, second",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "sched/sched_process_exit, second",
    "task/task_rename",
    "mmap/vm_unmapped_area",
    "timer/hrtimer_expire_entry",
];

/// A table: calls and nanoseconds a call.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let kept = fs::read_to_string(STATISTICS)
        .context("the kernel keeps no statistics of eBPF programs")?;
    fs::write(STATISTICS, "1")?;
    let table = table(raytrace);
    fs::write(STATISTICS, kept.trim())
        .with_context(|| format!("cannot set {STATISTICS} back to {kept}"))?;
    table
}

fn table(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    // The command reads the statistics of its parent, the recorder, when it has made enough processes.
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); /bin/true; done; kill -0 $$; grep -H . /proc/$PPID/fdinfo/*";
    let output = Command::new(raytrace)
        .args(["record", "--require-ebpf", "--armed", "-o"])
        .arg(folder.path().join("a.raytrace"))
        .args(["--", "sh", "-c", script])
        .stderr(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut programs: Vec<(u64, u64, u64)> = text
        .split("prog_type:")
        .skip(1)
        .filter_map(|part| {
            Some((
                field(part, "prog_id:")?,
                field(part, "run_cnt:")?,
                field(part, "run_time_ns:")?,
            ))
        })
        .collect();
    programs.sort_unstable();
    programs.dedup();
    ensure!(
        programs.len() == NAMES.len(),
        "{} programs have statistics, and {} are expected; the recorder ended with {}",
        programs.len(),
        NAMES.len(),
        output.status
    );
    let mut table = String::from("| hook | calls | ns a call |\n|---|---|---|\n");
    for (name, (_, calls, nanoseconds)) in NAMES.iter().zip(&programs) {
        let each = if *calls == 0 { 0 } else { nanoseconds / calls };
        table += &format!("| `{name}` | {calls} | {each} |\n");
    }
    Ok(table)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.split(name).nth(1)?;
    rest.split_whitespace().next()?.parse().ok()
}
