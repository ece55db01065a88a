//! Downsamples stacks and freed memory: one row a minute for each stack of a process, with sums.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, params};

use super::{delete, detail_spans::DetailSpans};
use crate::{
    event::{NativeFrame, Observation, PythonFrame, PythonStack},
    ids::{MINUTE_NS, ProcessKey},
    recording::{frames, row},
};

/// The most rows read in one step; a stack may have some KiB. Only rows of one step are merged.
const ROWS: usize = 250;

/// The Python frames and native frames of a stack.
type Frames = Option<Arc<(Vec<PythonFrame>, Vec<NativeFrame>)>>;

/// How far both kinds were downsampled.
pub(super) struct Stacks {
    stacks: i64,
    freed: i64,
}

impl Default for Stacks {
    fn default() -> Self {
        Self {
            stacks: i64::MIN,
            freed: i64::MIN,
        }
    }
}

/// One row of either kind.
struct Row {
    id: i64,
    time: i64,
    what: Observation,
}

/// One row of a stack.
struct Seen {
    id: i64,
    time: i64,
    stack: PythonStack,
    /// Its frames; `None` if they are those of the process's row before this step.
    frames: Frames,
    changed: bool,
    gone: bool,
}

impl Stacks {
    /// Begins with the first row again.
    pub(super) fn downsample_anew(&mut self) {
        *self = Self::default();
    }

    /// Merges some rows from before `until`. Returns whether those were the last.
    pub(super) fn downsample(
        &mut self,
        (connection, most): (&Connection, usize),
        until: i64,
        detail_spans: &DetailSpans,
    ) -> rusqlite::Result<bool> {
        let (stacks, no_more_stacks) = rows((connection, most), "stack", &mut self.stacks, until)?;
        put_together(connection, stacks, detail_spans)?;
        let (freed, no_more_freed) = rows((connection, most), "freed", &mut self.freed, until)?;
        sum_up(connection, freed, detail_spans)?;
        Ok(no_more_stacks && no_more_freed)
    }
}

/// Returns the next rows of a kind from before `until`, and whether those were the last.
fn rows(
    (connection, most): (&Connection, usize),
    kind: &str,
    mark: &mut i64,
    until: i64,
) -> rusqlite::Result<(Vec<Row>, bool)> {
    let mut statement = connection.prepare_cached(
        "SELECT id, time, body FROM events WHERE kind = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let most = (most / 2).clamp(1, ROWS);
    let mut found = statement.query(params![
        kind,
        *mark,
        i64::try_from(most).unwrap_or(i64::MAX)
    ])?;
    let (mut rows, mut count) = (Vec::new(), 0);
    let mut frames = frames::Frames::of(connection);
    while let Some(row) = found.next()? {
        let time = row.get(1)?;
        if time >= until {
            return Ok((rows, true));
        }
        let id = row.get(0)?;
        (*mark, count) = (id, count + 1);
        let body = row.get_ref(2)?.as_str().unwrap_or("");
        if let Some(what) = row::read(&frames.expand(body)?) {
            rows.push(Row { id, time, what });
        }
    }
    Ok((rows, count < most))
}

fn rewrite(connection: &Connection, id: i64, what: &Observation) -> rusqlite::Result<()> {
    let mut body = row::body(what);
    frames::shorten(connection, &mut body)?;
    let body = body.to_string();
    connection
        .prepare_cached("UPDATE events SET body = ?2 WHERE id = ?1")?
        .execute(params![id, body])?;
    Ok(())
}

/// Adds the growth of all rows of a stack in a minute to the first of them. The last row of each
/// process stays, because the next one may have left its frames out.
fn put_together(
    connection: &Connection,
    rows: Vec<Row>,
    detail_spans: &DetailSpans,
) -> rusqlite::Result<()> {
    let mut seen = resolved(rows);
    let last: HashMap<ProcessKey, i64> = seen
        .iter()
        .map(|row| (row.stack.process.truncated(), row.id))
        .collect();
    let mut first = HashMap::new();
    for at in 0..seen.len() {
        let row = &seen[at];
        let (grown, shared) = (row.stack.grown, row.stack.shared);
        let process = row.stack.process.truncated();
        if detail_spans.keeps(row.time) || last.get(&process) == Some(&row.id) {
            continue;
        }
        let minute = row.time / MINUTE_NS;
        if grown.0 == 0 && shared.0 == 0 {
            seen[at].gone = true;
            continue;
        }
        let key = (
            process,
            minute,
            row.stack.mapping,
            row.stack.unsampled,
            row.frames.clone(),
        );
        let known = *first.entry(key).or_insert(at);
        if known != at {
            seen[at].gone = true;
            seen[known].changed = true;
            let sum = &mut seen[known].stack;
            sum.grown.0 += grown.0;
            sum.shared.0 += shared.0;
        }
    }
    let gone: Vec<i64> = seen
        .iter()
        .filter(|row| row.gone)
        .map(|row| row.id)
        .collect();
    delete(connection, "events", &gone)?;
    let mut frames_before: HashMap<ProcessKey, Frames> = HashMap::new();
    for row in seen.into_iter().filter(|row| !row.gone) {
        let mut stack = row.stack;
        let process = stack.process.truncated();
        let before = frames_before.get(&process).unwrap_or(&None);
        let mut changed = row.changed;
        // The row with its frames was deleted.
        if stack.repeats
            && *before != row.frames
            && let Some(frames) = &row.frames
        {
            stack.repeats = false;
            (stack.frames, stack.native) = frames.as_ref().clone();
            changed = true;
        }
        frames_before.insert(process, row.frames);
        if changed {
            rewrite(connection, row.id, &Observation::Stack(stack))?;
        }
    }
    Ok(())
}

/// Returns each row with its frames.
fn resolved(rows: Vec<Row>) -> Vec<Seen> {
    let mut frames: HashMap<ProcessKey, Frames> = HashMap::new();
    let mut seen = Vec::new();
    for Row { id, time, what } in rows {
        let Observation::Stack(stack) = what else {
            continue;
        };
        let process = stack.process.truncated();
        if !stack.repeats {
            let both = (stack.frames.clone(), stack.native.clone());
            frames.insert(process, Some(Arc::new(both)));
        }
        seen.push(Seen {
            id,
            time,
            frames: frames.get(&process).cloned().flatten(),
            stack,
            changed: false,
            gone: false,
        });
    }
    seen
}

/// Adds what all rows of a mapping in a minute freed to the last of them. That row comes after the
/// growth that it offsets.
fn sum_up(
    connection: &Connection,
    rows: Vec<Row>,
    detail_spans: &DetailSpans,
) -> rusqlite::Result<()> {
    let mut last: HashMap<_, (i64, Observation)> = HashMap::new();
    let (mut gone, mut changed) = (Vec::new(), HashMap::new());
    for Row { id, time, mut what } in rows {
        let Observation::Freed {
            process,
            mapping,
            bytes,
        } = &mut what
        else {
            continue;
        };
        if detail_spans.keeps(time) {
            continue;
        }
        let key = (process.truncated(), *mapping, time / MINUTE_NS);
        if let Some((before, Observation::Freed { bytes: more, .. })) = last.get(&key) {
            bytes.0 += more.0;
            gone.push(*before);
            changed.remove(before);
            changed.insert(id, what.clone());
        }
        last.insert(key, (id, what));
    }
    delete(connection, "events", &gone)?;
    for (id, what) in changed {
        rewrite(connection, id, &what)?;
    }
    Ok(())
}
