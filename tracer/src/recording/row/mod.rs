//! Converts observations to rows and back, by stored types that name each field as files do.
//!
//! Each type here mirrors a live type (serde's `remote`). Whoever renames, adds or removes a field
//! of a live type gets a compile error here, and decides what files have: `#[serde(rename = "…")]`
//! for a new name, `#[serde(default)]` for what older files lack.

mod death;
mod fact;
mod gcs;
mod log;
mod memory;
mod observation;
mod process;
mod recorder;
#[cfg(test)]
mod tests;

pub(super) use observation::Priority;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{event, ids};

/// A live type that a row can hold.
trait Stored: Sized {
    fn store<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    fn restore<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Implements `Stored` for live types by their mirrors.
macro_rules! stored_as {
    ($($row:ident => $live:path,)*) => {
        $(
            impl Stored for $live {
                fn store<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    $row::serialize(self, serializer)
                }

                fn restore<'de, D: serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Self, D::Error> {
                    $row::deserialize(deserializer)
                }
            }
        )*
    };
}
use stored_as;

/// The functions that serde calls for `with = "stored"`.
mod stored {
    use serde::{Deserializer, Serializer};

    use super::Stored;

    pub(super) fn serialize<T: Stored, S: Serializer>(
        live: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        live.store(serializer)
    }

    pub(super) fn deserialize<'de, T: Stored, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        T::restore(deserializer)
    }
}

/// Wraps a live value where serde needs a type that is serializable itself.
struct As<T>(T);

impl<T: Stored> Serialize for As<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.store(serializer)
    }
}

impl<'de, T: Stored> Deserialize<'de> for As<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::restore(deserializer).map(Self)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn store<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(As).serialize(serializer)
    }

    fn restore<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Option::<As<T>>::deserialize(deserializer)?;
        Ok(found.map(|As(live)| live))
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn store<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(As))
    }

    fn restore<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Vec::<As<T>>::deserialize(deserializer)?;
        Ok(found.into_iter().map(|As(live)| live).collect())
    }
}

/// A process, as every row names it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ids::ProcessKey")]
struct ProcessKey {
    pid: ids::Pid,
    start: ids::BootTime,
}

stored_as! {
    ProcessKey => ids::ProcessKey,
}

/// Returns the body of a row: an object with its `kind`.
pub(crate) fn body(what: &event::Observation) -> Value {
    serde_json::to_value(As(what)).unwrap_or_default()
}

/// Returns the observation of a body; `None` if this version cannot read it.
pub(crate) fn read(body: &str) -> Option<event::Observation> {
    let As(what) = serde_json::from_str(body).ok()?;
    Some(what)
}

/// Returns the observation of a body of a known kind, as [`read`] does. The kinds that are most
/// frequent in a long recording are parsed directly. Otherwise serde has to buffer the whole body
/// until it finds the kind in it.
pub(crate) fn read_as(kind: &str, body: &str) -> Option<event::Observation> {
    use event::Observation as What;
    fn of<T: Stored>(body: &str) -> Option<T> {
        let As(what) = serde_json::from_str(body).ok()?;
        Some(what)
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
pub(crate) fn source_name(source: event::Source) -> String {
    match serde_json::to_value(As(&source)) {
        Ok(Value::String(name)) => name,
        _ => "recorder".to_owned(),
    }
}

/// Returns the source of this name; the recorder for a name that this version does not know.
pub(crate) fn source(name: &str) -> event::Source {
    let found = serde_json::from_value(Value::String(name.to_owned()));
    found.map_or(event::Source::Recorder, |As(source)| source)
}
