//! Compares two reports: settings, memory and deaths.
//!
//! It also finds which changes of settings fit the changes of memory and deaths. A fit is an
//! inference from direction or proportion, and says which. Pure.

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

/// The comparison of two recordings. Its JSON form is public: fields may be added, never renamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// Version of this contract.
    pub schema: u32,
    /// raytrace's version.
    pub raytrace: String,
    /// The first recording.
    pub a: Side,
    /// The second recording.
    pub b: Side,
    /// Settings that differ, by key.
    pub settings: Vec<SettingChange>,
    /// How many settings are the same in both.
    pub same_settings: usize,
    /// Classes and tasks on all nodes together, the largest change first.
    pub owners: Vec<OwnerChange>,
    /// The comparison by node, if one of the two recordings has several nodes.
    pub nodes: Option<NodeDiff>,
    /// Listed deaths, by killer and class.
    pub deaths: Vec<DeathChange>,
    /// Settings whose change fits the change in memory or deaths, the strongest first.
    pub explains: Vec<Fit>,
    /// Settings that changed and may have an effect too, which cannot be told from that of the
    /// others.
    pub may_explain: Vec<Fit>,
    /// Settings that changed and cannot be the reason, each with why.
    pub cannot_explain: Vec<Fit>,
    /// What findings of the first recording expected to save, and what was seen in the second.
    pub savings: Vec<SavingSeen>,
}

/// What a remedy that was applied in the second run was expected to save, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavingSeen {
    /// The finding's number in the report of the first, from 1.
    pub finding: u32,
    /// The finding's rule.
    pub rule: String,
    /// The class whose processes should hold less.
    pub class: String,
    /// What was expected.
    pub expected_bytes: Bytes,
    /// How much lower the peak of that class was, all its processes together. Negative if it was
    /// higher. `None` if the second did less of the work.
    pub seen_bytes: Option<i64>,
    /// Calls of that class in the first.
    pub a_calls: u64,
    /// The same in the second run.
    pub b_calls: u64,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Its file.
    pub file: String,
    /// How many machines were recorded.
    pub nodes: u32,
    /// The machine's name; `None` if there are several.
    pub host: Option<String>,
    /// Its memory; `None` if several machines differ.
    pub memory_bytes: Option<Bytes>,
    /// How it was observed; `None` if several recordings differ.
    pub mode: Option<Mode>,
    /// When the first recording began.
    pub started: Option<Utc>,
    /// How long it lasted, to the end of the last recording.
    pub seconds: Option<u64>,
    /// Highest use of the machine's memory. For several machines, that of the one nearest to full.
    pub peak: Option<Peak>,
    /// How each job ended.
    pub jobs: Vec<JobEnd>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobEnd {
    /// Its id.
    pub job_id: HexId,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether only the order of deaths says which one ended it.
    pub probable: bool,
    /// Who killed the process whose death ended it.
    pub killer: Option<Killer>,
    /// The class of that process.
    pub class: Option<String>,
    /// The limit at which it was killed: Ray's threshold, or a cgroup's.
    pub limit_bytes: Option<Bytes>,
    /// For Ray's threshold, all memory that Ray counts.
    pub limit_of_bytes: Option<Bytes>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingChange {
    /// Its key.
    pub key: String,
    /// Its value in the first run; `None` if it is not set.
    pub a: Option<Value>,
    /// The same in the second run.
    pub b: Option<Value>,
}

/// A setting's value in one recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Value {
    /// The value as it was found.
    pub value: String,
    /// Where it was found.
    pub source: String,
    /// Whether it is in force.
    pub effective: bool,
}

/// The comparison of two runs node by node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeDiff {
    /// Host names that both runs have. Nodes are matched by these.
    pub both: Vec<String>,
    /// Host names that only the first run has.
    pub only_a: Vec<String>,
    /// Host names that only the second run has.
    pub only_b: Vec<String>,
    /// Names that several machines have at one time. These are not compared.
    pub ambiguous: Vec<String>,
    /// Classes that grew faster on a node than on its peers.
    pub stand_out: Vec<StandOut>,
    /// How fast each class grew on each node on which it grew.
    pub growth: Vec<NodeGrowth>,
}

/// How fast a class grew on one node, in the process that grew the fastest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeGrowth {
    /// The host.
    pub node: String,
    /// The class, task or program.
    pub class: String,
    /// The task with the calls that are counted; `None` if the figures are per hour.
    pub task: Option<String>,
    /// What each call or hour kept in the first run; `None` if too few were seen.
    pub a: Option<Bytes>,
    /// The same in the second run.
    pub b: Option<Bytes>,
}

/// A node on which a class grew faster than on its peers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StandOut {
    /// The host.
    pub node: String,
    /// The class, task or program.
    pub class: String,
    /// The task with the calls that are counted; `None` if the figures are per hour.
    pub task: Option<String>,
    /// What it was compared with.
    pub compared: ComparedWith,
    /// How many times as fast as that; `None` if that did not grow.
    pub factor: Option<f64>,
    /// What each call or hour kept in the first run; `None` if too few were seen.
    pub a: Option<Bytes>,
    /// The same in the second run.
    pub b: Option<Bytes>,
    /// How many other nodes it was compared with.
    pub others: u32,
    /// The median of the others in the first run.
    pub others_a: Option<Bytes>,
    /// The median of the others in the second run.
    pub others_b: Option<Bytes>,
    /// The comparison as a sentence.
    pub why: String,
}

/// What a node's growth was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparedWith {
    /// The same node in the first run. The change is compared with that of the other nodes.
    OtherRun,
    /// The other nodes of the first run.
    NodesOfA,
    /// The other nodes of the second run.
    NodesOfB,
}

/// The memory of a class in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnerChange {
    /// The class or task.
    pub class: String,
    /// In the first run; `None` if it did not run there.
    pub a: Option<OwnerSide>,
    /// The same in the second run.
    pub b: Option<OwnerSide>,
}

/// A class in one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OwnerSide {
    /// Nodes on which it ran.
    pub nodes: u32,
    /// Processes at the peak.
    pub processes: u32,
    /// Peak of their private memory together. For several nodes, the sum of the nodes' peaks.
    pub private_peak_bytes: Option<Bytes>,
    /// Growth per call, on the node where it is the highest.
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
    /// The kills of the first run that were warned of; `None` if there were none.
    pub a_warned: Option<WarnedKills>,
    /// The same in the second run.
    pub b_warned: Option<WarnedKills>,
}

/// Kills that the recorder had warned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WarnedKills {
    /// How many.
    pub kills: u32,
    /// The shortest time between a warning and its kill.
    pub ms_before: u64,
}

/// A setting, and how its change fits the change of memory or deaths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// The setting.
    pub key: String,
    /// The class whose memory changed, if it is about one.
    pub class: Option<String>,
    /// How it fits, or why it cannot, with the figures.
    pub why: String,
    /// Never proven: two runs differ in more than their settings.
    pub certainty: Certainty,
}

/// The contract's version.
const SCHEMA: u32 = 1;

/// Compares two reports, each with the name of its file.
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
    let found = fits::find(&diff, a.1, b.1);
    (diff.explains, diff.may_explain, diff.cannot_explain) =
        (found.explains, found.may_explain, found.cannot_explain);
    order(&mut diff);
    diff
}

/// Sorts settings by what they can explain: the command, what fits the change, the memory that Ray
/// counts, options typed for the jobs, the rest, and what cannot be the reason.
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
