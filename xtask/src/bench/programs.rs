//! Measures the time in each eBPF program while processes come and go.
//!
//! The kernel counts it (`kernel.bpf_stats_enabled`).

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::layout;

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The file with a line for each hook, in the order in which their programs are loaded:
/// `Fork: "sched/sched_process_fork", ["fork", "fork_second"], required: true;`.
const HOOKS: &str = "tracer-ebpf/src/records.rs";

/// Returns the names of the programs: that of the hook, and one more for a hook with a second
/// program.
fn names() -> Result<Vec<String>> {
    let text = fs::read_to_string(layout::root().join(HOOKS))?;
    let lines = text.lines().filter(|line| line.contains("\"], required: "));
    let mut names = Vec::new();
    for line in lines {
        let mut quoted = line.split('"').skip(1).step_by(2);
        let hook = quoted.next().context("a hook has a name")?;
        let programs = quoted.count();
        names.push(hook.to_owned());
        names.extend((1..programs).map(|_| format!("{hook}, second")));
    }
    Ok(names)
}

/// Returns a table of calls and nanoseconds a call.
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
    let names = names()?;
    let folder = tempfile::tempdir()?;
    // After it has made enough processes and calls, the command reads the statistics of its parent,
    // the recorder. Each exec is a rename too, one in ten here: it ends early, since nothing has a
    // title yet.
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); /bin/true; done; \
                  python3 -c 'import ctypes; c = ctypes.CDLL(None); [c.prctl(15, b\"ray::Actor.step\", 0, 0, 0) for i in range(20000)]'; \
                  grep -H . /proc/$PPID/fdinfo/*";
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
        programs.len() == names.len(),
        "{} programs have statistics, and {} are expected; the recorder ended with {}",
        programs.len(),
        names.len(),
        output.status
    );
    let mut table = String::from("\n| hook | calls | ns a call |\n|---|---|---|\n");
    for (name, (_, calls, nanoseconds)) in names.iter().zip(&programs) {
        let each = if *calls == 0 { 0 } else { nanoseconds / calls };
        table += &format!("| `{name}` | {calls} | {each} |\n");
    }
    Ok(table)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.split(name).nth(1)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn programs_are_named_in_load_order() {
        let names = super::names().expect("names");
        assert_eq!(names[0], "oom/mark_victim");
        let fork = names
            .iter()
            .position(|name| name == "sched/sched_process_fork");
        let second = fork.and_then(|at| names.get(at + 1)).map(String::as_str);
        assert_eq!(second, Some("sched/sched_process_fork, second"));
        assert_eq!(
            names.last().map(String::as_str),
            Some("timer/hrtimer_expire_entry")
        );
    }
}
