//! Reads other words about ends: of workers, raylets and child processes. Ray 2.1 to 2.60.
//!
//! A driver prints `A worker died or was killed while executing a task …`, `Raylet is terminated.`,
//! or that a worker crashed or was lost. Shells, data loaders and launchers (torchrun, deepspeed,
//! vLLM, srun) report the end of a child. A process that aborts prints why: Ray's own handlers
//! (`Unhandled exception: `, `Check failed: `; util/logging.cc, 2.1 to 2.60), C++ and Rust.

use std::sync::LazyLock;

use libc::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use regex::Regex;

use super::{HexIds, line::LogLine, pattern, ray_exit};
use crate::{
    event::Role,
    ids::{HexId, Pid},
    judge::{
        cause::{Cause, Request},
        from_text::claim::{Claim, Place, Statement, Subject},
    },
    signals,
};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 29] = [
    "terminated by signal ",
    ":actor_name:",
    ":task_name:",
    "Killed",
    "Segmentation fault",
    "Bus error",
    "Worker exit detail: ",
    "A worker died or was killed",
    "Raylet is terminated",
    "worker died unexpectedly",
    "Worker unexpectedly exits",
    "killed by signal",
    "exited unexpectedly",
    "died unexpectedly",
    "Killed  ",
    "Fatal Python error: ",
    "*** SIG",
    "Unhandled exception: ",
    "Check failed: ",
    "thread-local data: ABORT",
    "memory allocation of ",
    "terminate called after throwing",
    "(exitcode: ",
    "exitcode  : ",
    "exits with return code = ",
    "died, exit code: ",
    "srun: error: ",
    "death signal, shutting down",
    LOST_THE_GCS,
];

/// What a worker, a driver or a command of Ray prints before it exits with code 1, because it
/// cannot reach the GCS (`gcs_rpc_client.h`, `rpc_client.h`, 2.9 to 2.60). It goes on: `within 60
/// seconds. GCS may have been killed. … The program will terminate.`
const LOST_THE_GCS: &str = "Failed to connect to GCS within ";

/// The most children of one line that are read.
const MAX_LOADERS: usize = 64;
/// Signals that a process causes itself, with the names of strsignal(3).
const FAULTS: [&str; 5] = [
    "Segmentation fault",
    "Bus error",
    "Aborted",
    "Illegal instruction",
    "Floating point exception",
];

static WORKER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"A worker died or was killed while executing .*?(?:(?:RayTask|Task) ID: (?P<task>[0-9a-f]{48}) )?(?:Lease ID: [0-9a-f]+ )?Worker ID: (?P<worker>[0-9a-f]{56}) Node ID: (?P<node>[0-9a-f]{56}) Worker IP address: (?P<ip>\S+) Worker port: \d+ Worker PID: (?P<pid>\d+) (?:Worker exit type: (?P<type>\S+) Worker exit detail: (?P<detail>.*))?",
    )
});
static LOADER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"DataLoader worker \(pid(?:\(s\))? (\d+(?:, \d+)*)\) (?:is killed by signal: (\w+[\w ]*)|exited unexpectedly)",
    )
});
static SHELL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"line \d+: +(\d+) (Killed|Segmentation fault|Aborted|Bus error)\b"));
static ELASTIC: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:failed \(exitcode: (-?\d{1,9})\) local_rank: \d+ \(pid: |exitcode  : (-?\d{1,9}) \(pid: )(\d+)\)",
    )
});
static DEEPSPEED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"exits with return code = (-?\d{1,9})"));
static VLLM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Worker (\S{1,64}) pid (\d+) died, exit code: (-?\d{1,9})"));
static SRUN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"srun: error: \S+: tasks? [\d,-]+: (Killed|Terminated|Segmentation fault|Aborted|Bus error)",
    )
});
static RUST: LazyLock<Regex> = LazyLock::new(|| pattern(r"^memory allocation of \d+ bytes failed"));
static XARGS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\bxargs: .{1,200}: terminated by signal (\d{1,2})\b"));
static FAILURE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\*\*\* (SIG[A-Z]+) received at time="));
static FATAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"Fatal Python error: (Segmentation fault|Bus error|Aborted|Illegal instruction)")
});

/// Reads a line, if it is one of these.
pub(super) fn line(line: &LogLine, own: &Subject, place: Place, out: &mut Vec<Statement>) {
    let text = line.text.as_str();
    let mut found = loaders(text);
    if found.is_empty() {
        // Two processes may write into one line: the driver, and the worker that crashes.
        found.extend(crash(line, own));
        let one = worker(text)
            .or_else(|| raylet(text))
            .or_else(|| shell(text))
            .or_else(|| launcher(text));
        found.extend(one);
    }
    if found.is_empty() {
        found.extend(nameless(text));
    }
    out.extend(found.into_iter().map(|(subject, claim)| Statement {
        place,
        stamp: line.stamp,
        quote: super::cut(text),
        subject,
        claim,
    }));
}

fn worker(text: &str) -> Option<(Subject, Claim)> {
    let found = WORKER.captures(text)?;
    let field = |name: &str| found.name(name).map(|field| field.as_str());
    // The id of an actor's creation task ends with the actor's id.
    let actor_id = field("task")
        .and_then(|task| task.strip_prefix("ffffffffffffffff"))
        .and_then(|actor| actor.hex(HexId::ACTOR_DIGITS));
    let subject = Subject {
        pid: field("pid").and_then(|pid| pid.parse().ok()).map(Pid),
        worker_id: field("worker").and_then(|id| id.hex(HexId::WORKER_DIGITS)),
        node_id: field("node").and_then(|id| id.hex(HexId::WORKER_DIGITS)),
        ip: field("ip").map(str::to_owned),
        actor_id,
        ..Subject::default()
    };
    let claim = match (field("type"), field("detail")) {
        (Some(kind), Some(detail)) => ray_exit::exit(kind, detail),
        _ => Claim::Died,
    };
    Some((subject, claim))
}

fn raylet(text: &str) -> Option<(Subject, Claim)> {
    text.contains("Raylet is terminated. Termination is")
        .then(|| {
            let subject = Subject {
                role: Some(Role::Raylet),
                ..Subject::default()
            };
            let how = if text.contains("Termination is graceful") {
                Claim::Intended(Cause::RayRequest {
                    request: Request::Other,
                    says: None,
                })
            } else {
                Claim::Died
            };
            (subject, how)
        })
}

/// Returns the subject for a child of a driver or worker.
fn descendant(pid: &str) -> Subject {
    Subject {
        pid: pid.parse().ok().map(Pid),
        role: Some(Role::Descendant),
        ..Subject::default()
    }
}

/// Reads what a parent says about its data loaders: one ended by a signal, or several that have
/// exited.
fn loaders(text: &str) -> Vec<(Subject, Claim)> {
    let Some(found) = LOADER.captures(text) else {
        return Vec::new();
    };
    let claim = match found.get(2).map(|signal| signal.as_str().trim()) {
        Some(signal) if signal.starts_with("Killed") => Claim::Signalled(SIGKILL),
        Some(signal) if signal.starts_with("Terminated") => Claim::Signalled(SIGTERM),
        Some(signal) if FAULTS.iter().any(|fault| signal.starts_with(fault)) => crashed(signal),
        _ => Claim::Died,
    };
    let pids = found[1].split(", ").take(MAX_LOADERS);
    pids.map(|pid| (descendant(pid), claim.clone())).collect()
}

/// Reads what a shell says about a child, or what `xargs` says, which does not tell which child it
/// was.
fn shell(text: &str) -> Option<(Subject, Claim)> {
    let xargs = text.contains("xargs: ").then(|| XARGS.captures(text));
    if let Some(found) = xargs.flatten() {
        let signal = found[1].parse().ok()?;
        return Some((Subject::default(), Claim::Signalled(signal)));
    }
    let found = SHELL.captures(text)?;
    let claim = match &found[2] {
        "Killed" => Claim::Signalled(SIGKILL),
        crash => crashed(crash),
    };
    Some((descendant(&found[1]), claim))
}

/// Reads what a launcher of ranks says about one of them. A negative code is a signal.
fn launcher(text: &str) -> Option<(Subject, Claim)> {
    if let Some(found) = ELASTIC.captures(text) {
        let code = found.get(1).or_else(|| found.get(2))?;
        let claim = by_code(code.as_str().parse().ok()?)?;
        return Some((descendant(&found[3]), claim));
    }
    if let Some(found) = VLLM.captures(text) {
        let subject = Subject {
            comm: Some(found[1].to_owned()),
            ..descendant(&found[2])
        };
        return Some((subject, by_code(found[3].parse().ok()?)?));
    }
    let claim = if let Some(found) = DEEPSPEED.captures(text) {
        by_code(found[1].parse().ok()?)?
    } else if let Some(found) = SRUN.captures(text) {
        match &found[1] {
            "Killed" => Claim::Signalled(SIGKILL),
            "Terminated" => Claim::Signalled(SIGTERM),
            fault => crashed(fault),
        }
    } else if text.contains("Received 15 death signal, shutting down") {
        Claim::Signalled(SIGTERM)
    } else {
        return None;
    };
    Some((Subject::default(), claim))
}

/// Returns the claim for an exit code as Python has it, where a signal is negative.
fn by_code(code: i32) -> Option<Claim> {
    match code {
        0 => None,
        1.. => Some(Claim::Exit {
            code: Some(code),
            creating_actor: false,
        }),
        _ => Some(ended_by(code.checked_neg()?)),
    }
}

/// Returns the claim for a process that this signal ended.
pub(super) fn ended_by(signal: i32) -> Claim {
    let name = signals::name(signal);
    if signals::of_fault(&name).is_some() {
        crashed(&name)
    } else {
        Claim::Signalled(signal)
    }
}

/// Returns the claim for a fault that a text names.
pub(super) fn crashed(says: &str) -> Claim {
    Claim::Crash {
        says: says.to_owned(),
        signal: signals::of_fault(says),
    }
}

/// Returns the claim for a signal that abseil's failure handler reports. It handles faults, but
/// also signals that other processes send.
pub(super) fn failure(signal: &str) -> Claim {
    match signal {
        "SIGHUP" => Claim::Signalled(SIGHUP),
        "SIGINT" => Claim::Signalled(SIGINT),
        "SIGTERM" => Claim::Signalled(SIGTERM),
        fault => crashed(fault),
    }
}

/// Reads the last words of the process that crashes: those of abseil's and Python's failure
/// handlers, and of what aborts.
fn crash(line: &LogLine, own: &Subject) -> Option<(Subject, Claim)> {
    let text = line.text.trim_start();
    let fault = FAILURE.captures(text).or_else(|| FATAL.captures(text));
    let claim = match fault {
        Some(found) => failure(&found[1]),
        None => crashed(&abort(text)?),
    };
    Some((speaks(line, own), claim))
}

/// Reads a record of Ray's handlers in the process that aborts: `Unhandled exception: …`, `Check
/// failed: …` in a record of level C, which ends the process, and abseil's.
pub(super) fn record(line: &LogLine, own: &Subject, place: Place, out: &mut Vec<Statement>) {
    let text = line.text.trim_start();
    let fatal = || {
        let record = line.record.as_deref()?;
        let level = record.split(' ').nth(2)?;
        let (_, check) = text.split_once("Check failed: ")?;
        (level == "C").then(|| format!("Ray's own check failed: {}", short(check)))
    };
    let claim = if let Some(found) = FAILURE.captures(text) {
        failure(&found[1])
    } else if let Some(exception) = text.strip_prefix("Unhandled exception: ") {
        let (kind, what) = exception.split_once(" what(): ").unwrap_or(("", exception));
        let what = if what.trim().is_empty() { kind } else { what };
        crashed(&format!("unhandled C++ exception: {}", short(what)))
    } else if let Some(check) = fatal() {
        crashed(&check)
    } else if let Some(lost) = lost_the_gcs(line) {
        lost
    } else {
        return;
    };
    let mut subject = speaks(line, own);
    if let Some((component, pid)) = line.component.as_ref().filter(|(_, pid)| pid.0 != 0) {
        subject.pid = Some(*pid);
        subject.role = match component.as_str() {
            "raylet" => Some(Role::Raylet),
            "gcs_server" => Some(Role::Gcs),
            _ => subject.role,
        };
    }
    out.push(Statement {
        place,
        stamp: line.stamp,
        quote: super::cut(text),
        subject,
        claim,
    });
}

/// Returns the claim of a process that ends because it cannot reach the GCS. A raylet's own words
/// are read elsewhere.
fn lost_the_gcs(line: &LogLine) -> Option<Claim> {
    let (component, _) = line.component.as_ref()?;
    let ends = line.text.starts_with(LOST_THE_GCS) && line.text.contains("will terminate");
    (ends && component.is_empty()).then_some(Claim::Collapse {
        cause: Cause::GcsLost,
        remote: None,
    })
}

/// Returns what a program prints before it aborts because memory was refused, or by itself.
fn abort(text: &str) -> Option<String> {
    let aborts = text.contains("cannot allocate memory for thread-local data: ABORT")
        || RUST.is_match(text)
        || text.starts_with("terminate called after throwing an instance of ");
    aborts.then(|| short(text))
}

/// Returns the start of a message, without Ray's remark on repetitions.
fn short(text: &str) -> String {
    let text = text.split(" [repeated ").next().unwrap_or(text);
    text.trim().chars().take(160).collect()
}

/// Returns the process that writes a line.
fn speaks(line: &LogLine, own: &Subject) -> Subject {
    let Some(speaker) = line.speaker.as_ref() else {
        return own.clone();
    };
    let role = match speaker.name.as_str() {
        "raylet" => Some(Role::Raylet),
        "gcs_server" => Some(Role::Gcs),
        _ => None,
    };
    let class = Some(speaker.name.clone()).filter(|name| !name.is_empty() && role.is_none());
    Subject {
        pid: speaker.pid,
        ip: speaker.ip.clone(),
        class,
        role,
        ..Subject::default()
    }
}

/// Reads the markers that a worker prints into its own file when it begins to run an actor or task:
/// `:actor_name:Rollout`, `:task_name:compute_score`.
pub(super) fn marker(text: &str, own: &mut Subject) {
    if let Some(name) = text.strip_prefix(":actor_name:") {
        // A second marker is the name that the actor gave itself.
        own.class.get_or_insert_with(|| name.trim().to_owned());
    } else if let Some(name) = text.strip_prefix(":task_name:") {
        own.task = Some(name.trim().to_owned());
    }
}

/// Reads lines that report an end without naming the process.
fn nameless(text: &str) -> Option<(Subject, Claim)> {
    let died = [
        "The worker died unexpectedly while executing this task",
        "The actor died unexpectedly before finishing this task",
    ];
    if died.iter().any(|words| text.contains(words)) {
        return Some((Subject::default(), Claim::Died));
    }
    let engine = text.contains("EngineCore") && text.contains("died unexpectedly");
    if engine {
        let subject = Subject {
            task: Some("EngineCore".into()),
            ..Subject::default()
        };
        return Some((subject, Claim::Died));
    }
    let Some((_, detail)) = text.split_once("Worker exit detail: ") else {
        // People quote only this part of it.
        let lost = text.contains("Worker unexpectedly exits with a connection error");
        return lost.then(|| (Subject::default(), Claim::Lost));
    };
    let kind = text
        .split_once("Worker exit type: ")
        .map_or("", |(_, rest)| rest);
    let kind = kind.split(' ').next().unwrap_or("");
    Some((Subject::default(), ray_exit::exit(kind, detail)))
}
