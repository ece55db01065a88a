//! Samples: of older ones each process, cgroup and the machine keep one a minute, the highest.

use std::collections::HashMap;

use rusqlite::Connection;

use super::{MINUTE_NS, delete, ends::Ends};

/// Rows of one step.
const ROWS: usize = 2000;

/// The tables: what a row is about, and the figure that must not be lost.
const TABLES: [(&str, &str, &str); 4] = [
    ("process_memory", "pid || ' ' || start", "anon"),
    ("node_memory", "''", "-available"),
    ("cgroup_memory", "path", "usage"),
    ("mapped", "pid || ' ' || start", "bytes"),
];

/// A table and how far it was thinned.
pub(super) struct Samples {
    table: &'static str,
    select: String,
    mark: i64,
    /// The minute of what was looked at last, and the highest row of each thing in it.
    minute: i64,
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
        TABLES.map(Self::of).into()
    }

    fn of((table, thing, figure): (&'static str, &str, &str)) -> Self {
        Self {
            table,
            select: format!(
                "SELECT id, time, {thing}, ifnull({figure}, {}) FROM {table} WHERE id > ?1 ORDER BY id LIMIT {ROWS}",
                i64::MIN
            ),
            mark: i64::MIN,
            minute: i64::MIN,
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

    /// Thins some rows of before `until`; whether those were the last.
    pub(super) fn thin(
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
            if self.minute != row.time / MINUTE_NS {
                self.minute = row.time / MINUTE_NS;
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
