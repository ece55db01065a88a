//! Reads lines of user-space OOM killers, and of programs that report kernel OOM kills.
//!
//! The programs are earlyoom, systemd, systemd-oomd, kubelet, Slurm and container runtimes.
//! Formats: earlyoom 1.3 to 1.8 (`sending SIGTERM to process N uid U "NAME": …`), systemd from 248
//! on (`Killed /a.scope due to memory pressure …`, `systemd-oomd killed N process(es) in this unit`),
//! kubelet (`The node was low on resource: memory`, `OOMKilled`), slurmstepd (`oom-kill event`,
//! `exceeded memory limit`).

use std::sync::LazyLock;

use libc::{SIGKILL, SIGTERM};
use regex::Regex;

use super::{line::LogLine, pattern, ray_worker};
use crate::{
    ids::Pid,
    judge::{
        cause::Scope,
        from_text::claim::{Claim, Daemon, KernelOom, PidNamespace, Place, Statement, Subject},
    },
};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 23] = [
    "illed by OOM Killer",
    "illed by OOM killer",
    "System OOM encountered",
    "has been killed by the OOM killer",
    ": Out Of Memory",
    "TERM_MEMLIMIT",
    "PBS: job killed: ",
    "runtime.OOMController",
    "oom-kill'.",
    "oom_kill event",
    "sending SIG",
    "due to memory used (",
    "due to memory pressure for",
    "systemd-oomd killed",
    "low on resource: ",
    "Main process exited, code=",
    "CANCELLED AT ",
    "Exit Code: ",
    "\"exitCode\":",
    "OOMKilled",
    "oom-kill event",
    "exceeded memory limit",
    "exceeded job memory limit",
];

static EARLYOOM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"[Ss]ending (SIGTERM|SIGKILL) to process (\d+)(?: uid \d+)? "([^"]{0,64})":? ?(.{0,160})"#,
    )
});
static OOMD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:^|: )(?:Killed|Marked) (/\S+) (?:for killing )?due to (memory used \(.{0,120}|memory pressure for .{0,160})",
    )
});
static OOMD_UNIT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\S+): systemd-oomd killed (\d+) process"));
static EVICTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"[Tt]he node was low on resource: ([\w-]{1,40}(?:[./][\w-]{1,40})*)\.?(.{0,200})")
});
static OOM_KILLED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?:[Rr]eason"?[:=] *"?OOMKilled|\bOOMKilled"?: ?true|"OOMKilled"\s*(?:[,}\]]|$)|^OOMKilled$|\bOOMKilled\s+\d+\b)"#,
    )
});
static SLURM_OOM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"Detected \d+ oom[-_]kill event\(?s?\)? in (?:StepId=|step )([\w.+]+)")
});
static SLURM_LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:Job|Step|StepId=)?\s*([\d.]+\S*) exceeded (?:job )?memory limit \(([^)]*)\)")
});

static SYSTEM_OOM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"System OOM encountered, victim process: (.{1,64}?), pid: (\d+)\b"));
static MAIN_PROCESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\S+: Main process exited, code=(?:killed|dumped), status=(\d{1,2})/[A-Z]+")
});
static CANCELLED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\*\*\* (?:JOB|STEP) .{1,80}? CANCELLED AT \S+(?: DUE TO ([A-Z ]{1,40}?))? \*\*\*")
});
static EXIT_137: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"^(?:Exit Code: +137$|.*"exitCode": ?137\b)"#));
static PLATFORM: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b[Kk]illed by OOM [Kk]iller\b"));
static SRUN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"srun: error: \S+: tasks? [\d,-]+: Out Of Memory"));
static PBS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"PBS: job killed: (?:v?mem|pmem) (.{1,60}) exceeded limit (\S+)"));

/// Reads a line, if it is one of these.
pub(super) fn line(line: &LogLine, place: Place, out: &mut Vec<Statement>) {
    let Some((subject, claim)) = read(line) else {
        return;
    };
    out.push(Statement {
        place,
        stamp: line.stamp,
        quote: super::cut(&line.text),
        subject: Subject {
            pid_namespace: PidNamespace::Host,
            ..subject
        },
        claim,
    });
}

fn read(line: &LogLine) -> Option<(Subject, Claim)> {
    let text = line.text.trim();
    let own = line.program.as_ref().and_then(|(_, pid)| *pid);
    if let Some(found) = EARLYOOM.captures(text) {
        let subject = Subject {
            pid: found[2].parse().ok().map(Pid),
            comm: Some(found[3].to_owned()),
            ..Subject::default()
        };
        let signal = if &found[1] == "SIGKILL" {
            SIGKILL
        } else {
            SIGTERM
        };
        // The quoted command line is not a reason.
        let why = found[4].split(", cmdline ").next().unwrap_or_default();
        return Some((subject, daemon("earlyoom", own, Some(signal), why)));
    }
    if let Some(found) = OOMD.captures(text) {
        let why = format!("in {}: {}", &found[1], &found[2]);
        let unit = found[1].rsplit('/').next().unwrap_or_default();
        return Some((Subject::default(), oomd(own, unit, &why)));
    }
    if let Some(found) = OOMD_UNIT.captures(text) {
        let processes = if &found[2] == "1" {
            "process"
        } else {
            "processes"
        };
        let why = format!("{} {processes} of {}", &found[2], &found[1]);
        return Some((Subject::default(), oomd(None, &found[1], &why)));
    }
    if let Some(found) = EVICTED.captures(text) {
        let why = format!("the node was low on {}.{}", &found[1], &found[2]);
        let claim = match &found[1] {
            "memory" => daemon("kubelet", own, None, &why),
            _ => not_for_memory("kubelet", &why),
        };
        return Some((Subject::default(), claim));
    }
    if let Some(found) = SLURM_LIMIT.captures(text) {
        let why = format!(
            "step {} exceeded its memory limit ({})",
            &found[1], &found[2]
        );
        return Some((
            Subject::default(),
            daemon("slurmstepd", own, Some(SIGKILL), &why),
        ));
    }
    batch(text, own).or_else(|| reported(text))
}

/// Reads lines of batch systems and node agents with their own limits.
fn batch(text: &str, own: Option<Pid>) -> Option<(Subject, Claim)> {
    let claim = if text.contains("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit")
    {
        daemon(
            "LSF",
            None,
            Some(SIGKILL),
            "its job reached LSF's memory usage limit",
        )
    } else if let Some(found) = PBS.captures(text) {
        let why = format!("{} exceeded the limit of {}", &found[1], &found[2]);
        daemon("PBS", None, Some(SIGKILL), &why)
    } else if text.contains("runtime.OOMController") && text.contains("Sending SIGKILL") {
        daemon(
            "Talos' OOM controller",
            own,
            Some(SIGKILL),
            "it sent SIGKILL to a cgroup",
        )
    } else if let Some(found) = CANCELLED.captures(text) {
        let why = match found.get(1).map(|reason| reason.as_str()) {
            Some("TIME LIMIT") => "its job reached its time limit".to_owned(),
            Some(reason) => format!("its job was cancelled due to {}", reason.to_lowercase()),
            None => "its job was cancelled".to_owned(),
        };
        not_for_memory("Slurm", &why)
    } else if let Some(found) = MAIN_PROCESS.captures(text) {
        ray_worker::ended_by(found[1].parse().ok()?)
    } else if EXIT_137.is_match(text) {
        Claim::Signalled(SIGKILL)
    } else {
        return None;
    };
    Some((Subject::default(), claim))
}

fn oomd(pid: Option<Pid>, unit: &str, why: &str) -> Claim {
    Claim::Daemon(Daemon {
        unit: Some(unit.to_owned()),
        ..by("systemd-oomd", pid, Some(SIGKILL), why)
    })
}

fn not_for_memory(name: &str, why: &str) -> Claim {
    Claim::Daemon(Daemon {
        for_memory: false,
        ..by(name, None, None, why)
    })
}

fn daemon(name: &str, pid: Option<Pid>, signal: Option<i32>, why: &str) -> Claim {
    Claim::Daemon(by(name, pid, signal, why))
}

fn by(name: &str, pid: Option<Pid>, signal: Option<i32>, why: &str) -> Daemon {
    Daemon {
        name: name.to_owned(),
        pid,
        signal,
        why: why.trim().to_owned(),
        for_memory: true,
        unit: None,
    }
}

/// Reads lines that only report a kill by the kernel.
fn reported(text: &str) -> Option<(Subject, Claim)> {
    if let Some(found) = SYSTEM_OOM.captures(text) {
        let subject = Subject {
            pid: found[2].parse().ok().map(Pid),
            comm: Some(found[1].to_owned()),
            ..Subject::default()
        };
        return Some((subject, kernel("the kubelet", Some(Scope::Global))));
    }
    // These reporters count kills in a cgroup. The count also rises when the whole machine is out
    // of memory.
    let claim = if let Some(found) = SLURM_OOM.captures(text) {
        kernel(&format!("slurmstepd of step {}", &found[1]), None)
    } else if SRUN.is_match(text) {
        kernel("slurm", None)
    } else if OOM_KILLED.is_match(text) {
        kernel("the container runtime", None)
    } else if PLATFORM.is_match(text) {
        kernel("the platform", None)
    } else if text.contains("A process of this unit has been killed by the OOM killer")
        || text.contains("Failed with result 'oom-kill'.")
    {
        kernel("systemd", None)
    } else {
        return None;
    };
    Some((Subject::default(), claim))
}

fn kernel(reporter: &str, scope: Option<Scope>) -> Claim {
    Claim::KernelOom(Box::new(KernelOom {
        scope,
        reporter: Some(reporter.to_owned()),
        ..KernelOom::default()
    }))
}
