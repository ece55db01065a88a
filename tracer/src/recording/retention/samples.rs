//! Samples: the older they are, the further apart; of each process, cgroup and of the machine the highest of each time stays.

use std::collections::HashMap;

use rusqlite::Connection;

use super::{delete, ends::Ends};
use crate::ids::MINUTE_NS;

/// Older than so many times the wanted time one in so long stays: six hours, a day and a week, where nothing else is wanted.
const TIERS: [(u32, i64); 3] = [(1, MINUTE_NS), (4, 10 * MINUTE_NS), (28, 60 * MINUTE_NS)];

/// Rows of one step.
const ROWS: usize = 2000;

/// The tables: what a row is about, and the figure that must not be lost.
const TABLES: [(&str, &str, &str); 4] = [
    ("process_memory", "pid || ' ' || start", "anon"),
    ("node_memory", "''", "-available"),
    ("cgroup_memory", "path", "usage"),
    ("mapped", "pid || ' ' || start", "bytes"),
];

/// A table and how far it was downsampled to one in so long.
pub(super) struct Samples {
    table: &'static str,
    select: String,
    /// Of which age on, in wanted times, and to what.
    times: u32,
    apart: i64,
    mark: i64,
    /// The span of what was looked at last, and the highest row of each thing in it.
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
                "SELECT id, time, {thing}, ifnull({figure}, {}) FROM {table} WHERE id > ?1 ORDER BY id LIMIT {ROWS}",
                i64::MIN
            ),
            mark: i64::MIN,
            span: i64::MIN,
            highest: HashMap::new(),
            halved: i64::MIN,
            stays: true,
        }
    }

    fn rows(&self, connection: &Connection, from: i64) -> rusqlite::Result<Vec<Row>> {
        let mut statement = connection.prepare_cached(&self.select)?;
        let rows = statement.query_map([from], |row| {
            Ok(Row {
                id: row.get(0)?,
                time: row.get(1)?,
                thing: row.get(2)?,
                figure: row.get(3)?,
            })
        })?;
        rows.collect()
    }

    /// Of which age on its rows are downsampled, in wanted times.
    pub(super) fn times(&self) -> u32 {
        self.times
    }

    /// All rows are looked at again: less is kept around deaths.
    pub(super) fn downsample_anew(&mut self) {
        self.mark = i64::MIN;
        self.span = i64::MIN;
        self.highest.clear();
    }

    /// Thins some rows of before `until`; whether those were the last.
    pub(super) fn downsample(
        &mut self,
        connection: &Connection,
        until: i64,
        ends: &Ends,
    ) -> rusqlite::Result<bool> {
        let rows = self.rows(connection, self.mark)?;
        let all = rows.len() < ROWS;
        let mut gone = Vec::new();
        for row in rows {
            if row.time >= until {
                delete(connection, self.table, &gone)?;
                return Ok(true);
            }
            self.mark = row.id;
            if ends.keep(row.time) {
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

    /// Every row is looked at again.
    pub(super) fn halve_anew(&mut self) {
        self.halved = i64::MIN;
    }

    /// Takes every second of some rows of before `until`, when even minutes are too many; whether those were the last.
    pub(super) fn halve(
        &mut self,
        connection: &Connection,
        until: i64,
        ends: &Ends,
    ) -> rusqlite::Result<bool> {
        if self.times > 1 {
            // The same table as that of the first tier.
            return Ok(true);
        }
        let rows = self.rows(connection, self.halved)?;
        let all = rows.len() < ROWS;
        let mut gone = Vec::new();
        for row in rows {
            self.halved = row.id;
            if row.time < until && !ends.keep(row.time) {
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
