//! What a long recording gives up: the detail of samples that are older than wanted, but never what lies around a death.
//!
//! Events about processes and deaths stay. Of older samples each process, cgroup and the machine keep one a minute, the highest.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::ids::BootTime;

/// Full detail stays so long before and after a death that was no normal exit.
const BEFORE_NS: i64 = 600_000_000_000;
const AFTER_NS: i64 = 60_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
/// To fit into a size, detail is kept for half the time, and half again; never for less than this.
const SHORTEST: Duration = Duration::from_secs(600);

/// The tables of samples: what a row is about, and which figure must not be lost.
const TABLES: [(&str, &str, &str); 4] = [
    ("process_memory", "pid, start", "max(anon)"),
    ("node_memory", "total", "min(available)"),
    ("cgroup_memory", "path", "max(usage)"),
    ("mapped", "pid, start", "max(bytes)"),
];

/// How much a recording keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Samples stay in full detail for this time.
    pub keep: Duration,
    /// The file is not to become larger than this.
    pub max_bytes: Option<u64>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(6 * 3600),
            max_bytes: None,
        }
    }
}

impl Retention {
    /// Thins what is older than wanted at `now`, and gives the room back.
    pub(super) fn apply(&self, connection: &Connection, now: BootTime) -> rusqlite::Result<()> {
        let mut keep = self.keep;
        thin(connection, now, keep)?;
        while self
            .max_bytes
            .is_some_and(|most| size(connection).is_ok_and(|size| size > most))
        {
            if keep <= SHORTEST {
                return halve(connection);
            }
            keep = (keep / 2).max(SHORTEST);
            thin(connection, now, keep)?;
        }
        Ok(())
    }
}

/// One row a minute of what is older than `keep`, except around deaths.
fn thin(connection: &Connection, now: BootTime, keep: Duration) -> rusqlite::Result<()> {
    let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
    let until = now.0.cast_signed().saturating_sub(keep);
    let transaction = connection.unchecked_transaction()?;
    around_deaths(&transaction)?;
    for (table, thing, figure) in TABLES {
        // With max() or min() SQLite takes the other columns from the row of that figure.
        let sql = format!(
            "DELETE FROM {table} WHERE time < ?1 AND id NOT IN (
               SELECT id FROM (SELECT id, {figure} FROM {table} WHERE time < ?1 GROUP BY {thing}, time / {MINUTE_NS}))
             AND NOT EXISTS (SELECT 1 FROM kept WHERE time BETWEEN since AND until)"
        );
        transaction.execute(&sql, params![until])?;
    }
    transaction.commit()?;
    give_back(connection)
}

/// Every second row of the samples that are not around deaths: what is left to do when even minutes are too many.
fn halve(connection: &Connection) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    around_deaths(&transaction)?;
    for (table, ..) in TABLES {
        let sql = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM {table}) WHERE number % 2 = 0)
             AND NOT EXISTS (SELECT 1 FROM kept WHERE time BETWEEN since AND until)"
        );
        transaction.execute(&sql, [])?;
    }
    transaction.commit()?;
    give_back(connection)
}

/// The spans that stay as they are, in a table of this connection alone.
fn around_deaths(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE IF NOT EXISTS kept (since INTEGER, until INTEGER); DELETE FROM kept;
         INSERT INTO kept SELECT time - {BEFORE_NS}, time + {AFTER_NS} FROM events
           WHERE kind = 'oom_victim' OR (kind = 'exit' AND body->>'$.status' != 0);"
    ))
}

fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut rows = statement.query([])?;
    // Each step gives one page back.
    while rows.next()?.is_some() {}
    Ok(())
}

fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    Ok((number("page_count")? * number("page_size")?)
        .max(0)
        .cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::schema;

    const SECOND: i64 = 1_000_000_000;

    /// A day of samples each 10 s of two processes, and one death at noon.
    fn day() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        schema::create(&connection).expect("tables");
        let transaction = connection.unchecked_transaction().expect("a transaction");
        let mut id = 0;
        for time in (0..86_400).step_by(10) {
            for pid in [1, 2] {
                id += 1;
                // The third sample of each minute is the highest.
                let anon = if time % 60 == 20 { 900 } else { 100 };
                let row = params![id, time * SECOND, pid, anon];
                let sql =
                    "INSERT INTO process_memory (id, time, pid, start, anon) VALUES (?,?,?,0,?)";
                transaction.execute(sql, row).expect("a row");
            }
        }
        let noon = 43_200 * SECOND;
        let body = r#"{"kind":"exit","status":9}"#;
        let sql = "INSERT INTO events VALUES (0, ?, 'kernel', 'exit', 1, ?)";
        transaction
            .execute(sql, params![noon, body])
            .expect("a death");
        transaction.commit().expect("a commit");
        connection
    }

    fn rows(connection: &Connection, from: i64, to: i64) -> Vec<i64> {
        let sql = "SELECT anon FROM process_memory WHERE time >= ? AND time < ? ORDER BY id";
        let mut statement = connection.prepare(sql).expect("a query");
        let found = statement.query_map(params![from * SECOND, to * SECOND], |row| row.get(0));
        found
            .expect("rows")
            .map(|row| row.expect("a row"))
            .collect()
    }

    fn evening() -> BootTime {
        BootTime((86_400 * SECOND).cast_unsigned())
    }

    #[test]
    fn old_samples_keep_the_highest_of_each_minute_and_deaths_their_detail() {
        let connection = day();
        Retention::default()
            .apply(&connection, evening())
            .expect("thinned");
        assert_eq!(rows(&connection, 3600, 3660), [900, 900], "one a process");
        let around = rows(&connection, 43_200 - 600, 43_200 + 60);
        assert_eq!(around.len(), 2 * 66, "full detail around the death");
        assert_eq!(
            rows(&connection, 86_400 - 600, 86_400).len(),
            2 * 60,
            "and in the last hours"
        );
    }

    #[test]
    fn a_size_shortens_the_time_of_full_detail_but_not_the_detail_of_a_death() {
        let connection = day();
        let before = size(&connection).expect("a size");
        let small = Retention {
            max_bytes: Some(before / 4),
            ..Retention::default()
        };
        small.apply(&connection, evening()).expect("thinned");
        let after = size(&connection).expect("a size");
        assert!(after < before / 2, "{before} to {after}");
        assert_eq!(rows(&connection, 43_200 - 600, 43_200 + 60).len(), 2 * 66);
        assert!(!rows(&connection, 0, 43_000).is_empty());
    }
}
