//! A cause in words: the one place where what a judge found becomes a sentence.
//!
//! A clause is what follows the name of a process: `was killed by Ray's memory monitor: …`. Nobody reads these words again:
//! whoever needs to know why a process ended looks at its [`Cause`].

mod kernel;
mod link;
mod missing;
mod process;
mod ray;

pub use link::{remote, tie};
pub use missing::missing;

use crate::{
    event::Role,
    ids::Pid,
    judge::{
        cause::{Cause, ProcessRef},
        report::{Basis, Because, Death, Recovery},
    },
    path,
    size::size,
};

/// What a worker without a task is called; Ray gives it the title `ray::IDLE`.
pub const IDLE: &str = "idle worker";

/// The clause on a death.
#[must_use]
pub fn of(death: &Death) -> String {
    ClauseContext::of(death).clause(&death.verdict.cause)
}

/// The sentence on a death: `hog (pid 7, 2.0 GiB) was killed by …`.
#[must_use]
pub fn summary(death: &Death) -> String {
    let mut details: Vec<String> = Vec::new();
    details.extend((death.process.pid.0 != 0).then(|| format!("pid {}", death.process.pid)));
    let memory = death.memory.own.resident().filter(|bytes| bytes.0 > 0);
    details.extend(memory.map(size));
    let details = if details.is_empty() {
        String::new()
    } else {
        format!(" ({})", details.join(", "))
    };
    format!("{}{details} {}", name(death), of(death))
}

/// Why a job ended as it did.
#[must_use]
pub fn because(because: &Because) -> String {
    match because {
        Because::Running => "its driver was running when the recording ended".into(),
        Because::Succeeded => "its driver exited with code 0".into(),
        Because::Interrupted => "its driver was interrupted from its terminal".into(),
        Because::Driver { cause, exited } => {
            format!(
                "its driver {}",
                ClauseContext::other(Role::Driver, *exited).clause(cause)
            )
        }
        Because::Raylet { cause, exited } => {
            format!(
                "its raylet {}",
                ClauseContext::other(Role::Raylet, *exited).clause(cause)
            )
        }
        Because::AfterDeath { code, basis } => match basis {
            Basis::Exception => {
                format!("its driver exited with code {code}, and its exception names this process")
            }
            Basis::LostCall => format!(
                "a call failed because of it, Ray did not retry that call, and its driver exited with code {code}"
            ),
            Basis::Order => {
                format!(
                    "its driver exited with code {code} after this death, which Ray did not retry"
                )
            }
        },
        Because::OnAnotherNode { code, link, node } => {
            let ended = code.map_or_else(
                || "its driver ended".to_owned(),
                |code| format!("its driver exited with code {code}"),
            );
            format!("{ended}; {} on {node}", tie(link))
        }
        Because::NoDeathSeen { code } => format!(
            "its driver exited with code {code}; raytrace saw no earlier death of its workers that Ray did not retry"
        ),
    }
}

/// `task retried, 2 retries left`.
#[must_use]
pub fn recovery(recovery: &Recovery) -> String {
    match recovery {
        Recovery::TaskRetried { left: Some(1) } => "task retried, 1 retry left".to_owned(),
        Recovery::TaskRetried { left: Some(left) } => format!("task retried, {left} retries left"),
        Recovery::TaskRetried { left: None } => "task retried".to_owned(),
        Recovery::ActorRestarted { actor_id } => format!("actor {} restarted", actor_id.short()),
        Recovery::WentOn => "the job went on".to_owned(),
    }
}

/// What a process is called in a summary: its title; of processes that are no workers the program alone, since arguments may hold
/// secrets and are long.
fn name(death: &Death) -> String {
    let process = &death.process;
    let title = process.title.as_deref().filter(|title| !title.is_empty());
    let work = || {
        death
            .work
            .actor_class
            .as_deref()
            .or(death.work.task_name.as_deref())
    };
    let known = title.or_else(work).unwrap_or(&process.comm);
    let name = known.trim_start_matches("ray::");
    if name == "IDLE" {
        return IDLE.to_owned();
    }
    let what = match process.role {
        Role::Worker => return name.to_owned(),
        Role::Driver => "driver ",
        Role::Raylet => "raylet ",
        Role::Gcs => "GCS ",
        Role::Dashboard => "dashboard ",
        Role::Agent => "agent ",
        Role::Descendant => "subprocess ",
        Role::Other => "process ",
    };
    match first_word(name) {
        name if what.trim_end() == name => name,
        name => format!("{what}{name}"),
    }
}

fn first_word(name: &str) -> String {
    let word = name.split_whitespace().next().unwrap_or(name);
    if word.contains('/') {
        path::base(word).into()
    } else {
        name.chars().take(60).collect()
    }
}

/// What a clause depends on besides its cause.
struct ClauseContext {
    role: Role,
    /// Whether it ended by an exit code and not by a signal.
    exited: bool,
    /// `ended`, or `killed` where it has not ended yet.
    ended: &'static str,
}

impl ClauseContext {
    fn of(death: &Death) -> Self {
        Self {
            role: death.process.role,
            exited: death.end.exit_code.is_some(),
            ended: if death.is_pending() {
                "killed"
            } else {
                "ended"
            },
        }
    }

    fn other(role: Role, exited: bool) -> Self {
        Self {
            role,
            exited,
            ended: "ended",
        }
    }

    fn clause(&self, cause: &Cause) -> String {
        kernel::by_memory(cause)
            .or_else(|| self.by_signal(cause))
            .or_else(|| self.by_kernel(cause))
            .or_else(|| self.by_itself(cause))
            .or_else(|| self.by_ray(cause))
            .or_else(|| self.by_another(cause))
            .unwrap_or_else(|| unknown(cause))
    }
}

fn unknown(cause: &Cause) -> String {
    match cause {
        Cause::SuddenEnd => {
            "ended suddenly; these words fit a kernel OOM kill, kill -9, a crash and os._exit alike"
                .into()
        }
        Cause::NotSeen => "ended; how is not known".into(),
        _ => "ended; why is not known".into(),
    }
}

fn with_pid(pid: Option<Pid>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

fn party(party: &ProcessRef) -> String {
    format!("{} (pid {})", party.comm, party.pid)
}

fn with_user(party: &ProcessRef) -> String {
    match party.uid {
        Some(uid) => format!("{} (pid {}, uid {uid})", party.comm, party.pid),
        None => self::party(party),
    }
}
