//! Tests that each known message gives its verdict, in any wrapping, and never a wrong killer.

mod apart;
mod beside;
mod chunks;
mod claims;
mod damage;
mod false_reading;
mod fixtures;
mod forms;
mod joins;
mod nodes;
mod programs;
mod ray_wordings;
mod remedies;
mod session;
mod settings;

use crate::judge::{
    from_text,
    report::{Certainty, Death, Killer, Report},
};

use super::Explainer;

/// Returns the texts of all known messages.
pub(crate) fn texts() -> Vec<&'static str> {
    fixtures::ALL.iter().map(|fixture| fixture.text).collect()
}

/// Makes the report on texts with these names.
fn explain(texts: &[(&str, &str)]) -> Report {
    let mut explainer = Explainer::default();
    for (name, text) in texts {
        explainer
            .read(name, text.as_bytes(), |_| {})
            .expect("a text in memory");
    }
    from_text::judge(&explainer.finish(), None)
}

/// Returns the pid (0 for none) and killer of each death, sorted by pid.
fn killers(report: &Report) -> Vec<(u32, Killer)> {
    let of = |death: &Death| (death.process.pid.0, death.verdict.killer);
    let mut found: Vec<_> = report.deaths.iter().map(of).collect();
    found.sort_by_key(|(pid, killer)| (*pid, killer.name()));
    found
}

/// Makes the report on one text.
fn of(text: &str) -> Report {
    explain(&[("text.log", text)])
}

/// Returns the only death of a report.
fn only(report: &Report) -> &Death {
    let [death] = report.deaths.as_slice() else {
        panic!("{:?}", report.deaths);
    };
    death
}

/// Checks that no verdict is `proven`: a text proves nothing.
fn assert_nothing_is_proven(report: &Report) {
    for death in &report.deaths {
        assert_ne!(death.verdict.certainty, Certainty::Proven, "{death:?}");
    }
}
