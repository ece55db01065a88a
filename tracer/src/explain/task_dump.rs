//! Reads the task dump of a kernel OOM report by the column names in its header.
//!
//! Columns differ from 2.6.32 (`cpu oom_adj oom_score_adj`) and 3.10 (`nr_ptes swapents`) to 6.x
//! (`rss_anon rss_file rss_shmem pgtables_bytes`). Only `tgid`, `rss` and the name at the end are
//! required.

use crate::{
    ids::{Bytes, Pid},
    judge::from_text::claim::Task,
};

/// The page size of nearly every machine that runs Ray.
const PAGE: u64 = 4096;

/// The positions of the columns that are used.
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

    /// Reads a row. The name is the last column and may contain spaces.
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
            private: self.anon.is_some(),
        })
    }
}
