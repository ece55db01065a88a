//! The tracked set: the kernel map of processes whose deaths are reported.

use aya::maps::{HashMap, MapData};
use raytrace_ebpf::records;

use crate::ids::{BootTime, Pid, ProcessKey};

/// A `records::Tracked`: the start time, and what the kernel keeps for itself.
type Entry = [u64; 7];

const _: () = assert!(size_of::<Entry>() == size_of::<records::Tracked>());

/// `BPF_NOEXIST`.
const NO_EXIST: u64 = 1;

/// The map from tgid to start time. At a fork, the kernel adds the children of a member.
pub struct Tracked {
    map: HashMap<MapData, u32, Entry>,
}

impl Tracked {
    pub(super) fn new(map: HashMap<MapData, u32, Entry>) -> Self {
        Self { map }
    }

    /// Adds a process that runs already, unless there is one: the kernel may have kept something of
    /// it. Returns false when the map is full.
    pub fn add(&mut self, process: ProcessKey) -> bool {
        let mut entry = Entry::default();
        entry[0] = process.start.0;
        self.contains(process.pid.0) || self.map.insert(process.pid.0, entry, NO_EXIST).is_ok()
    }

    /// Removes a process that turned out to be another one, or to be gone.
    pub fn remove(&mut self, process: ProcessKey) {
        let _gone_already = self.map.remove(&process.pid.0);
    }

    /// Returns all members. While processes come and go, one may be missing or be listed twice.
    pub fn all(&self) -> Vec<ProcessKey> {
        let known = |(pid, [start, ..]): &(u32, Entry)| *start != 0 && *pid != 0;
        let members = self.map.iter().filter_map(Result::ok).filter(known);
        members
            .map(|(pid, [start, ..])| ProcessKey {
                pid: Pid(pid),
                start: BootTime(start),
            })
            .collect()
    }

    /// Removes a process if it is a member, and returns whether it was.
    pub fn take(&mut self, process: ProcessKey) -> bool {
        let there = self
            .map
            .get(&process.pid.0, 0)
            .is_ok_and(|[start, ..]| start == process.start.0);
        there && self.map.remove(&process.pid.0).is_ok()
    }

    /// Whether a process with this pid is a member.
    pub fn contains(&self, pid: u32) -> bool {
        self.map.get(&pid, 0).is_ok()
    }
}
