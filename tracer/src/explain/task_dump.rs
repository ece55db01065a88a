//! The task dump of a kernel's OOM report, by the names in its header.
//!
//! Columns from 2.6.32 (`cpu oom_adj oom_score_adj`) and 3.10 (`nr_ptes swapents`) to 6.x (`rss_anon rss_file rss_shmem pgtables_bytes`): none is
//! counted on but `tgid`, `rss` and the name at the end.

use crate::{
    ids::{Bytes, Pid},
    judge::from_text::claim::Task,
};

/// A page of nearly every machine that Ray runs on.
const PAGE: u64 = 4096;

/// Where a task dump has what.
#[derive(Debug)]
pub(super) struct Columns {
    count: usize,
    tgid: usize,
    rss: usize,
    anon: Option<usize>,
}

impl Columns {
    pub(super) fn of(header: &str) -> Option<Self> {
        let names: Vec<&str> = header.rsplit(']').next()?.split_whitespace().collect();
        let at = |name: &str| names.iter().position(|known| *known == name);
        Some(Self {
            count: names.len(),
            tgid: at("tgid")?,
            rss: at("rss")?,
            anon: at("rss_anon"),
        })
    }

    /// A row; the name is the last column and may hold spaces.
    pub(super) fn task(&self, row: &str) -> Option<Task> {
        let mut rest = row.trim_start();
        let mut values = Vec::new();
        for _ in 1..self.count {
            let (value, tail) = rest.split_once(char::is_whitespace)?;
            values.push(value);
            rest = tail.trim_start();
        }
        let pages: u64 = values.get(self.anon.unwrap_or(self.rss))?.parse().ok()?;
        Some(Task {
            pid: Pid(values.get(self.tgid)?.parse().ok()?),
            comm: rest.trim_end().to_owned(),
            memory: Bytes(pages.checked_mul(PAGE)?),
        })
    }
}
