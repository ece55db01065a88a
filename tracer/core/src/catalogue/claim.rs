//! What a row says, of whom, and where it is believed.

use serde::Deserialize;

/// What kind of line a row reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A death.
    Death,
    /// Why a process died that another line names.
    Reason,
    /// What follows from another death.
    AfterEffect,
    /// An end that somebody wanted.
    Wanted,
    /// Something else that must not be taken for a death.
    Remark,
}

/// Whom a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whom {
    /// The process that writes the line.
    Writer,
    /// A process that the writer started.
    Child,
    /// A worker or driver of Ray.
    Worker,
    /// A part of Ray, which the hole `part` names; else the raylet.
    Part,
    /// A process of the host, with the pid that the host gives it.
    Host,
    /// A process that the line does not name.
    Nobody,
}

/// Where a row is believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Wherever it stands.
    #[default]
    Anywhere,
    /// In a record of Ray's own processes, which begins with a time, a level and a pid.
    Record,
    /// In a record of level C, which ends its process.
    FatalRecord,
    /// In a line without such a prefix.
    Plain,
}

/// What a row claims.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Says {
    /// Nothing.
    Nothing,
    /// A signal ended it: this one, or that in the hole `signal` or `fault`.
    Signalled {
        /// Its number.
        #[serde(default)]
        signal: Option<i32>,
    },
    /// It ended with the status in the hole `code`, as Python has it: negative for a signal.
    Status,
    /// It exited.
    Exited {
        /// Its code.
        #[serde(default)]
        code: Option<i32>,
    },
    /// A fault of its own, in these words.
    Crashed {
        /// The words.
        says: String,
        /// The signal, if it is not in the words.
        #[serde(default)]
        signal: Option<i32>,
    },
    /// What ended it, unless something better is known: it is no death by itself.
    WouldCrash {
        /// The words.
        says: String,
    },
    /// A program of the system ended it.
    KilledBy {
        /// That program.
        by: String,
        /// Its reason.
        why: String,
        /// Whether it did so for memory.
        #[serde(default)]
        memory: bool,
        /// The signal that it sends, if the hole `signal` does not say it.
        #[serde(default)]
        signal: Option<i32>,
        /// Whether it ends whole units of systemd.
        #[serde(default)]
        of_unit: bool,
        /// Whether it does so too after one of the processes has ended by itself.
        #[serde(default)]
        after_part: bool,
    },
    /// The kernel's OOM killer ended it, as a program reports.
    KernelOom {
        /// That program.
        by: String,
        /// Whether the whole machine was out of memory.
        #[serde(default)]
        global: bool,
    },
    /// What this program claimed last was not done.
    TakenBack {
        /// That program.
        by: String,
    },
    /// More words on what the lines above claim.
    Adds {
        /// The words.
        says: String,
    },
    /// An error that stands shortly before a sudden end, in these words.
    Before {
        /// The words.
        says: String,
    },
    /// A frame of its stack: the function in the hole `frame`.
    Frame,
    /// Somebody pressed Ctrl+C.
    Interrupted,
    /// It ended.
    Died,
    /// It ended, which may be normal.
    Gone,
    /// Its connection broke.
    Lost,
    /// It exited with the type and the detail in the holes `type` and `detail`, in Ray's words.
    RayExit,
    /// Somebody wanted it to end.
    Wanted,
    /// It could not reach the GCS.
    GcsLost,
    /// Ray counts its node as dead.
    NodeDead {
        /// Ray's words.
        says: String,
    },
}
