//! Those who kill for memory in user space, or report such a kill: earlyoom, systemd-oomd, the kubelet, slurm, container runtimes.
//!
//! Forms: earlyoom 1.3 to 1.8 (`sending SIGTERM to process N uid U "NAME": …`), systemd 248 on (`Killed /a.scope due to memory pressure …`,
//! `systemd-oomd killed N process(es) in this unit`), kubelet (`The node was low on resource: memory`, `OOMKilled`), slurmstepd (`oom-kill
//! event`, `exceeded memory limit`).

use std::sync::LazyLock;

use regex::Regex;

use super::{pattern, peel::Peeled};
use crate::{
    ids::Pid,
    judge::from_text::claim::{Claim, Daemon, Domain, KernelOom, Place, Scope, Statement, Subject},
};

/// Words of these lines.
pub(super) const ANCHORS: [&str; 10] = [
    "oom_kill event",
    "sending SIG",
    "due to memory used (",
    "due to memory pressure for",
    "systemd-oomd killed",
    "low on resource: memory",
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
    pattern(r"^Killed (/\S+) due to (memory used \(.{0,120}|memory pressure for .{0,160})")
});
static OOMD_UNIT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\S+): systemd-oomd killed (\d+) process"));
static EVICTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[Tt]he node was low on resource: memory\.?(.{0,200})"));
static OOM_KILLED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?:[Rr]eason"?[:=] *"?OOMKilled|\bOOMKilled"?: ?true|"OOMKilled"|^OOMKilled$|\bOOMKilled\s+\d+\b)"#,
    )
});
static SLURM_OOM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"Detected \d+ oom[-_]kill event\(?s?\)? in (?:StepId=|step )([\w.+]+)")
});
static SLURM_LIMIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:Job|Step|StepId=)?\s*([\d.]+\S*) exceeded (?:job )?memory limit \(([^)]*)\)")
});

/// What a line says, if it is one of these.
pub(super) fn line(line: &Peeled, place: Place, out: &mut Vec<Statement>) {
    let Some((subject, claim)) = read(line) else {
        return;
    };
    out.push(Statement {
        place,
        stamp: line.stamp,
        quote: super::cut(&line.text),
        subject: Subject {
            domain: Domain::Host,
            ..subject
        },
        claim,
    });
}

fn read(line: &Peeled) -> Option<(Subject, Claim)> {
    let text = line.text.trim();
    let own = line.program.as_ref().and_then(|(_, pid)| *pid);
    if let Some(found) = EARLYOOM.captures(text) {
        let subject = Subject {
            pid: found[2].parse().ok().map(Pid),
            comm: Some(found[3].to_owned()),
            ..Subject::default()
        };
        let signal = if &found[1] == "SIGKILL" { 9 } else { 15 };
        return Some((subject, daemon("earlyoom", own, Some(signal), &found[4])));
    }
    if let Some(found) = OOMD.captures(text) {
        let why = format!("in {}: {}", &found[1], &found[2]);
        return Some((
            Subject::default(),
            daemon("systemd-oomd", own, Some(9), &why),
        ));
    }
    if let Some(found) = OOMD_UNIT.captures(text) {
        let why = format!("{} processes of {}", &found[2], &found[1]);
        return Some((
            Subject::default(),
            daemon("systemd-oomd", None, Some(9), &why),
        ));
    }
    if let Some(found) = EVICTED.captures(text) {
        let why = format!("the node was low on memory.{}", &found[1]);
        return Some((Subject::default(), daemon("kubelet", own, None, &why)));
    }
    if let Some(found) = SLURM_LIMIT.captures(text) {
        let why = format!(
            "step {} exceeded its memory limit ({})",
            &found[1], &found[2]
        );
        return Some((Subject::default(), daemon("slurmstepd", own, Some(9), &why)));
    }
    reported(text)
}

fn daemon(name: &str, pid: Option<Pid>, signal: Option<i32>, why: &str) -> Claim {
    Claim::Daemon(Daemon {
        name: name.to_owned(),
        pid,
        signal,
        why: why.trim().to_owned(),
    })
}

/// Those who only report that the kernel killed at a cgroup's limit.
fn reported(text: &str) -> Option<(Subject, Claim)> {
    let (reporter, cgroup) = if let Some(found) = SLURM_OOM.captures(text) {
        ("slurmstepd", Some(found[1].to_owned()))
    } else if OOM_KILLED.is_match(text) {
        ("the container runtime", None)
    } else {
        return None;
    };
    let oom = KernelOom {
        scope: Some(Scope::Memcg),
        cgroup,
        reporter: Some(reporter.to_owned()),
        ..KernelOom::default()
    };
    Some((Subject::default(), Claim::KernelOom(Box::new(oom))))
}
