//! Keeps what Ray's logs said, by worker, by pid and by cluster. The oldest can be dropped.

use std::collections::{HashMap, VecDeque};

use crate::{
    event::RayLog,
    ids::{BootTime, HexId, Pid, ProcessKey},
    judge::state::timestamped::Timestamped,
    ray::facts::RayFact,
};

/// All records, numbered from the first that ever came.
#[derive(Debug, Default)]
pub(in crate::judge) struct RayLogRecords {
    records: VecDeque<Timestamped<RayLog>>,
    /// The number of the oldest record that is kept.
    first: usize,
    by_worker: HashMap<HexId, Vec<usize>>,
    by_pid: HashMap<(ProcessKey, Pid), Vec<usize>>,
    by_cluster: HashMap<ProcessKey, Vec<usize>>,
    /// What each cluster's monitor last said of itself, kept when that record is dropped. It says
    /// so once, at the start.
    monitors: HashMap<ProcessKey, Timestamped<RayLog>>,
}

impl RayLogRecords {
    pub(in crate::judge) fn push(&mut self, record: Timestamped<RayLog>) {
        let number = self.first + self.records.len();
        let about = record.what.fact.about();
        for worker in about.workers {
            self.by_worker.entry(worker).or_default().push(number);
        }
        if let Some(cluster) = record.what.cluster {
            let cluster = cluster.truncated();
            for pid in about.pids {
                self.by_pid.entry((cluster, pid)).or_default().push(number);
            }
            self.by_cluster.entry(cluster).or_default().push(number);
        }
        self.records.push_back(record);
    }

    /// Returns all records, in the order in which they came.
    pub(in crate::judge) fn iter(&self) -> impl DoubleEndedIterator<Item = &Timestamped<RayLog>> {
        self.records.iter()
    }

    /// Returns the records about a worker, or about a pid that Ray prints within a cluster, each
    /// once.
    ///
    /// Other processes may have had the pid before, or have it later. So a record that names only
    /// the pid counts if `its` accepts the time of the record.
    pub(in crate::judge) fn about(
        &self,
        worker: Option<&HexId>,
        process: Option<(ProcessKey, Pid)>,
        its: impl Fn(BootTime) -> bool,
    ) -> impl Iterator<Item = &Timestamped<RayLog>> {
        let by_worker = worker.and_then(|worker| self.by_worker.get(worker));
        let by_pid = process.and_then(|process| self.by_pid.get(&process));
        let meant = |number: &&usize| self.get(**number).is_some_and(|seen| its(seen.time));
        let by_pid = by_pid.into_iter().flatten().filter(meant);
        let by_worker = by_worker.into_iter().flatten();
        let mut numbers: Vec<usize> = by_worker.chain(by_pid).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().filter_map(|number| self.get(number))
    }

    /// Returns the records of a cluster.
    pub(in crate::judge) fn of_cluster(
        &self,
        raylet: ProcessKey,
    ) -> impl DoubleEndedIterator<Item = &Timestamped<RayLog>> {
        let monitor = self.monitors.get(&raylet.truncated());
        let numbers = self.by_cluster.get(&raylet.truncated());
        let left = numbers.into_iter().flatten();
        let left = left.filter_map(|number| self.get(*number));
        monitor.into_iter().chain(left)
    }

    fn get(&self, number: usize) -> Option<&Timestamped<RayLog>> {
        self.records.get(number.checked_sub(self.first)?)
    }

    /// Drops the older half if there are more than `most`. Returns whether there were.
    pub(in crate::judge) fn trim(&mut self, most: usize) -> bool {
        if self.records.len() <= most {
            return false;
        }
        let dropped = self.records.len() - most / 2;
        for record in self.records.drain(..dropped) {
            let is_monitor = matches!(
                record.what.fact,
                RayFact::MonitorStarted { .. } | RayFact::MonitorDisabled
            );
            if let Some(cluster) = record.what.cluster.filter(|_| is_monitor) {
                self.monitors.insert(cluster.truncated(), record);
            }
        }
        self.first += dropped;
        let first = self.first;
        let keep = |numbers: &mut Vec<usize>| {
            numbers.retain(|number| *number >= first);
            !numbers.is_empty()
        };
        self.by_worker.retain(|_, numbers| keep(numbers));
        self.by_pid.retain(|_, numbers| keep(numbers));
        self.by_cluster.retain(|_, numbers| keep(numbers));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Bytes;

    /// A monitor logs its settings once, at the start.
    #[test]
    fn monitor_line_survives_trimming() {
        let raylet = ProcessKey::new(7, 0);
        let record = |fact| Timestamped {
            time: BootTime(0),
            what: RayLog {
                cluster: Some(raylet),
                file: "raylet.out".into(),
                local_time: None,
                text: String::new(),
                fact,
            },
        };
        let mut records = RayLogRecords::default();
        records.push(record(RayFact::MonitorStarted {
            threshold: Bytes(30),
            total: Bytes(32),
            interval_ms: Some(250),
            user_slice_only: false,
        }));
        for _ in 0..100 {
            records.push(record(RayFact::NotRegistered {
                pid: Pid(9),
                alive: true,
            }));
            records.trim(10);
        }
        let mut said = records.of_cluster(raylet);
        let first = said.next().map(|seen| &seen.what.fact);
        assert!(
            matches!(first, Some(RayFact::MonitorStarted { .. })),
            "{first:?}"
        );
        assert!(said.count() <= 10);
    }

    /// Earlier and later processes with that pid are not meant.
    #[test]
    fn pid_only_record_is_matched_by_time() {
        let raylet = ProcessKey::new(7, 0);
        let mut records = RayLogRecords::default();
        for time in [10, 20, 30] {
            records.push(Timestamped {
                time: BootTime(time),
                what: RayLog {
                    cluster: Some(raylet),
                    file: "raylet.out".into(),
                    local_time: None,
                    text: String::new(),
                    fact: RayFact::NotRegistered {
                        pid: Pid(9),
                        alive: true,
                    },
                },
            });
        }
        let its = |time: BootTime| (15..25).contains(&time.0);
        let found: Vec<u64> = records
            .about(None, Some((raylet, Pid(9))), its)
            .map(|seen| seen.time.0)
            .collect();
        assert_eq!(found, [20]);
    }
}
