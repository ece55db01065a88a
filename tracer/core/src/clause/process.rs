//! What signals do to a process, and how it ends by itself, in words.

use libc::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::{ClauseContext, party, with_user};
use crate::{judge::cause::Cause, signals};

impl ClauseContext {
    pub(super) fn by_signal(&self, cause: &Cause) -> Option<String> {
        let ended = self.ended;
        Some(match cause {
            Cause::Signal {
                signal,
                sender: Some(sender),
            } => format!(
                "was {ended} by {} from {}",
                signals::name(*signal),
                with_user(sender)
            ),
            Cause::Signal {
                signal,
                sender: None,
            } => {
                let hint = match *signal {
                    SIGTERM | SIGINT | SIGHUP | SIGQUIT => "; a normal stop does that too",
                    _ => "",
                };
                let name = signals::name(*signal);
                format!("was {ended} by {name}; who sent it is not known{hint}")
            }
            Cause::ParentDeath { parent, thread } => {
                let what = if *thread {
                    "a thread of its parent"
                } else {
                    "its parent"
                };
                format!(
                    "was {ended} with {what} {} by its parent-death signal",
                    party(parent)
                )
            }
            Cause::SignalOfUnknownWay {
                signal,
                code,
                running,
            } => format!(
                "was {ended} by {} (si_code {code}); how it was sent is not known, {} ran then",
                signals::name(*signal),
                party(running)
            ),
            _ => return None,
        })
    }

    pub(super) fn by_itself(&self, cause: &Cause) -> Option<String> {
        Some(match cause {
            Cause::CaughtSignalThenExit { cause, exit_code } => {
                let exited = match exit_code {
                    Some(code) => format!("exited with code {code}"),
                    None => "exited".to_owned(),
                };
                match **cause {
                    Cause::WorkerEnding { .. } => {
                        format!("{}; it caught the signal and {exited}", self.clause(cause))
                    }
                    _ => format!("{}, which it caught, and {exited}", self.clause(cause)),
                }
            }
            Cause::CaughtSignalThenReraise { cause } => {
                format!("{}; its handler re-raised it", self.clause(cause))
            }
            Cause::CaughtSignalThenAbort { cause } => format!(
                "{}, which it caught, and aborted (SIGABRT) as it ended",
                self.clause(cause)
            ),
            Cause::CaughtSignalThenRaylet { cause } => format!(
                "{}, which it caught; its raylet then ended what was left",
                self.clause(cause)
            ),
            Cause::Crash {
                signal,
                says,
                shared_memory,
            } => crashed(*signal, says.as_deref(), *shared_memory),
            Cause::Exit {
                code,
                exception,
                creating_actor,
            } => exited(*code, exception.as_deref(), *creating_actor),
            Cause::ExitThenRaylet { code } => format!(
                "exited by itself (exit code {code}, by Ray's record); its raylet then ended what was left"
            ),
            Cause::ExitOrSigterm {
                code,
                raylet_ended_rest: true,
                ..
            } => format!(
                "ended by itself or at a SIGTERM (exit code {code}, by Ray's record); its raylet then ended what was left"
            ),
            Cause::ExitOrSigterm {
                code, exception, ..
            } => {
                let exception = last_exception(exception.as_deref());
                match *code {
                    SIGTERM => {
                        format!("exited with code {code}, most likely at a SIGTERM{exception}")
                    }
                    _ => format!("exited with code {code}, by itself or at a SIGTERM{exception}"),
                }
            }
            Cause::ExitAtSigterm { code, own: true } => {
                format!("exited with code {code} at a SIGTERM that it sent itself")
            }
            Cause::ExitAtSigterm { code, own: false } => format!(
                "exited with code {code} at a SIGTERM (by its own log); who sent it is not known"
            ),
            _ => return None,
        })
    }
}

fn crashed(signal: Option<i32>, says: Option<&str>, shared_memory: bool) -> String {
    let hint = if shared_memory {
        " (a full /dev/shm does that)"
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

fn exited(code: Option<i32>, exception: Option<&str>, creating_actor: bool) -> String {
    let creating = "an exception while its actor was created";
    match (code, creating_actor) {
        (Some(0), false) => "exited with code 0".into(),
        (Some(code), false) => {
            format!(
                "exited by itself with code {code}{}",
                last_exception(exception)
            )
        }
        (Some(code), true) => format!("exited by itself with code {code}: {creating}"),
        (None, true) => format!("ended by itself: {creating}"),
        (None, false) => "exited by itself".into(),
    }
}

fn last_exception(exception: Option<&str>) -> String {
    exception.map_or_else(String::new, |exception| {
        format!("; its last exception: {exception}")
    })
}
