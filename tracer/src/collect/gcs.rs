//! Records what Ray's GCS says: a row for each entry that is new or has changed.
//!
//! It also records a probe with the state of each GCS.

use std::collections::{HashMap, HashSet};

use super::output::Output;
use crate::{
    event::{Cluster, Observation, Probe, ProbeState, Process, RayLog, Source},
    ids::{HexId, ProcessKey},
    observe::gcs::{Gcs, GcsAnswer, Target},
    phrase,
    ray::{facts::RayFact, gcs::GcsRow},
};

/// The most rows that are remembered for all clusters. Further rows are counted.
const MOST: usize = 50_000;
/// The most characters of an error that are shown. A part of it may be the server's own text.
const LONGEST: usize = 400;

/// The thread that asks, and its last answers.
#[derive(Default)]
pub(super) struct GcsRows {
    from: Option<Gcs>,
    last: Last,
    /// Whether the user was told that rows are left out.
    full: bool,
    /// The error of each raylet's GCS; `None` if there is none.
    state: HashMap<ProcessKey, Option<String>>,
    updates: Vec<String>,
}

/// The last row of each entry in the tables.
#[derive(Default)]
struct Last(HashMap<(ProcessKey, HexId), GcsRow>);

impl Last {
    /// Forgets rows that the latest answer of this raylet's GCS no longer has.
    fn prune(&mut self, raylet: ProcessKey, rows: &[GcsRow]) {
        let there: HashSet<&HexId> = rows.iter().map(GcsRow::id).collect();
        self.0
            .retain(|(of, id), _| *of != raylet || there.contains(id));
    }

    /// Returns the rows that are new or have changed, and how many did not fit.
    fn new_rows(
        &mut self,
        raylet: ProcessKey,
        rows: Vec<GcsRow>,
        most: usize,
    ) -> (Vec<GcsRow>, usize) {
        let (mut new, mut left_out) = (Vec::new(), 0);
        for row in rows {
            let key = (raylet, row.id().clone());
            match self.0.get(&key) {
                Some(known) if *known == row => continue,
                None if self.0.len() >= most => {
                    left_out += 1;
                    continue;
                }
                _ => {}
            }
            self.0.insert(key, row.clone());
            new.push(row);
        }
        (new, left_out)
    }
}

impl GcsRows {
    /// Asks the GCS of each cluster that is found from now on.
    pub(super) fn start(&mut self) -> std::io::Result<()> {
        self.from = Some(Gcs::start()?);
        Ok(())
    }

    /// Begins to ask the GCS of a raylet, if that is wanted.
    pub(super) fn ask(&self, raylet: &Process, cluster: &Cluster) {
        if let Some(gcs) = &self.from
            && let Some(target) = Target::of(raylet, cluster)
        {
            gcs.ask(target);
        }
    }

    /// Takes the answers since the last call.
    pub(super) fn take(&mut self, out: &mut Output) {
        let answers: Vec<GcsAnswer> = self.from.iter().flat_map(Gcs::take_answers).collect();
        for answer in answers {
            self.state(&answer, out);
            let raylet = answer.raylet.truncated();
            // An answer with an error is incomplete.
            if answer.trouble.is_none() {
                self.last.prune(raylet, &answer.rows);
            }
            let (rows, left_out) = self.last.new_rows(raylet, answer.rows, MOST);
            for row in rows {
                emit_row(raylet, &answer.address, row, out);
            }
            if left_out > 0 && !self.full {
                self.updates.push(format!(
                    "GCS {}: {MOST} rows are followed, {left_out} others are left out",
                    answer.address
                ));
            }
            self.full = left_out > 0;
        }
    }

    /// Reports whether a GCS answers: at the first answer and at each change.
    fn state(&mut self, answer: &GcsAnswer, out: &mut Output) {
        let trouble = answer.trouble.as_deref();
        let trouble: Option<String> = trouble.map(|text| text.chars().take(LONGEST).collect());
        let before = self.state.insert(answer.raylet, trouble.clone());
        if before.as_ref() == Some(&trouble) {
            return;
        }
        let name = format!("GCS {}", answer.address);
        self.updates.push(match &trouble {
            Some(trouble) => format!("{name}: {trouble}"),
            None => format!("{name}: {}", counted(&answer.rows)),
        });
        let probe = Probe {
            name,
            state: match &trouble {
                None => ProbeState::Ok,
                Some(_) if answer.rows.is_empty() => ProbeState::Missing,
                Some(_) => ProbeState::Degraded,
            },
            reason: trouble,
            required: false,
        };
        out.emit_now(Source::Gcs, Observation::Probe(probe));
    }

    /// Returns messages about the GCS since the last call.
    pub(super) fn take_updates(&mut self) -> Vec<String> {
        std::mem::take(&mut self.updates)
    }
}

fn emit_row(raylet: ProcessKey, address: &str, row: GcsRow, out: &mut Output) {
    let log = RayLog {
        cluster: Some(raylet),
        file: format!("GCS {address}"),
        local_time: None,
        text: row.to_string().chars().take(300).collect(),
        fact: RayFact::Gcs(row),
    };
    out.emit_now(Source::Gcs, Observation::RayLog(log));
}

/// Counts rows in words: `2 jobs, 14 actors and 1 placement group of this node`.
fn counted(rows: &[GcsRow]) -> String {
    let count = |what: &str, is: fn(&GcsRow) -> bool| {
        let count = rows.iter().filter(|row| is(row)).count();
        phrase::count(count, what, &format!("{what}s"))
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
    use crate::ray::gcs::{GcsJob, Table};

    #[test]
    fn rows_are_counted_in_words() {
        let groups = include_bytes!("../../core/src/ray/gcs/fixtures/2.60.0-groups.bin");
        let rows = Table::PlacementGroups.rows(groups).expect("rows");
        let said = "0 jobs, 0 actors and 1 placement group of this node";
        assert_eq!(counted(&rows), said);
    }

    fn job(number: u32, entrypoint: &str) -> GcsRow {
        GcsRow::Job(GcsJob {
            job_id: HexId::parse(&format!("{number:08x}")).expect("an id"),
            entrypoint: Some(entrypoint.to_owned()),
            driver_pid: None,
        })
    }

    #[test]
    fn rows_are_new_once_and_when_changed() {
        let mut last = Last::default();
        let raylet = ProcessKey::new(1, 1);
        let all = || vec![job(1, "a"), job(2, "a")];
        assert_eq!(last.new_rows(raylet, all(), 9), (all(), 0));
        assert_eq!(last.new_rows(raylet, all(), 9), (Vec::new(), 0));
        let changed = vec![job(1, "b")];
        assert_eq!(last.new_rows(raylet, changed.clone(), 9), (changed, 0));
    }

    /// A row that did not fit is taken once others were removed.
    #[test]
    fn rows_beyond_the_maximum_are_counted() {
        let mut last = Last::default();
        let raylet = ProcessKey::new(1, 1);
        let of = |numbers: std::ops::Range<u32>| -> Vec<GcsRow> {
            numbers.map(|number| job(number, "a")).collect()
        };
        for _ in 0..3 {
            last.prune(raylet, &of(0..5));
            last.new_rows(raylet, of(0..5), 3);
            assert_eq!(last.new_rows(raylet, of(0..5), 3), (Vec::new(), 2));
        }
        last.prune(ProcessKey::new(2, 2), &[]);
        assert_eq!(last.0.len(), 3, "those of another raylet stay");
        last.prune(raylet, &of(2..5));
        assert_eq!(last.new_rows(raylet, of(2..5), 3), (of(3..5), 0));
    }
}
