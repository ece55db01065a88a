//! Downsamples the tables of samples: the older the rows, the further apart.
//!
//! For each process, each cgroup and the machine, the highest row of each time span stays.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::{delete, detail_spans::DetailSpans};
use crate::ids::MINUTE_NS;

/// Beyond this many times the time of full detail, one row in this time span stays. By default that
/// is after six hours, a day and a week.
const TIERS: [(u32, i64); 3] = [(1, MINUTE_NS), (4, 10 * MINUTE_NS), (28, 60 * MINUTE_NS)];

/// The most rows read in one step.
const ROWS: usize = 2000;

/// Each table, what its rows are about, and a figure. The highest value of that figure must be
/// kept.
const TABLES: [(&str, &str, &str); 4] = [
    ("process_memory", "pid || ' ' || start", "anon"),
    ("node_memory", "''", "-available"),
    ("cgroup_memory", "path", "usage"),
    ("mapped", "pid || ' ' || start", "bytes"),
];

/// A table, and how far one tier of downsampling has come in it.
pub(super) struct Samples {
    table: &'static str,
    select: String,
    /// The age from which rows are downsampled, in times of full detail, and the time span of one
    /// row.
    times: u32,
    apart: i64,
    mark: i64,
    /// The time span of the last row that was read, and the highest row of each item in it.
    span: i64,
    highest: HashMap<String, (i64, i64)>,
    /// How far it was halved, and whether the next row stays.
    halved: i64,
    stays: bool,
}

struct Row {
    id: i64,
    time: i64,
    thing: String,
    figure: i64,
}

impl Samples {
    pub(super) fn all() -> Vec<Self> {
        let tiers = TIERS.into_iter();
        tiers
            .flat_map(|tier| TABLES.map(|table| Self::of(table, tier)))
            .collect()
    }

    fn of((table, thing, figure): (&'static str, &str, &str), (times, apart): (u32, i64)) -> Self {
        Self {
            times,
            apart,
            table,
            select: format!(
                "SELECT id, time, {thing}, ifnull({figure}, {}) FROM {table} WHERE id > ?1 ORDER BY id LIMIT ?2",
                i64::MIN
            ),
            mark: i64::MIN,
            span: i64::MIN,
            highest: HashMap::new(),
            halved: i64::MIN,
            stays: true,
        }
    }

    fn rows(&self, connection: &Connection, from: i64, most: usize) -> rusqlite::Result<Vec<Row>> {
        let mut statement = connection.prepare_cached(&self.select)?;
        let rows = statement.query_map(
            params![from, i64::try_from(most).unwrap_or(i64::MAX)],
            |row| {
                Ok(Row {
                    id: row.get(0)?,
                    time: row.get(1)?,
                    thing: row.get(2)?,
                    figure: row.get(3)?,
                })
            },
        )?;
        rows.collect()
    }

    /// Returns the age from which rows are downsampled, in times of full detail.
    pub(super) fn times(&self) -> u32 {
        self.times
    }

    /// Begins with the first row again, because less is kept around deaths.
    pub(super) fn downsample_anew(&mut self) {
        self.mark = i64::MIN;
        self.span = i64::MIN;
        self.highest.clear();
    }

    /// Downsamples some rows from before `until`. Returns whether those were the last.
    pub(super) fn downsample(
        &mut self,
        (connection, most): (&Connection, usize),
        until: i64,
        detail_spans: &DetailSpans,
    ) -> rusqlite::Result<bool> {
        let most = most.min(ROWS);
        let rows = self.rows(connection, self.mark, most)?;
        let all = rows.len() < most;
        let mut gone = Vec::new();
        for row in rows {
            if row.time >= until {
                delete(connection, self.table, &gone)?;
                return Ok(true);
            }
            self.mark = row.id;
            if detail_spans.keeps(row.time) {
                continue;
            }
            if self.span != row.time / self.apart {
                self.span = row.time / self.apart;
                self.highest.clear();
            }
            let highest = self.highest.entry(row.thing);
            let highest = highest.or_insert((row.id, row.figure));
            if highest.0 == row.id {
                continue;
            }
            if row.figure > highest.1 {
                gone.push(highest.0);
                *highest = (row.id, row.figure);
            } else {
                gone.push(row.id);
            }
        }
        delete(connection, self.table, &gone)?;
        Ok(all)
    }

    /// Begins halving with the first row again.
    pub(super) fn halve_anew(&mut self) {
        self.halved = i64::MIN;
    }

    /// Deletes every second of some rows from before `until`, for when even a row a minute is too
    /// much. Returns whether those were the last.
    pub(super) fn halve(
        &mut self,
        (connection, most): (&Connection, usize),
        until: i64,
        detail_spans: &DetailSpans,
    ) -> rusqlite::Result<bool> {
        if self.times > 1 {
            // The first tier has the same table.
            return Ok(true);
        }
        let most = most.min(ROWS);
        let rows = self.rows(connection, self.halved, most)?;
        let all = rows.len() < most;
        let mut gone = Vec::new();
        for row in rows {
            self.halved = row.id;
            if row.time < until && !detail_spans.keeps(row.time) {
                self.stays = !self.stays;
                if self.stays {
                    gone.push(row.id);
                }
            }
        }
        delete(connection, self.table, &gone)?;
        Ok(all)
    }
}
