//! Two reports side by side: what was set otherwise, what memory and deaths were otherwise, and which of the first fits the
//! second. Pure; a fit is an inference from direction or proportion and says which.

mod deaths;
mod fits;
mod machines;
mod nodes;
mod owners;
mod rates;
mod savings;
mod settings;
mod sides;
mod stand_out;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::{
    event::Mode,
    ids::{Bytes, HexId},
    judge::report::{Certainty, Killer, Outcome, Peak, Report, Utc},
};

/// Two recordings compared; its JSON form is public: fields may be added, never renamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// Version of this contract.
    pub schema: u32,
    /// raytrace's version.
    pub raytrace: String,
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// Settings that differ, by key.
    pub settings: Vec<SettingChange>,
    /// How many settings are the same in both.
    pub same_settings: usize,
    /// Classes and tasks on all nodes together, the largest change first.
    pub owners: Vec<OwnerChange>,
    /// The nodes, where one of the two is of several.
    pub nodes: Option<NodeDiff>,
    /// Listed deaths, by killer and class.
    pub deaths: Vec<DeathChange>,
    /// Settings whose change fits the change in memory or deaths, the strongest first.
    pub explains: Vec<Fit>,
    /// Settings that changed and may act too; their effect cannot be told from that of the others.
    pub may_explain: Vec<Fit>,
    /// Settings that changed and cannot be the reason, each with why.
    pub cannot_explain: Vec<Fit>,
    /// What the first recording's findings expected to save, and what was seen in the second.
    pub savings: Vec<SavingSeen>,
}

/// What a remedy that the second run has was expected to save, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavingSeen {
    /// The finding's number in the report of the first, from 1.
    pub finding: u32,
    /// The finding's rule.
    pub rule: String,
    /// The class whose processes were to hold less.
    pub class: String,
    /// What was expected.
    pub expected_bytes: Bytes,
    /// How much lower the peak of that class was, all its processes together; negative where it was higher. `None` where the second did
    /// less of the work.
    pub seen_bytes: Option<i64>,
    /// Calls of that class in the first.
    pub a_calls: u64,
    /// In the second.
    pub b_calls: u64,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Its file.
    pub file: String,
    /// How many machines were recorded.
    pub nodes: u32,
    /// The machine's name; `None` where there are several.
    pub host: Option<String>,
    /// Its memory; `None` where several machines have different ones.
    pub memory_bytes: Option<Bytes>,
    /// How it was observed; `None` where several were not in the same way.
    pub mode: Option<Mode>,
    /// When the first recording began.
    pub started: Option<Utc>,
    /// How long it lasted, to the end of the last.
    pub seconds: Option<u64>,
    /// Highest use of the machine's memory; of several machines the one nearest to full.
    pub peak: Option<Peak>,
    /// How each job ended.
    pub jobs: Vec<JobEnd>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobEnd {
    /// Its id.
    pub job_id: HexId,
    /// How.
    pub outcome: Outcome,
    /// Who killed the process whose death ended it.
    pub killer: Option<Killer>,
    /// The class of that process.
    pub class: Option<String>,
    /// The limit at which it was killed: Ray's threshold, or a cgroup's.
    pub limit_bytes: Option<Bytes>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingChange {
    /// Its key.
    pub key: String,
    /// In the first; `None` where it is not set.
    pub a: Option<Value>,
    /// In the second.
    pub b: Option<Value>,
}

/// A setting's value in one recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Value {
    /// As it stands there.
    pub value: String,
    /// The source.
    pub source: String,
    /// Whether it is in force.
    pub effective: bool,
}

/// Two runs node by node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeDiff {
    /// Host names that both have; nodes are matched by these.
    pub both: Vec<String>,
    /// Those of the first alone.
    pub only_a: Vec<String>,
    /// Those of the second alone.
    pub only_b: Vec<String>,
    /// Names that several machines have at one time: these are not compared.
    pub ambiguous: Vec<String>,
    /// Classes that grew faster on a node than on its peers.
    pub stand_out: Vec<StandOut>,
    /// How fast each class grew on each node, where it did.
    pub growth: Vec<NodeGrowth>,
}

/// How fast a class grew on one node, in the process where that was most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeGrowth {
    /// The host.
    pub node: String,
    /// The class, task or program.
    pub class: String,
    /// By whose calls; `None` where the figures are of an hour.
    pub task: Option<String>,
    /// What each call or hour kept in the first; `None` where too few were seen.
    pub a: Option<Bytes>,
    /// In the second.
    pub b: Option<Bytes>,
}

/// A node on which a class grew faster than on its peers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StandOut {
    /// The host.
    pub node: String,
    /// The class, task or program.
    pub class: String,
    /// By whose calls; `None` where the figures are of an hour.
    pub task: Option<String>,
    /// With what it was compared.
    pub compared: Compared,
    /// How many times as fast as that; `None` where that did not grow.
    pub factor: Option<f64>,
    /// What each call or hour kept in the first; `None` where too few were seen.
    pub a: Option<Bytes>,
    /// In the second.
    pub b: Option<Bytes>,
    /// How many other nodes it was compared with.
    pub others: u32,
    /// Their median in the first.
    pub others_a: Option<Bytes>,
    /// Their median in the second.
    pub others_b: Option<Bytes>,
    /// The sentence.
    pub why: String,
}

/// With what a node's growth was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// With the same node in the first run, and that change with the change of the others.
    OtherRun,
    /// With the other nodes of the first run.
    NodesOfA,
    /// With the other nodes of the second run.
    NodesOfB,
}

/// A class in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnerChange {
    /// The class or task.
    pub class: String,
    /// In the first; `None` where it did not run.
    pub a: Option<OwnerSide>,
    /// In the second.
    pub b: Option<OwnerSide>,
}

/// A class in one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OwnerSide {
    /// Nodes on which it ran.
    pub nodes: u32,
    /// Processes at the peak.
    pub processes: u32,
    /// Peak of their private memory together; of several nodes the sum of their peaks.
    pub private_peak_bytes: Option<Bytes>,
    /// Growth per call, on the node where it is most.
    pub per_call_bytes: Option<Bytes>,
}

/// Listed deaths of one class by one killer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeathChange {
    /// Who ended them.
    pub killer: Killer,
    /// What died.
    pub class: String,
    /// How many in the first.
    pub a: u32,
    /// How many in the second.
    pub b: u32,
    /// How many of the first were warned of, where any was.
    pub a_warned: Option<Warned>,
    /// How many of the second.
    pub b_warned: Option<Warned>,
}

/// Kills that the recorder had warned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Warned {
    /// How many.
    pub kills: u32,
    /// How long before its kill the latest of the warnings was told.
    pub ms_before: u64,
}

/// A setting and how its change goes with what changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// The setting.
    pub key: String,
    /// The class whose memory changed, where it is one.
    pub class: Option<String>,
    /// How it fits, or why it cannot, with the figures.
    pub why: String,
    /// Never proven: two runs differ in more than their settings.
    pub certainty: Certainty,
}

/// The contract's version.
const SCHEMA: u32 = 1;

/// Compares two reports, each with the name of its file.
#[must_use]
pub fn compare(a: (&str, &Report), b: (&str, &Report)) -> Diff {
    let (settings, same_settings) = settings::changes(a.1, b.1);
    let mut diff = Diff {
        schema: SCHEMA,
        raytrace: env!("CARGO_PKG_VERSION").into(),
        a: sides::of(a),
        b: sides::of(b),
        settings,
        same_settings,
        owners: owners::changes(a.1, b.1),
        nodes: nodes::compare(a.1, b.1),
        deaths: deaths::changes(a.1, b.1),
        explains: Vec::new(),
        may_explain: Vec::new(),
        cannot_explain: Vec::new(),
        savings: Vec::new(),
    };
    diff.savings = savings::seen(&diff.settings, a.1, b.1);
    let found = fits::find(&diff);
    (diff.explains, diff.may_explain, diff.cannot_explain) =
        (found.explains, found.may_explain, found.cannot_explain);
    order(&mut diff);
    diff
}

/// Settings by what they can explain: what ran, what fits the change, the options typed for the jobs, the rest, what cannot be it.
fn order(diff: &mut Diff) {
    let named = |fits: &[Fit], key: &str| fits.iter().any(|fit| fit.key == key);
    let typed = |change: &SettingChange| {
        let mut sides = [&change.a, &change.b].into_iter().flatten();
        sides.any(|value| value.source.starts_with("command line"))
    };
    let rank = |change: &SettingChange| match change.key.as_str() {
        settings::COMMAND => 0,
        key if named(&diff.explains, key) => 1,
        settings::COUNTED => 2,
        key if named(&diff.cannot_explain, key) => 5,
        _ if typed(change) => 3,
        _ => 4,
    };
    let mut ranked: Vec<(u8, SettingChange)> = diff
        .settings
        .iter()
        .map(|change| (rank(change), change.clone()))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    diff.settings = ranked.into_iter().map(|(_, change)| change).collect();
}
