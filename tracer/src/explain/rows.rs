//! Turns a line that matches a row of the catalogue into what it claims, of whom.

use std::sync::LazyLock;

use libc::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use regex::Regex;

use super::{HexIds, line::LogLine, pattern, prose, ray_exit, ray_prefix, said, stamp};
use crate::{
    catalogue::{self, Found, Says, Where, Whom},
    event::Role,
    ids::{HexId, Pid},
    judge::{
        cause::{Cause, Request, Scope},
        from_text::claim::{Claim, Daemon, KernelOom, PidNamespace, Stamp, Statement, Subject},
        ray_reason::RayReason,
    },
    path,
    ray::facts::ExitType,
    signals,
};

/// The most letters of another program's words that are kept.
const MAX_WORDS: usize = 160;

/// Words of strsignal(3) for signals that other processes send.
const SENT: [(&str, i32); 7] = [
    ("Killed", SIGKILL),
    ("Terminated", SIGTERM),
    ("Hangup", SIGHUP),
    ("Interrupt", SIGINT),
    ("Quit", SIGQUIT),
    ("User defined signal 1", SIGUSR1),
    ("User defined signal 2", SIGUSR2),
];

static POD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?:^|\s)pod(?:/|="(?:[\w.-]+/)?)([a-z0-9][a-z0-9.-]{0,252})(?:"|\s|$|[^\w/])"#)
});

/// Reads a line. `own` is the process that writes the text, and `hosts` whether only rows about
/// processes of the host count.
pub(super) fn line(line: &LogLine, own: &Subject, hosts: bool, out: &mut Vec<Statement>) {
    let text = line.text.as_str();
    let mut found = catalogue::find(text);
    found.retain(|one| is_believed(one.row.believed, line));
    // Programs print a time or a level, and sentences have none.
    if line.stamp.is_empty() && line.level.is_none() && line.component.is_none() {
        found.retain(|one| !prose::quotes(one.before(text)));
    }
    found.retain(|one| !hosts || one.row.of == Whom::Host);
    let by_worker = line.is_of_worker(own);
    found.retain(|one| !(by_worker && matches!(one.row.of, Whom::Host | Whom::Part)));
    let special = found.iter().any(|one| !one.row.general);
    found.retain(|one| !(special && one.row.general));
    // Two processes may write into one line: the driver, and the worker that crashes.
    let (last_words, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|one| one.row.of == Whom::Writer);
    for one in last_words.first().into_iter().chain(others.first()) {
        out.extend(statements(one, line, own));
    }
}

/// Returns what a record of level C says if nothing else is known of it: its writer aborts.
pub(super) fn fatal(line: &LogLine, own: &Subject) -> Option<Statement> {
    let text = line.text.trim();
    let known = |name: &str| matches!(name, "" | "raylet" | "gcs_server" | "core_worker");
    let named = line.component.as_ref();
    let named = named.filter(|(name, pid)| pid.0 != 0 && known(name));
    let ends = line.level == Some('C') && named.is_some() && !text.is_empty();
    ends.then(|| {
        let claim = crashed(&format!("fatal error: {}", short(text)));
        line.states(writer(line, own), claim)
    })
}

fn is_believed(believed: Where, line: &LogLine) -> bool {
    match believed {
        Where::Anywhere => true,
        Where::Record => line.component.is_some(),
        Where::FatalRecord => line.component.is_some() && line.level == Some('C'),
        Where::Plain => line.component.is_none(),
    }
}

fn statements(found: &Found<'_>, line: &LogLine, own: &Subject) -> Vec<Statement> {
    let Some(claim) = claim(found, line) else {
        return Vec::new();
    };
    // That a service of the host ended is no end of the job, but memory that it ran out of is.
    let for_memory = matches!(&claim, Claim::KernelOom(_))
        || matches!(&claim, Claim::Daemon(daemon) if daemon.for_memory);
    if !for_memory && found.get("unit").is_some_and(catalogue::is_host_unit) {
        return Vec::new();
    }
    let statement = |subject| Statement {
        stamp: stamp_of(found, line.stamp),
        ..line.states(subject, claim.clone())
    };
    if let Some(pids) = found.get("pids") {
        let pids = pids.split(", ").take(MAX_LOADERS);
        return pids
            .map(|pid| statement(child(pid.parse().ok().map(Pid))))
            .collect();
    }
    vec![statement(subject(found, line, own))]
}

/// The most children of one line that are read.
const MAX_LOADERS: usize = 64;

/// Returns the time of the line, or that which stands in its text.
fn stamp_of(found: &Found<'_>, line: Stamp) -> Stamp {
    let Some(at) = found.get("at") else {
        return line;
    };
    Stamp {
        utc: line.utc.or_else(|| stamp::zoned(at)),
        local: line
            .local
            .or_else(|| stamp::local(&at.replacen('T', " ", 1))),
        ..line
    }
}

fn subject(found: &Found<'_>, line: &LogLine, own: &Subject) -> Subject {
    // mpirun prints the pid 0 where it knows none.
    let pid = found.number("pid").filter(|pid| *pid != 0).map(Pid);
    let text = |hole: &str| found.get(hole).map(str::to_owned);
    let comm = found.get("comm").filter(|comm| !comm.is_empty());
    let is_path = |comm: &&str| comm.starts_with(['/', '.']);
    let base = comm.filter(is_path).map(path::base);
    let comm = base.or(comm).map(str::to_owned);
    let subject = match found.row.of {
        Whom::Nobody => Subject::default(),
        Whom::Writer => {
            let written = writer(line, own);
            Subject {
                pid: written.pid.or(pid),
                ..written
            }
        }
        Whom::Child => child(pid),
        Whom::Worker => worker(found),
        Whom::Part => {
            let role = part(found, line);
            Subject {
                pid: pid.or_else(|| own_pid(role, line)),
                node_id: found
                    .get("node")
                    .and_then(|id| id.hex(HexId::WORKER_DIGITS)),
                ip: text("ip"),
                role: Some(role),
                ..Subject::default()
            }
        }
        Whom::Host => Subject {
            pid,
            pid_namespace: PidNamespace::Host,
            ..Subject::default()
        },
    };
    let of_any = matches!(found.row.of, Whom::Nobody | Whom::Writer);
    let place = (!found.row.place.is_empty()).then(|| found.fill(&found.row.place));
    let of = place.filter(|place| !place.ends_with(' '));
    let of_host = matches!(found.row.of, Whom::Nobody | Whom::Host) && pid.is_none();
    let of = of.or_else(|| pod(&line.text).filter(|_| of_host));
    // A place says more than a number: `Slurm task 289 on node-1`.
    let task = text("task").filter(|_| found.row.of == Whom::Nobody && of.is_none());
    Subject {
        comm: comm.or_else(|| other_part(found)).or(subject.comm),
        task: task.or(subject.task),
        of: of.or(subject.of),
        foreign: subject.foreign || (of_any && line.component.is_none() && !found.is_rays()),
        ..subject
    }
}

/// Returns the pod that a line names beside the end: `pod/train-0`, `pod="default/train-0"`.
fn pod(text: &str) -> Option<String> {
    let name = &POD.captures(text)?[1];
    Some(format!("pod {}", name.trim_end_matches(['-', '.'])))
}

/// Returns the name of a part of Ray that has no role of its own.
fn other_part(found: &Found<'_>) -> Option<String> {
    let part = found.get("part")?;
    role(part).is_none().then(|| part.to_owned())
}

fn part(found: &Found<'_>, line: &LogLine) -> Role {
    let component = line.component.as_ref().map(|(name, _)| name.as_str());
    match found.get("part").or(component) {
        Some(part) => role(part).unwrap_or(Role::Other),
        None => Role::Raylet,
    }
}

/// Returns the pid of the part of Ray that writes a record, if it has this role.
fn own_pid(of: Role, line: &LogLine) -> Option<Pid> {
    let (name, pid) = line.component.as_ref()?;
    (pid.0 != 0 && role(name) == Some(of)).then_some(*pid)
}

fn role(part: &str) -> Option<Role> {
    match part {
        "raylet" => Some(Role::Raylet),
        "gcs_server" => Some(Role::Gcs),
        "dashboard" => Some(Role::Dashboard),
        _ => None,
    }
}

/// Returns the subject for a child of a driver or worker.
fn child(pid: Option<Pid>) -> Subject {
    Subject {
        pid,
        role: Some(Role::Descendant),
        ..Subject::default()
    }
}

fn worker(found: &Found<'_>) -> Subject {
    let id = |hole: &str, digits| found.get(hole).and_then(|id| id.hex(digits));
    // The id of an actor's creation task ends with the actor's id.
    let actor = found
        .get("task")
        .and_then(|task| task.strip_prefix("ffffffffffffffff"));
    let job = found.get("worker").and_then(job_of_driver);
    Subject {
        pid: found.number("pid").map(Pid),
        worker_id: id("worker", HexId::WORKER_DIGITS),
        node_id: id("node", HexId::WORKER_DIGITS),
        ip: found.get("ip").map(str::to_owned),
        actor_id: actor.and_then(|actor| actor.hex(HexId::ACTOR_DIGITS)),
        role: job.map(|_| Role::Driver),
        job_id: job.and_then(|job| job.hex(HexId::JOB_DIGITS)),
        ..Subject::default()
    }
}

/// Returns the job of a driver's id. All its other digits are `f`.
fn job_of_driver(worker_id: &str) -> Option<&str> {
    let (job, rest) = worker_id.split_at_checked(HexId::JOB_DIGITS)?;
    (!rest.is_empty() && rest.bytes().all(|digit| digit == b'f')).then_some(job)
}

fn claim(found: &Found<'_>, line: &LogLine) -> Option<Claim> {
    Some(match &found.row.claim {
        Says::Signalled { signal } => signalled(found, *signal)?,
        Says::Status => by_code(found.number("code")?)?,
        Says::Exited { code } => Claim::Exit {
            code: found.number("code").or(*code),
            creating_actor: false,
        },
        Says::Crashed { says, signal } => crash(&found.fill(says), *signal),
        Says::WouldCrash { says } => Claim::FatalError {
            says: short(&found.fill(says)),
        },
        Says::KilledBy {
            by,
            why,
            memory,
            signal,
            of_unit,
            after_part,
        } => {
            let unit = found
                .get("unit")
                .or_else(|| found.get("path")?.rsplit('/').next());
            let own = line.program.as_ref().and_then(|(_, pid)| *pid);
            // A command line that is quoted is not a reason.
            let why = found.fill(why);
            let why = why.split(", cmdline ").next().unwrap_or_default();
            Claim::Daemon(Daemon {
                name: found.fill(by),
                pid: own.filter(|_| line.program.as_ref().is_some_and(|(name, _)| name == by)),
                signal: named_signal(found).or(*signal),
                why: why.trim().chars().take(MAX_WORDS + 40).collect(),
                for_memory: *memory,
                fix: fix(found),
                unit: unit.filter(|_| *of_unit).map(str::to_owned),
                after_part: *after_part,
                after: None,
            })
        }
        Says::KernelOom { by, global } => Claim::KernelOom(Box::new(KernelOom {
            scope: global.then_some(Scope::Global),
            reporter: Some(found.fill(by)),
            fix: fix(found),
            ..KernelOom::default()
        })),
        Says::TakenBack { by } => Claim::TakenBack { by: by.clone() },
        Says::Adds { says } => Claim::Adds {
            says: short(&found.fill(says)),
        },
        Says::Before { says } => Claim::ErrorBefore {
            says: short(&found.fill(says)),
        },
        Says::Frame => Claim::Frame {
            function: found
                .get("frame")
                .filter(|one| tells_where(one))
                .map(short)?,
        },
        // `ray.cancel` raises the same in a worker.
        Says::Interrupted if line.speaker.is_none() => Claim::ErrorBefore {
            says: said::INTERRUPT.to_owned(),
        },
        Says::Interrupted | Says::Nothing => return None,
        Says::Died => Claim::Died,
        Says::Gone => Claim::Gone,
        Says::Lost => Claim::Lost,
        Says::RayExit => {
            let exit_type = ExitType::parse(found.get("type").unwrap_or_default());
            ray_exit::exit(exit_type, found.get("detail")?)
        }
        Says::Wanted => Claim::Intended(Cause::RayRequest {
            request: Request::Other,
            says: None,
        }),
        Says::GcsLost => Claim::Collapse {
            cause: Cause::GcsLost,
            remote: None,
        },
        Says::NodeDead { says } => RayReason::node_dead(short(&found.fill(says))).into(),
    })
}

/// Returns what to change where this limit was hit.
fn fix(found: &Found<'_>) -> Option<String> {
    Some(found.fill(&found.row.fix)).filter(|fix| !fix.is_empty())
}

/// Returns the claim for a signal that the line names, by its name, number or strsignal(3).
fn signalled(found: &Found<'_>, signal: Option<i32>) -> Option<Claim> {
    if let Some(signal) = named_signal(found).or(signal) {
        if let Some(pid) = found.number("sender") {
            return Some(sent_by(signal, Pid(pid), found.get("origin")));
        }
        return Some(ended_by(signal));
    }
    let words = found.get("signal").or_else(|| found.get("fault"));
    let words = words.unwrap_or(found.text());
    let sent = SENT.iter().find(|(name, _)| words.contains(name));
    match sent {
        Some((_, signal)) => Some(Claim::Signalled(*signal)),
        None => signals::of_fault(words).map(|signal| Claim::Crash {
            says: found
                .get("fault")
                .map_or_else(|| signals::name(signal), str::to_owned),
            signal: Some(signal),
        }),
    }
}

/// Returns the claim for a signal with its sender. glog prints the place in `siginfo_t` that has
/// the sender's pid, and above it its user, as an address: `0x3e8000046da`.
fn sent_by(signal: i32, pid: Pid, origin: Option<&str>) -> Claim {
    let origin = origin.and_then(|text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok());
    let origin = origin.filter(|origin| origin & u64::from(u32::MAX) == u64::from(pid.0));
    let uid = origin.and_then(|origin| u32::try_from(origin >> 32).ok());
    Claim::SentBy { signal, pid, uid }
}

/// Returns the signal that a line names, as `SIGTERM` or `15`.
fn named_signal(found: &Found<'_>) -> Option<i32> {
    let name = found.get("signal")?;
    let numbers = 1..=64;
    let known = |number: &i32| signals::name(*number) == name;
    let number = name.parse().ok().filter(|number| numbers.contains(number));
    number.or_else(|| numbers.clone().find(known))
}

/// Returns the claim for an exit code as Python has it, where a signal is negative. Shells and
/// container runtimes add 128 to the number of the signal. Node, Go and the JVM use -1 and -2 for
/// other errors.
pub(super) fn by_code(code: i32) -> Option<Claim> {
    let by_shell = |signal: &i32| {
        matches!(*signal, SIGKILL | SIGTERM | SIGINT)
            || signals::of_fault(&signals::name(*signal)).is_some()
    };
    match code {
        0 => None,
        129..=159 if by_shell(&(code - 128)) => Some(ended_by(code - 128)),
        -64..=-3 => Some(ended_by(-code)),
        _ => Some(Claim::Exit {
            code: Some(code),
            creating_actor: false,
        }),
    }
}

/// Returns the claim for a process that this signal ended.
fn ended_by(signal: i32) -> Claim {
    let name = signals::name(signal);
    if signals::of_fault(&name).is_some() {
        crashed(&name)
    } else {
        Claim::Signalled(signal)
    }
}

/// Returns the claim for a fault that a text names.
pub(super) fn crashed(says: &str) -> Claim {
    crash(says, None)
}

fn crash(says: &str, signal: Option<i32>) -> Claim {
    Claim::Crash {
        says: short(says),
        signal: signal.or_else(|| signals::of_fault(says)),
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

/// Functions that stand in any stack: those that handle a signal, report an error, or call others.
const ANYWHERE: [&str; 9] = [
    "raise",
    "abort",
    "gsignal",
    "kill",
    "clone",
    "clone3",
    "start_thread",
    "execute_native_thread_routine",
    "method_vectorcall",
];
/// How the names of others of them begin.
const PARTS: [&str; 17] = [
    "_start",
    "__libc_start",
    "__GI_",
    "__mem",
    "__pthread",
    "pthread_",
    "__restore_rt",
    "__cxa_",
    "std::",
    "absl::",
    "boost::",
    "google::",
    "c10::",
    "ray::operator<<",
    "ray::SpdLog",
    "Py",
    "_Py",
];

/// Whether a function tells where a process was.
fn tells_where(function: &str) -> bool {
    let is_known = ANYWHERE.contains(&function.trim_end_matches("()"));
    !is_known && !PARTS.iter().any(|part| function.starts_with(part))
}

/// Returns the start of a message, without Ray's remark on repetitions.
fn short(text: &str) -> String {
    let text = text.split(" [repeated ").next().unwrap_or(text);
    text.trim().chars().take(MAX_WORDS).collect()
}

/// Returns the process that writes a line.
fn writer(line: &LogLine, own: &Subject) -> Subject {
    let spoken = line.speaker.as_ref().map_or_else(
        || own.clone(),
        |speaker| {
            let role = role(&speaker.name);
            let class =
                Some(speaker.name.clone()).filter(|name| !name.is_empty() && role.is_none());
            Subject {
                pid: speaker.pid,
                ip: speaker.ip.clone(),
                class,
                role,
                ..Subject::default()
            }
        },
    );
    let Some((component, pid)) = line.component.as_ref().filter(|(_, pid)| pid.0 != 0) else {
        return spoken;
    };
    // The driver shows as the raylet's what a worker prints before it has a job.
    let by_core_worker = line
        .record
        .as_deref()
        .is_some_and(ray_prefix::is_core_workers);
    Subject {
        pid: Some(*pid),
        role: role(component).or(spoken.role.filter(|_| !by_core_worker)),
        // Workers and drivers write such a record, and programs that only use Ray.
        foreign: component.is_empty(),
        ..spoken
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
