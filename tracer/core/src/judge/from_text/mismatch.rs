//! Says why a kill in a kernel log and a death in Ray's words are not joined.

use super::claim::Place;
use crate::ids::Pid;

/// Whether the two kinds of logs use the same pid namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    Same,
    Different,
    Unknown,
}

/// Whether the times of two logs can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Common,
    /// No line about one of the deaths has a time.
    Missing,
    /// The clocks differ, and how is not known.
    OfTwoClocks,
}

impl Times {
    fn words(self) -> &'static str {
        match self {
            Self::Common => "",
            Self::Missing => ", and one of the logs does not say when",
            Self::OfTwoClocks => ", and the logs have no common time",
        }
    }
}

/// Why a kill by the host is not taken for a death in Ray's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mismatch {
    Name,
    Host,
    Time,
    Pid,
    /// Ray's line names no pid.
    NoPid,
    /// Ray says who ended the process.
    KillerKnown,
    /// Nothing contradicts, but too little agrees.
    TooLittle {
        same_pid: bool,
        namespace: Namespace,
        times: Times,
    },
}

impl Mismatch {
    pub(super) fn words(self) -> String {
        match self {
            Self::Name => "the names differ".into(),
            Self::Host => "the hosts differ".into(),
            Self::Time => "the times differ".into(),
            Self::Pid => "the pids differ".into(),
            Self::NoPid => "Ray's line names no pid".into(),
            Self::KillerKnown => "Ray says who ended it".into(),
            Self::TooLittle {
                same_pid,
                namespace,
                times,
            } => {
                let pids = match (namespace, same_pid) {
                    (Namespace::Different, _) => {
                        "the kernel's pids are the host's, Ray's those of a container"
                    }
                    (_, true) => "the pids are equal, but Ray's may be a container's",
                    (_, false) => "the pids differ, but Ray's may be a container's",
                };
                format!("{pids}{}", times.words())
            }
        }
    }
}

/// A kill that may be the death, and is listed separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Where the kernel reports it.
    pub(super) place: Place,
    pub(super) times: Times,
    /// The pid in both logs, if it is the same, and the logs may be of two pid namespaces.
    pub(super) same_pid: Option<Pid>,
}

impl Candidate {
    /// Returns the candidate, if nothing rules it out.
    pub(super) fn of(place: Place, pid: Option<Pid>, why: Mismatch) -> Option<Self> {
        let (times, same_pid) = match why {
            Mismatch::TooLittle {
                same_pid,
                namespace,
                times,
            } => (times, same_pid && namespace == Namespace::Unknown),
            Mismatch::NoPid => (Times::Missing, false),
            Mismatch::Name
            | Mismatch::Host
            | Mismatch::Time
            | Mismatch::Pid
            | Mismatch::KillerKnown => return None,
        };
        Some(Self {
            place,
            times,
            same_pid: pid.filter(|_| same_pid),
        })
    }

    /// Returns the note on two deaths with one pid. The arguments are the places of both.
    pub(super) fn note(&self, kernel: &str, ray: &str) -> Option<String> {
        let pid = self.same_pid?;
        Some(format!(
            "the kernel's kill of pid {pid} ({kernel}) and the end of pid {pid} ({ray}) may be one death, counted twice here: the pids are equal, but Ray's may be a container's{times}",
            times = self.times.words()
        ))
    }
}
