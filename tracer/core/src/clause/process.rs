//! Words what signals do to a process, and how it ends by itself.

use libc::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::{ClauseContext, Number, fatal, party, with_user};
use crate::{judge::cause::Cause, signals};

impl ClauseContext {
    pub(super) fn by_signal(&self, cause: &Cause) -> Option<String> {
        let Number { was, its, .. } = self.number;
        Some(match cause {
            Cause::Signal {
                signal,
                sender: Some(sender),
            } => format!(
                "{was} {} by {} from {}",
                fatal(*signal),
                signals::name(*signal),
                with_user(sender)
            ),
            Cause::Signal {
                signal,
                sender: None,
            } => {
                let hint = match *signal {
                    SIGTERM | SIGINT | SIGHUP | SIGQUIT => " (a normal stop sends it too)",
                    _ => "",
                };
                let name = signals::name(*signal);
                format!("{was} {} by {name}, sender unknown{hint}", fatal(*signal))
            }
            Cause::ParentDeath { parent, thread } => {
                let what = if *thread {
                    format!("a thread of {its} parent")
                } else {
                    format!("{its} parent")
                };
                format!(
                    "{was} killed by {its} parent-death signal when {what} {} exited",
                    party(parent)
                )
            }
            Cause::SignalOfUnknownOrigin {
                signal,
                code,
                running,
            } => format!(
                "{was} {} by {} (si_code {code}); how it was sent is unknown; {} was running",
                fatal(*signal),
                signals::name(*signal),
                party(running)
            ),
            _ => return None,
        })
    }

    pub(super) fn by_itself(&self, cause: &Cause) -> Option<String> {
        let Number { was, its, it } = self.number;
        let stopped = self.stopped;
        Some(match cause {
            Cause::CaughtSignalThenExit {
                cause,
                exit_code,
                after_s,
            } => {
                let later = later(*after_s);
                let code = exit_code.map_or_else(String::new, |code| format!(" with code {code}"));
                let clause = self.clause(cause);
                format!("{clause}; {it} caught the signal and exited{later}{code}")
            }
            Cause::CaughtSignalThenReraise { cause, after_s } => {
                let clause = self.clause(cause);
                if after_s.is_none() {
                    format!("{clause}; {its} handler re-raised it")
                } else {
                    let later = later(*after_s);
                    format!("{clause}; {it} caught the signal and sent it to itself{later}")
                }
            }
            Cause::CaughtSignalThenAbort { cause, after_s } => format!(
                "{}; {it} caught the signal and aborted (SIGABRT){}",
                self.clause(cause),
                after_s.map_or_else(|| " while exiting".to_owned(), |_| later(*after_s))
            ),
            Cause::CaughtSignalThenSignal {
                cause,
                signal,
                after_s,
            } => {
                let (clause, later, name) =
                    (self.clause(cause), later(*after_s), signals::name(*signal));
                if signals::is_fault(*signal) {
                    format!("{clause}; {it} caught the signal and crashed{later} with {name}")
                } else {
                    format!(
                        "{clause}; {it} caught the signal and ended{later} with a {name} of {its} own"
                    )
                }
            }
            Cause::CaughtSignalThenRaylet { cause } => format!(
                "{}; {it} caught the signal, and {its} raylet then stopped it",
                self.clause(cause)
            ),
            Cause::Crash {
                signal,
                says,
                shared_memory,
            } => crashed(*signal, says.as_deref(), *shared_memory),
            // A process that ended because of another death did not end on its own.
            Cause::Exit {
                code: Some(code @ 1..),
                exception,
                creating_actor: false,
            } if self.followed => format!(
                "exited with code {code}{}",
                last_exception(exception.as_deref(), self.number)
            ),
            Cause::Exit {
                code,
                exception,
                creating_actor,
            } => exited(*code, exception.as_deref(), *creating_actor, self.number),
            Cause::ExitThenRaylet { code } => format!(
                "{was} exiting on {its} own (exit code {code}, according to Ray) and {was} then {stopped} by {its} raylet"
            ),
            Cause::ExitOrSigterm {
                code,
                raylet_ended_rest: true,
                ..
            } => format!(
                "{was} exiting, on {its} own or after SIGTERM (exit code {}, according to Ray), and {was} then {stopped} by {its} raylet",
                code.map_or_else(|| "unknown".to_owned(), |code| code.to_string())
            ),
            Cause::ExitOrSigterm {
                code, exception, ..
            } => {
                let exception = last_exception(exception.as_deref(), self.number);
                match *code {
                    Some(code @ (SIGTERM | BY_SIGTERM)) => {
                        format!("exited with code {code}, most likely after SIGTERM{exception}")
                    }
                    Some(code) => {
                        format!("exited with code {code}, on {its} own or after SIGTERM{exception}")
                    }
                    None => format!(
                        "left by SystemExit without a code, on {its} own or after SIGTERM{exception}"
                    ),
                }
            }
            Cause::ExitAtSigterm { code, own: true } => {
                format!("exited with code {code} after sending itself SIGTERM")
            }
            Cause::ExitAtSigterm { code, own: false } => format!(
                "exited with code {code} after SIGTERM (according to {its} own log), sender unknown"
            ),
            _ => return None,
        })
    }
}

/// The code by which shells say that a SIGTERM ended a process.
const BY_SIGTERM: i32 = 128 + SIGTERM;

fn crashed(signal: Option<i32>, says: Option<&str>, shared_memory: bool) -> String {
    let hint = if shared_memory {
        " (one possible cause: a full /dev/shm)"
    } else {
        ""
    };
    match (signal, says) {
        (_, Some(says)) => format!("crashed: {says}{hint}"),
        (Some(SIGKILL), None) => "killed itself with SIGKILL".into(),
        (Some(signal), None) => format!("crashed with {}{hint}", signals::name(signal)),
        (None, None) => "crashed".into(),
    }
}

fn exited(
    code: Option<i32>,
    exception: Option<&str>,
    creating_actor: bool,
    number: Number,
) -> String {
    let Number { its, .. } = number;
    let creating = format!("an exception while {its} actor was created");
    match (code, creating_actor) {
        (Some(0), false) => "exited with code 0".into(),
        (Some(code), false) => {
            format!(
                "exited on {its} own with code {code}{}",
                last_exception(exception, number)
            )
        }
        (Some(code), true) => format!("exited on {its} own with code {code}: {creating}"),
        (None, true) => format!("exited on {its} own: {creating}"),
        (None, false) => format!("exited on {its} own"),
    }
}

fn last_exception(exception: Option<&str>, number: Number) -> String {
    let Number { its, .. } = number;
    exception.map_or_else(String::new, |exception| {
        format!("; {its} last exception: {exception}")
    })
}

/// Returns ` 18 s later`, or nothing for less than a second.
fn later(after_s: Option<u64>) -> String {
    let Some(seconds) = after_s else {
        return String::new();
    };
    let span = match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    };
    format!(" {span} later")
}
