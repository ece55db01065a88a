//! Writes a cause as a sentence. No other module words causes.
//!
//! A clause follows the name of a process: `was killed by Ray's memory monitor: …`. No code parses
//! these words again. Code that needs to know why a process ended looks at its [`Cause`].

mod kernel;
mod link;
mod missing;
mod process;
mod ray;
mod slurm;

pub use link::{link_reason, remote};
pub use missing::missing;
pub use slurm::reason as slurm_reason;

use crate::{
    event::Role,
    ids::Pid,
    judge::{
        cause::{Cause, ProcessRef},
        report::{Basis, Death, OutcomeReason, Recovery},
    },
    path,
    size::size,
};

/// The name of a worker without a task. Ray gives it the title `ray::IDLE`.
pub const IDLE: &str = "idle worker";

/// Returns the clause for a death.
pub fn of(death: &Death) -> String {
    ClauseContext::of(death).of_death(death)
}

/// Returns the clause for several deaths that end in the same way as this one.
pub fn of_many(death: &Death) -> String {
    let context = ClauseContext {
        number: MANY,
        ..ClauseContext::of(death)
    };
    context.of_death(death)
}

/// Returns the sentence for a death: `hog (pid 7, 2.0 GiB) was killed by …`.
pub fn summary(death: &Death) -> String {
    let mut details: Vec<String> = Vec::new();
    details.extend((death.process.pid.0 != 0).then(|| format!("pid {}", death.process.pid)));
    details.extend(death.memory.own_private().map(size));
    let details = if details.is_empty() {
        String::new()
    } else {
        format!(" ({})", details.join(", "))
    };
    format!("{}{details} {}", name(death), of(death))
}

/// Returns why a job ended as it did.
pub fn because(because: &OutcomeReason) -> String {
    match because {
        OutcomeReason::Running => "its driver was running when the recording ended".into(),
        OutcomeReason::Succeeded => "its driver exited with code 0".into(),
        OutcomeReason::Interrupted => "its driver was interrupted from its terminal".into(),
        OutcomeReason::Driver { cause, exited } => {
            format!(
                "its driver {}",
                ClauseContext::other(Role::Driver, *exited).clause(cause)
            )
        }
        OutcomeReason::Raylet { cause, exited } => {
            format!(
                "its raylet {}",
                ClauseContext::other(Role::Raylet, *exited).clause(cause)
            )
        }
        OutcomeReason::AfterDeath { code, basis } => match basis {
            Basis::Exception => {
                format!("its driver exited with code {code}, and its exception names this process")
            }
            Basis::ChildException => format!(
                "its driver exited with code {code}, and an exception of the job says that a process it had started is gone"
            ),
            Basis::LostCall => format!(
                "Ray did not retry the call that failed, and the job's driver exited with code {code}"
            ),
            Basis::Order => {
                format!(
                    "its driver exited with code {code} after this death; no log says which death it failed on"
                )
            }
        },
        OutcomeReason::OnAnotherNode { code, link, node } => {
            let ended = code.map_or_else(
                || "its driver ended".to_owned(),
                |code| format!("its driver exited with code {code}"),
            );
            format!("{ended}; {} on {node}", link_reason(link))
        }
        OutcomeReason::NoDeathSeen { code } => {
            format!("its driver exited with code {code}; no earlier death of a worker explains it")
        }
    }
}

/// Returns what Ray did after a death: `task retried, 2 retries left`.
pub fn recovery(recovery: &Recovery) -> String {
    match recovery {
        Recovery::TaskRetried { left: Some(1) } => "task retried, 1 retry left".to_owned(),
        Recovery::TaskRetried { left: Some(left) } => format!("task retried, {left} retries left"),
        Recovery::TaskRetried { left: None } => "task retried".to_owned(),
        Recovery::ActorRestarted { actor_id } => format!("actor {} restarted", actor_id.short()),
        Recovery::WentOn => "the job went on".to_owned(),
    }
}

/// Returns the name of a process in a summary: its title. For a process that is not a worker, it is
/// only the program, since arguments are long and may hold secrets.
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
    // A text may name no process, only what it belongs to.
    if process.pid.0 == 0 && name.starts_with("a process") {
        return name.to_owned();
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

/// The words that differ between one process and several.
#[derive(Clone, Copy)]
struct Number {
    was: &'static str,
    its: &'static str,
    it: &'static str,
}

const ONE: Number = Number {
    was: "was",
    its: "its",
    it: "it",
};
const MANY: Number = Number {
    was: "were",
    its: "their",
    it: "they",
};

/// What a clause depends on, besides its cause.
struct ClauseContext {
    number: Number,
    role: Role,
    /// Whether the process ended by itself, not by a signal.
    exited: bool,
    /// Whether another death is its cause.
    followed: bool,
    /// What Ray did to the process: `stopped`, or `killed` where it has not ended yet.
    stopped: &'static str,
}

impl ClauseContext {
    fn of(death: &Death) -> Self {
        Self {
            number: ONE,
            role: death.process.role,
            exited: death.end.signal.is_none() && !death.is_pending(),
            followed: death.verdict.cause().is_some(),
            stopped: if death.is_pending() {
                "killed"
            } else {
                "stopped"
            },
        }
    }

    fn other(role: Role, exited: bool) -> Self {
        Self {
            number: ONE,
            role,
            exited,
            followed: false,
            stopped: "stopped",
        }
    }

    fn of_death(&self, death: &Death) -> String {
        let mut clause = self.clause(&death.verdict.cause);
        if death.verdict.only_own_log {
            let its = self.number.its;
            clause.push_str(&format!(
                ", by {its} own log alone, which {its} user can write"
            ));
        }
        clause
    }

    fn clause(&self, cause: &Cause) -> String {
        kernel::by_memory(cause, self.number)
            .or_else(|| self.by_slurm(cause))
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
        Cause::SuddenEnd => "ended suddenly (the logs do not show why)".into(),
        Cause::EndAfterError { says } => format!("ended suddenly, right after this error: {says}"),
        Cause::NotSeen => "ended; how is unknown".into(),
        _ => "ended; the cause is unknown".into(),
    }
}

/// Returns the verb for a signal: SIGKILL kills, and a process may catch the others.
fn fatal(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => "killed",
        _ => "terminated",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Bytes,
        judge::cause::{KernelOom, Scope},
    };

    #[test]
    fn plural_clauses_agree_and_name_the_limit() {
        let many = ClauseContext {
            number: MANY,
            ..ClauseContext::other(Role::Worker, false)
        };
        let oom = Cause::KernelOom(KernelOom {
            scope: Some(Scope::Memcg),
            cgroup: Some("/job".into()),
            limit_bytes: Some(Bytes(2 << 30)),
            ..KernelOom::default()
        });
        assert_eq!(
            many.clause(&oom),
            "were killed by the kernel: cgroup /job hit its limit of 2.0 GiB"
        );
        let cause = Box::new(Cause::ParentDeath {
            parent: ProcessRef {
                pid: Pid(7),
                comm: "bash".into(),
                uid: None,
            },
            thread: false,
        });
        let caught = Cause::CaughtSignalThenExit {
            cause,
            exit_code: Some(1),
            after_s: None,
        };
        assert_eq!(
            many.clause(&caught),
            "were killed by their parent-death signal when their parent bash (pid 7) exited; they caught the signal and exited with code 1"
        );
        assert_eq!(
            many.clause(&Cause::ExitThenRaylet { code: 7 }),
            "were exiting on their own (exit code 7, according to Ray) and were then stopped by their raylet"
        );
    }
}
