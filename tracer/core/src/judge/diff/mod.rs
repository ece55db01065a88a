//! Two reports side by side: what was set otherwise, what memory and deaths were otherwise, and which of the first fits the
//! second. Pure; a fit is an inference from direction or proportion and says which.

mod deaths;
mod fits;
mod owners;
mod savings;
mod settings;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::{
    event::Mode,
    ids::{Bytes, SECOND_NS},
    judge::report::{Certainty, Killer, Peak, Report, Utc},
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
    /// Classes and tasks, the largest change first.
    pub owners: Vec<OwnerChange>,
    /// Listed deaths, by killer and class.
    pub deaths: Vec<DeathChange>,
    /// Settings whose change fits the change in memory or deaths, the strongest first.
    pub fits: Vec<Fit>,
    /// Settings that changed and cannot be the reason, each with why.
    pub cannot: Vec<Fit>,
    /// What the first recording's findings expected to save, and what was seen in the second.
    pub savings: Vec<SavingSeen>,
}

/// What a remedy was expected to save, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavingSeen {
    /// The finding's rule.
    pub rule: String,
    /// The class whose processes were to hold less.
    pub class: String,
    /// What was expected.
    pub expected_bytes: Bytes,
    /// How much lower the peak of that class was, all its processes together; negative where it was higher.
    pub seen_bytes: i64,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Its file.
    pub file: String,
    /// The machine's name.
    pub host: Option<String>,
    /// Its memory.
    pub memory_bytes: Option<Bytes>,
    /// How it was observed.
    pub mode: Option<Mode>,
    /// When it began.
    pub started: Option<Utc>,
    /// How long it lasted.
    pub seconds: Option<u64>,
    /// Highest use of the machine's memory.
    pub peak: Option<Peak>,
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
    /// Where.
    pub source: String,
    /// Whether it is in force.
    pub effective: bool,
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
    /// Processes at the peak.
    pub processes: u32,
    /// Peak of their private memory together.
    pub private_peak_bytes: Option<Bytes>,
    /// Growth per call.
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
        a: side(a),
        b: side(b),
        settings,
        same_settings,
        owners: owners::changes(a.1, b.1),
        deaths: deaths::changes(a.1, b.1),
        fits: Vec::new(),
        cannot: Vec::new(),
        savings: Vec::new(),
    };
    diff.savings = savings::seen(a.1, b.1);
    (diff.fits, diff.cannot) = fits::find(&diff);
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
        key if named(&diff.fits, key) => 1,
        settings::COUNTED => 2,
        key if named(&diff.cannot, key) => 5,
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

fn side((file, report): (&str, &Report)) -> Side {
    let recording = report.recordings.first();
    Side {
        file: file.to_owned(),
        host: recording.map(|recording| recording.host.name.clone()),
        memory_bytes: recording.map(|recording| recording.host.memory_bytes),
        mode: recording.map(|recording| recording.mode),
        started: recording.map(|recording| recording.started),
        seconds: recording.and_then(|recording| {
            let (from, to) = (recording.started.0, recording.ended.0);
            u64::try_from((to.0 - from.0) / SECOND_NS).ok()
        }),
        peak: report.peak,
    }
}
