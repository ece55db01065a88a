//! Finds short-lived processes: forked, perhaps executed a program, ended with 0, no other row.

use std::collections::HashMap;

use super::detail_spans::DetailSpans;
use crate::{
    event::Observation,
    ids::{MINUTE_NS, Pid, ProcessKey},
};

/// The most processes that are followed. If there are more, the rows of those so far stay.
const MOST: usize = 8192;
/// The most rows of one process. The rows of a process with more stay.
const ROWS: usize = 16;
/// All rows about a process are written within this time after its end.
const LATE_NS: i64 = MINUTE_NS;

/// The processes by pid, from their fork on.
#[derive(Default)]
pub(super) struct ShortLived(HashMap<Pid, Life>);

struct Life {
    process: ProcessKey,
    /// The parent, if it is followed too.
    parent: Option<ProcessKey>,
    /// The number of children that are alive, or have rows that stay.
    children: usize,
    rows: Vec<i64>,
    ended: Option<i64>,
}

impl ShortLived {
    /// Takes a row of a fork, an exec or an exit.
    pub(super) fn take(
        &mut self,
        id: i64,
        time: i64,
        what: &Observation,
        detail_spans: &DetailSpans,
    ) {
        match what {
            Observation::Fork { parent, child } => {
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                let known = self.get(*parent).map(|parent| {
                    parent.children += 1;
                    parent.process
                });
                let life = Life {
                    process: *child,
                    parent: known,
                    children: 0,
                    rows: vec![id],
                    ended: None,
                };
                self.0.insert(child.pid, life);
                self.keep_if(child.pid, detail_spans.keeps(time));
            }
            Observation::Exec(exec) => {
                if let Some(life) = self.get(exec.process) {
                    life.rows.push(id);
                    let many = life.rows.len() > ROWS;
                    self.keep_if(exec.process.pid, many || detail_spans.keeps(time));
                }
            }
            Observation::Exit(exit) => {
                if let Some(life) = self.get(exit.process) {
                    life.rows.push(id);
                    let again = life.ended.replace(time).is_some();
                    let stays = again || exit.status != Some(0) || detail_spans.keeps(time);
                    self.keep_if(exit.process.pid, stays);
                }
            }
            _ => {}
        }
    }

    fn get(&mut self, process: ProcessKey) -> Option<&mut Life> {
        let life = self.0.get_mut(&process.pid)?;
        life.process.same(process).then_some(life)
    }

    fn keep_if(&mut self, pid: Pid, stays: bool) {
        if stays {
            self.keep(pid);
        }
    }

    /// Keeps the rows of a process that has another row, and of its parents.
    pub(super) fn keep(&mut self, pid: Pid) {
        self.0.remove(&pid);
    }

    /// Returns the rows of processes that had ended long before `time`, about `most` rows.
    pub(super) fn take_finished(&mut self, time: i64, most: usize) -> Vec<i64> {
        let mut room = most;
        let is_over = |life: &Life| {
            life.children == 0
                && life
                    .ended
                    .is_some_and(|ended| ended < time.saturating_sub(LATE_NS))
        };
        let (over, rest) = std::mem::take(&mut self.0)
            .into_iter()
            .partition::<HashMap<_, _>, _>(|(_, life)| {
                let over = room > 0 && is_over(life);
                if over {
                    room = room.saturating_sub(life.rows.len());
                }
                over
            });
        self.0 = rest;
        let mut rows = Vec::new();
        for life in over.into_values() {
            rows.extend(life.rows);
            if let Some(parent) = life.parent.and_then(|parent| self.get(parent)) {
                parent.children = parent.children.saturating_sub(1);
            }
        }
        rows
    }
}
