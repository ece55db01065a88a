//! Shapes the JSON where it differs from the program's types.
//!
//! The parts of a death stand side by side, and each cause has its sentence beside it.

use serde::{Serialize, Serializer};

use crate::{
    clause,
    ids::EventId,
    judge::{
        cause::Cause,
        missing::Missing,
        report::{
            Activity, CauseLink, Certainty, Death, End, Evidence, GroupKill, Killer, LinkReason,
            Memory, NoRecording, OutcomeReason, Process, Recovery, Remote, SenderReport, When,
            Work,
        },
    },
};

/// A death in the JSON. The order of the fields is the order in the JSON.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct DeathJson<'a> {
    id: EventId,
    recording_id: Option<u32>,
    cluster: Option<u32>,
    #[serde(flatten)]
    when: &'a When,
    #[serde(flatten)]
    process: &'a Process,
    #[serde(flatten)]
    work: &'a Work,
    #[serde(flatten)]
    end: &'a End,
    verdict: VerdictJson<'a>,
    sender: &'a Option<SenderReport>,
    #[serde(flatten)]
    memory: &'a Memory,
    #[serde(flatten)]
    activity: &'a Activity,
    listed: bool,
    node: &'a Option<String>,
    then: &'a Option<Recovery>,
}

/// A verdict in the JSON.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct VerdictJson<'a> {
    killer: Killer,
    certainty: Certainty,
    reason_certainty: Certainty,
    memory_kill: bool,
    cause: &'a Cause,
    summary: String,
    settled: bool,
    evidence: &'a [Evidence],
    cause_death_id: Option<EventId>,
    act: Option<GroupKill>,
    cause_remote: &'a Option<Remote>,
    cause_link: &'a Option<Box<CauseLink>>,
    missing: &'a Option<Missing>,
    only_own_log: bool,
}

impl<'a> VerdictJson<'a> {
    fn of(death: &'a Death) -> Self {
        let verdict = &death.verdict;
        Self {
            killer: verdict.killer,
            certainty: verdict.certainty,
            reason_certainty: verdict.reason_certainty,
            memory_kill: death.is_memory_kill(),
            cause: &verdict.cause,
            summary: clause::summary(death),
            settled: verdict.settled,
            evidence: &verdict.evidence,
            cause_death_id: verdict.cause_death_id,
            act: verdict.act,
            cause_remote: &verdict.cause_remote,
            cause_link: &verdict.cause_link,
            missing: &verdict.missing,
            only_own_log: verdict.only_own_log,
        }
    }
}

impl Serialize for Death {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DeathJson {
            id: self.id,
            recording_id: self.recording_id,
            cluster: self.cluster,
            when: &self.when,
            process: &self.process,
            work: &self.work,
            end: &self.end,
            verdict: VerdictJson::of(self),
            sender: &self.sender,
            memory: &self.memory,
            activity: &self.activity,
            listed: self.listed,
            node: &self.node,
            then: &self.then,
        }
        .serialize(serializer)
    }
}

/// Prints types as sentences.
macro_rules! sentences {
    ($($type:ident: $sentence:expr;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$sentence(self))
            }
        }
    )*};
}

sentences! {
    OutcomeReason: clause::because;
    Recovery: clause::recovery;
    Missing: clause::missing;
    Remote: clause::remote;
    LinkReason: clause::link_reason;
}

impl Serialize for NoRecording {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .serialize_str("what died there, and whether it caused deaths elsewhere, is not known")
    }
}
