//! What Ray's GCS says, where it is asked: a row of the recording for each that is new or has changed, a probe for its state.

use std::collections::HashMap;

use super::Collector;
use crate::{
    event::{Cluster, Observation, Probe, ProbeState, Process, RayLog, Source},
    ids::{HexId, ProcessKey},
    observe::{
        clock,
        gcs::{Gcs, Said, Target},
    },
    ray::{facts::RayFact, gcs::GcsRow},
};

/// Rows that are remembered; a cluster that makes more actors has the later ones recorded as often as they are told.
const MOST: usize = 50_000;
/// Characters of a trouble that are shown: a part of it may be the server's own words.
const LONGEST: usize = 400;

/// The thread that asks, and what it said last.
#[derive(Default)]
pub(super) struct GcsRows {
    from: Option<Gcs>,
    last: HashMap<(ProcessKey, HexId), GcsRow>,
    /// The trouble of each cluster's GCS; `None` where there is none.
    state: HashMap<ProcessKey, Option<String>>,
    news: Vec<String>,
}

impl Collector {
    /// Asks the GCS of each cluster that is found from now on.
    pub fn ask_gcs(&mut self) -> std::io::Result<()> {
        self.gcs.from = Some(Gcs::start()?);
        Ok(())
    }

    /// Begins to ask the GCS of a raylet, where that is wanted.
    pub(super) fn ask_gcs_of(&mut self, raylet: &Process, cluster: &Cluster) {
        if let Some(gcs) = &self.gcs.from
            && let Some(target) = Target::of(raylet, cluster)
        {
            gcs.ask(target);
        }
    }

    /// Takes what was said since.
    pub(super) fn take_gcs(&mut self) {
        let said: Vec<Said> = self.gcs.from.iter().flat_map(Gcs::said).collect();
        for said in said {
            self.gcs_state(&said);
            let raylet = said.raylet.truncated();
            for row in said.rows {
                self.gcs_row(raylet, &said.address, row);
            }
        }
    }

    fn gcs_row(&mut self, raylet: ProcessKey, address: &str, row: GcsRow) {
        let key = (raylet, row.id().clone());
        if self.gcs.last.get(&key) == Some(&row) {
            return;
        }
        if self.gcs.last.len() < MOST || self.gcs.last.contains_key(&key) {
            self.gcs.last.insert(key, row.clone());
        }
        let log = RayLog {
            cluster: Some(raylet),
            file: format!("GCS {address}"),
            local_time: None,
            text: row.to_string().chars().take(300).collect(),
            fact: RayFact::Gcs(row),
        };
        self.emit(Source::Gcs, clock::boot(), Observation::RayLog(log));
    }

    /// Whether it answers: told at the first answer and at each change.
    fn gcs_state(&mut self, said: &Said) {
        let trouble = said.trouble.as_deref();
        let trouble: Option<String> = trouble.map(|text| text.chars().take(LONGEST).collect());
        let before = self.gcs.state.insert(said.raylet, trouble.clone());
        if before.as_ref() == Some(&trouble) {
            return;
        }
        let name = format!("GCS {}", said.address);
        self.gcs.news.push(match &trouble {
            Some(trouble) => format!("{name}: {trouble}"),
            None => format!("{name}: {}", counted(&said.rows)),
        });
        let probe = Probe {
            name,
            state: match &trouble {
                None => ProbeState::Ok,
                Some(_) if said.rows.is_empty() => ProbeState::Missing,
                Some(_) => ProbeState::Degraded,
            },
            reason: trouble,
            required: false,
        };
        self.emit(Source::Gcs, clock::boot(), Observation::Probe(probe));
    }

    /// What there is to say of the GCS since the last call.
    pub fn gcs_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.gcs.news)
    }
}

/// `2 jobs, 14 actors and 1 placement group of this node`
fn counted(rows: &[GcsRow]) -> String {
    let count = |what: &str, is: fn(&GcsRow) -> bool| {
        let count = rows.iter().filter(|row| is(row)).count();
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {what}{plural}")
    };
    let jobs = count("job", |row| matches!(row, GcsRow::Job(_)));
    let actors = count("actor", |row| matches!(row, GcsRow::Actor(_)));
    let groups = count("placement group", |row| {
        matches!(row, GcsRow::PlacementGroup(_))
    });
    format!("{jobs}, {actors} and {groups} of this node")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ray::gcs::Table;

    #[test]
    fn what_a_gcs_knows_is_counted() {
        let groups = include_bytes!("../ray/gcs/fixtures/2.60.0-groups.bin");
        let rows = Table::PlacementGroups.rows(groups).expect("rows");
        let said = "0 jobs, 0 actors and 1 placement group of this node";
        assert_eq!(counted(&rows), said);
    }
}
