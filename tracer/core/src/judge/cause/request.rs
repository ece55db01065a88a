//! Names what people and programs ask Ray for: its commands, and requests in Ray's own words.

use serde::{Serialize, Serializer};

/// A command of Ray that ends processes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// `ray stop`, or another subcommand of `ray`.
    Ray(String),
    /// `ray job stop`: the job's supervisor.
    RayJobStop,
    /// `ray.shutdown()` in a driver that had started its own Ray.
    RayShutdown,
    /// `ray start --block`, while it was ending.
    RayStartBlock,
}

impl Command {
    /// Returns the command as it is typed.
    pub fn typed(&self) -> String {
        match self {
            Self::Ray(verb) => format!("ray {verb}"),
            Self::RayJobStop => "ray job stop".into(),
            Self::RayShutdown => "ray.shutdown()".into(),
            Self::RayStartBlock => "ray start --block".into(),
        }
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.typed())
    }
}

/// What a program may ask Ray for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// `ray.kill`.
    Kill,
    /// All references to the actor were gone.
    OutOfScope,
    /// One of the two above.
    KillOrOutOfScope,
    /// `ray.cancel`.
    Cancel,
    /// `ray.actor.exit_actor()`.
    ExitActor,
    /// Anything else, in Ray's words.
    Other,
}

/// Ray's words for what a program asked for (`gcs_actor_manager.cc`, `core_worker.cc`, `worker.py`;
/// 2.1 to 2.60).
const REQUESTS: [(&str, Request); 6] = [
    ("killed by `ray.kill`", Request::Kill),
    ("killed by ray.kill", Request::Kill),
    (
        "all references to the actor were removed",
        Request::OutOfScope,
    ),
    ("out of scope", Request::OutOfScope),
    ("it was terminated by `ray.cancel`", Request::Cancel),
    ("exit_actor()", Request::ExitActor),
];

impl Request {
    /// Returns the request that Ray's words name.
    pub fn of(words: &str) -> Option<Self> {
        let found = REQUESTS.iter().find(|(known, _)| words.contains(known));
        found.map(|(_, request)| *request)
    }
}
