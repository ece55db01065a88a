//! A log line without its wrappers, as the recognisers see it.

use crate::{
    event::Role,
    ids::{HexId, Pid},
    judge::{
        from_text::claim::{Claim, PidNamespace, Place, Stamp, Statement, Subject, TextMention},
        report::Mention,
    },
};

/// A log line without its wrappers.
#[derive(Debug, Default, Clone)]
pub(super) struct LogLine {
    /// The message without Ray's own prefix, `[time level pid tid] (component) file.cc:1:`.
    pub(super) text: String,
    /// The message with that prefix, if it has one.
    pub(super) record: Option<String>,
    /// Where it stands.
    pub(super) place: Place,
    /// When it was written.
    pub(super) stamp: Stamp,
    /// The process that printed it: `(WorkerDict pid=12, ip=…)`.
    pub(super) speaker: Option<Speaker>,
    /// The level of a record of Ray: `E`, or `C` for one that ends its process.
    pub(super) level: Option<char>,
    /// The component and pid of Ray's own prefix.
    pub(super) component: Option<(String, Pid)>,
    /// The program of a journal line and its pid: `kernel`, `earlyoom`.
    pub(super) program: Option<(String, Option<Pid>)>,
    /// The host that a journal line names.
    pub(super) host: Option<String>,
    /// The keywords in the message.
    pub(super) keywords: FoundKeywords,
    /// How many more lines it stands for, from `repeated 3x across cluster`.
    pub(super) repeated: u64,
}

impl LogLine {
    /// Returns what the line says of a process or node that may be elsewhere. `by` is the worker
    /// that writes it.
    pub(super) fn mentions(&self, by: Option<HexId>, what: Mention) -> TextMention {
        TextMention {
            place: self.place,
            stamp: self.stamp,
            by,
            what,
        }
    }

    /// Returns what the line claims of a process. A raylet speaks of its own node.
    pub(super) fn states(&self, subject: Subject, claim: Claim) -> Statement {
        let of_ray = subject.pid_namespace == PidNamespace::Ray;
        let raylet = self
            .speaker
            .as_ref()
            .filter(|one| of_ray && one.name == "raylet");
        let ip = subject.ip.or_else(|| raylet?.ip.clone());
        let subject = Subject { ip, ..subject };
        let host = self.host.clone().filter(|_| self.is_of_own_host(&subject));
        let subject = Subject { host, ..subject };
        Statement {
            place: self.place,
            stamp: self.stamp,
            quote: super::cut(&self.text),
            subject,
            claim,
        }
    }

    /// Returns whether what the line speaks of is on the host that it names. Ray, and programs that
    /// run clusters, speak of other hosts too.
    fn is_of_own_host(&self, subject: &Subject) -> bool {
        let of_unit = |of: &String| of.starts_with("unit ");
        let of_ray = subject.worker_id.is_some()
            || subject.actor_id.is_some()
            || subject.node_id.is_some()
            || subject.ip.is_some();
        !of_ray
            && self.speaker.is_none()
            && self.component.is_none()
            && matches!(subject.role, None | Some(Role::Descendant))
            && subject.of.as_ref().is_none_or(of_unit)
    }

    /// Returns whether a worker printed the line: into the text of `own`, or as Ray's driver shows
    /// it. A worker can print anything, also what another program would say.
    pub(super) fn is_of_worker(&self, own: &Subject) -> bool {
        let parts = ["raylet", "gcs_server", "autoscaler"];
        let speaker = self.speaker.as_ref();
        let by_driver = speaker.is_some_and(|speaker| {
            speaker.pid.is_some() && !parts.contains(&speaker.name.as_str())
        });
        own.worker_id.is_some() || by_driver
    }
}

/// The process that printed a line, as Ray's driver shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Speaker {
    /// Its name: `WorkerDict`, `raylet`.
    pub(super) name: String,
    /// Its pid.
    pub(super) pid: Option<Pid>,
    /// The address of its node.
    pub(super) ip: Option<String>,
}

/// The recognisers that have keywords in a line, as a bit set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Groups(pub(super) u16);

impl Groups {
    pub(super) const MONITOR: Self = Self(1);
    pub(super) const ACTOR: Self = Self(2);
    pub(super) const COMPONENT: Self = Self(4);
    pub(super) const MARKERS: Self = Self(8);
    pub(super) const KERNEL: Self = Self(16);
    pub(super) const CATALOGUE: Self = Self(32);
    pub(super) const WARNING: Self = Self(64);
    pub(super) const RAY_REMARKS: Self = Self(128);
    pub(super) const CONFIGURATIONS: Self = Self(256);
    pub(super) const HEADINGS: Self = Self(512);
    #[cfg(test)]
    pub(super) const ALL: Self = Self(1023);
    /// Recognisers with sentences that may be broken over several lines.
    pub(super) const SENTENCES: Self = Self(1 | 2 | 16 | 32);

    /// Returns whether the set contains any of `others`.
    pub(super) fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// The keywords that were found in a line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundKeywords {
    /// The recognisers that they belong to.
    pub(super) groups: Groups,
    /// The first keyword of a warning, by its number in `warnings::keywords`.
    pub(super) warning: Option<usize>,
    /// The first keyword of an after-effect, by its number there too.
    pub(super) after_effect: Option<usize>,
}
