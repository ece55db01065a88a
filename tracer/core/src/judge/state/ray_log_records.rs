//! Keeps what Ray's logs said, by worker, by pid and by cluster. How much is kept is bounded.

use std::collections::{BTreeMap, HashMap};

use crate::{
    event::RayLog,
    ids::{BootTime, HexId, Pid, ProcessKey, SECOND_NS},
    judge::state::timestamped::Timestamped,
    ray::facts::RayFact,
};

/// At most this many records are kept: about 30 MB. Ray writes a few for each worker, but anybody
/// may start something that is called a raylet and writes millions.
const MOST: usize = 32_768;
/// A process is described at most this long after a log names it.
const DESCRIBED_NS: i64 = 30 * SECOND_NS;

/// How many records of a cluster were left out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// They named no process that was seen.
    pub(crate) strays: u64,
    /// They were the oldest.
    pub(crate) oldest: u64,
}

/// The records that are kept, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct RayLogRecords {
    records: Vec<Timestamped<RayLog>>,
    left_out: BTreeMap<Option<ProcessKey>, LeftOut>,
    by_worker: HashMap<HexId, Vec<usize>>,
    by_pid: HashMap<(ProcessKey, Pid), Vec<usize>>,
    by_cluster: HashMap<ProcessKey, Vec<usize>>,
    /// What each cluster's monitor last said of itself, kept when that record is dropped. It says
    /// so once, at the start.
    monitors: HashMap<ProcessKey, Timestamped<RayLog>>,
}

impl RayLogRecords {
    pub(crate) fn push(&mut self, record: Timestamped<RayLog>) {
        let number = self.records.len();
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
        self.records.push(record);
    }

    /// Returns all records, in the order in which they came.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Timestamped<RayLog>> {
        self.records.iter()
    }

    /// Returns the records about a worker, or about a pid that Ray prints within a cluster, each
    /// once.
    ///
    /// Other processes may have had the pid before, or have it later. So a record that names only
    /// the pid counts if `its` accepts the time of the record.
    pub(crate) fn about(
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
    pub(crate) fn of_cluster(
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
        self.records.get(number)
    }

    /// Returns how many records of each cluster were left out.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (Option<ProcessKey>, LeftOut)> + '_ {
        self.left_out
            .iter()
            .map(|(cluster, left)| (*cluster, *left))
    }

    /// Whether there are so many that some must be left out.
    pub(crate) fn is_full(&self) -> bool {
        self.records.len() > MOST
    }

    /// Whether deaths should be judged, because records may be left out soon.
    pub(crate) fn is_filling(&self) -> bool {
        self.records.len() > MOST / 2
    }

    /// Leaves records out until at most half of [`MOST`] are kept, or no cluster has more than its
    /// share: first those for which `is_stray`, then those of clusters with more than their share,
    /// the oldest first. So a cluster that writes many costs no other cluster its records.
    pub(crate) fn make_room(&mut self, now: BootTime, is_stray: impl Fn(&RayLog) -> bool) {
        self.remove(
            |seen, _| now.since(seen.time) > DESCRIBED_NS && is_stray(&seen.what),
            |left| &mut left.strays,
        );
        if self.records.len() <= MOST / 2 {
            return;
        }
        self.remove(
            |seen, is_over| is_over && is_stray(&seen.what),
            |left| &mut left.strays,
        );
        self.remove(|_, is_over| is_over, |left| &mut left.oldest);
    }

    /// Removes the records for which `goes`, and counts them. It is also told whether newer records
    /// of that cluster fill its share.
    fn remove(
        &mut self,
        goes: impl Fn(&Timestamped<RayLog>, bool) -> bool,
        count: impl Fn(&mut LeftOut) -> &mut u64,
    ) {
        let mut after: HashMap<Option<ProcessKey>, usize> = HashMap::new();
        for seen in &self.records {
            *after.entry(cluster(seen)).or_default() += 1;
        }
        let share = MOST / 2 / after.len().max(1);
        self.by_worker.clear();
        self.by_pid.clear();
        self.by_cluster.clear();
        for record in std::mem::take(&mut self.records) {
            let cluster = cluster(&record);
            let newer = after.entry(cluster).or_default();
            *newer = newer.saturating_sub(1);
            if goes(&record, *newer >= share) {
                *count(self.left_out.entry(cluster).or_default()) += 1;
                self.keep_monitor(record);
            } else {
                self.push(record);
            }
        }
    }

    fn keep_monitor(&mut self, record: Timestamped<RayLog>) {
        let is_monitor = matches!(
            record.what.fact,
            RayFact::MonitorStarted { .. } | RayFact::MonitorDisabled
        );
        if let Some(cluster) = cluster(&record).filter(|_| is_monitor) {
            self.monitors.insert(cluster, record);
        }
    }
}

fn cluster(record: &Timestamped<RayLog>) -> Option<ProcessKey> {
    record.what.cluster.map(ProcessKey::truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Bytes;

    /// A monitor logs its settings once, at the start.
    #[test]
    fn monitor_line_survives_a_flood_and_other_clusters_keep_theirs() {
        let raylet = ProcessKey::new(7, 0);
        let other = ProcessKey::new(8, 0);
        let record = |raylet, fact| Timestamped {
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
        let monitor = |threshold| RayFact::MonitorStarted {
            threshold: Bytes(threshold),
            total: Bytes(32),
            interval_ms: Some(250),
            user_slice_only: false,
        };
        let about = |pid| RayFact::NotRegistered {
            pid: Pid(pid),
            alive: true,
        };
        records.push(record(raylet, monitor(30)));
        for _ in 0..10 {
            records.push(record(other, about(1)));
        }
        let is_stray = |said: &RayLog| said.fact == about(2);
        for pid in [2, 3] {
            for _ in 0..2 * MOST {
                records.push(record(raylet, about(pid)));
                if records.is_full() {
                    records.make_room(BootTime(0), is_stray);
                }
            }
        }
        let mut said = records.of_cluster(raylet);
        let first = said.next().map(|seen| &seen.what.fact);
        assert_eq!(first, Some(&monitor(30)));
        let kept = said.count();
        assert!((MOST / 4..=MOST).contains(&kept), "{kept}");
        assert_eq!(records.of_cluster(other).count(), 10);
        let left: Vec<_> = records.left_out().collect();
        let [(Some(of), left)] = left.as_slice() else {
            panic!("{left:?}");
        };
        assert!(of.same(raylet));
        let all = (4 * MOST) as u64;
        assert!(left.strays <= all / 2 && left.oldest <= all / 2, "{left:?}");
        assert_eq!(left.strays + left.oldest + kept as u64, all + 1);
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
