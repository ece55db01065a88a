//! Converts observations to rows and back.
//!
//! The types of events say by serde's attributes what files have: `rename` and `alias` for a new
//! name, `default` for what older files lack.

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::event::{Observation, Source};

/// Returns the body of a row: an object with its `kind`.
pub(crate) fn body(what: &Observation) -> Value {
    serde_json::to_value(what).unwrap_or_default()
}

/// Returns the observation of a body; `None` if this version cannot read it.
pub(crate) fn read(body: &str) -> Option<Observation> {
    serde_json::from_str(body).ok()
}

/// Returns the observation of a body of a known kind, as [`read`] does. The kinds that are most
/// frequent in a long recording are parsed directly. Otherwise serde has to buffer the whole body
/// until it finds the kind in it.
pub(crate) fn read_as(kind: &str, body: &str) -> Option<Observation> {
    use Observation as What;
    fn of<T: DeserializeOwned>(body: &str) -> Option<T> {
        serde_json::from_str(body).ok()
    }
    // Rows are written like this. For other bodies, serde finds the kind.
    if !body.contains(&format!("\"kind\":\"{kind}\"")) {
        return read(body);
    }
    match kind {
        "call" => of(body).map(What::Call),
        "exec" => of(body).map(What::Exec),
        "exit" => of(body).map(What::Exit),
        "ledger" => of(body).map(What::Ledger),
        "process" => of(body).map(What::Process),
        "signal" => of(body).map(What::Signal),
        "stack" => of(body).map(What::Stack),
        "worker" => of(body).map(What::Worker),
        _ => read(body),
    }
}

/// Returns the name of a source.
pub(crate) fn source_name(source: Source) -> String {
    match serde_json::to_value(source) {
        Ok(Value::String(name)) => name,
        _ => "recorder".to_owned(),
    }
}

/// Returns the source of this name; the recorder for a name that this version does not know.
pub(crate) fn source(name: &str) -> Source {
    let found = serde_json::from_value(Value::String(name.to_owned()));
    found.unwrap_or(Source::Recorder)
}

/// How much an event matters when a queue is full, the least first. `Urgent` must be on disk at
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    Sample,
    LogRecord,
    Lifecycle,
    Death,
    Urgent,
}

impl Priority {
    pub(super) fn of(what: &Observation) -> Self {
        use Observation as What;
        match what {
            // A call that is recorded while it runs, because a process may die in it.
            What::Call(call) if call.ended.is_none() => Self::Lifecycle,
            What::Memory(_)
            | What::Node(_)
            | What::Monitor(_)
            | What::Cgroup(_)
            | What::Mapped(_)
            | What::Stack(_)
            | What::Freed { .. }
            | What::Call(_)
            | What::Gpu(_)
            | What::SharedFile(_) => Self::Sample,
            What::RayLog(_) => Self::LogRecord,
            What::Fork { .. } | What::Exec(_) | What::Title { .. } => Self::Lifecycle,
            // A normal exit can wait for its batch.
            What::Exit(exit) if exit.status == Some(0) => Self::Lifecycle,
            // A file without its first event cannot be read.
            What::Exit(_) | What::OomVictim(_) | What::RecordingStarted(_) => Self::Urgent,
            // The first of these frame a recording, which cannot be judged without them; the others
            // say what ended a process, which is the purpose of the file.
            What::RecordingEnded
            | What::Clock { .. }
            | What::Probe(_)
            | What::Ledger(_)
            | What::Cluster(_)
            | What::Process(_)
            | What::Worker(_)
            | What::Signal(_)
            | What::Delivered { .. }
            | What::Interference(_)
            | What::Kmsg(_)
            | What::DriverSettings { .. }
            | What::SharedMemory(_)
            | What::Steps { .. }
            | What::Outside(_)
            | What::LimitWarning(_)
            | What::NoStack { .. } => Self::Death,
        }
    }
}
