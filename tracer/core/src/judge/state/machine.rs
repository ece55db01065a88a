//! Keeps the machine's memory: the last sample, the peak, and the moment when least was available.

use crate::{
    event::NodeMemory,
    ids::{BootTime, Bytes, SECOND_NS},
    judge::{report::SharedFileUse, state::recent_samples::RecentSamples},
};

/// A count of memory outside Ray is valid for this long. Near a limit, it is made every two
/// seconds.
const OTHERS_NS: i64 = 3 * SECOND_NS;
/// The memory of a process is given back at most this long after its end was seen.
const ENDING_NS: i64 = 2 * SECOND_NS;
/// At most this many such ends are kept.
const MOST_ENDING: usize = 4096;

/// What is known of the machine.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) node: Option<(BootTime, NodeMemory)>,
    /// When most was used, how much that was, and the total.
    pub(crate) peak: Option<(BootTime, Bytes, Bytes)>,
    /// When least was available.
    pub(crate) fullest: Option<FullestMoment>,
    /// What was in use at the first sample.
    pub(crate) used_first: Option<Bytes>,
    /// The last two minutes of used memory, of what counts against the machine's end (memory and
    /// swap), and of shared memory.
    pub(crate) used: RecentSamples,
    pub(crate) whole: RecentSamples,
    pub(crate) shared: RecentSamples,
    /// Private memory outside Ray, as last counted.
    others: Option<(BootTime, Bytes)>,
    /// What processes held that have just ended.
    ending: Vec<(BootTime, Bytes)>,
}

/// The machine at a moment, with all parts of the sum of its memory.
#[derive(Debug)]
pub(crate) struct FullestMoment {
    pub(crate) time: BootTime,
    pub(crate) node: NodeMemory,
    pub(crate) holders: MemoryHolders,
    /// Private memory of all others, if it was counted within [`OTHERS_NS`].
    pub(crate) others: Option<Bytes>,
    /// What processes held that had ended within [`ENDING_NS`]. Since Linux 6.16, the end is seen
    /// before the memory is given back.
    pub(crate) ending: Bytes,
}

/// Who has the memory, as other tables say.
#[derive(Debug)]
pub(crate) struct MemoryHolders {
    /// Private memory of the tracked processes, and how many of them have some.
    pub(crate) tracked: Bytes,
    pub(crate) processes: usize,
    /// The biggest files of shared memory.
    pub(crate) shared: Vec<SharedFileUse>,
}

impl Machine {
    /// Records a sample. `holders` are the figures of other tables at this moment.
    pub(super) fn sampled(
        &mut self,
        time: BootTime,
        node: &NodeMemory,
        holders: impl FnOnce() -> MemoryHolders,
    ) {
        let used = node.used();
        self.used_first.get_or_insert(used);
        self.used.push(time, used);
        self.whole.push(time, Bytes(used.0 + node.swap_used.0));
        self.shared.push(time, node.shmem);
        self.others = node.others.map(|others| (time, others)).or(self.others);
        if self.peak.is_none_or(|(_, peak, _)| used > peak) {
            self.peak = Some((time, used, node.total));
        }
        if self.is_fuller(node) {
            let lately = |(counted, _): &(BootTime, _)| time.since(*counted) <= OTHERS_NS;
            self.fullest = Some(FullestMoment {
                time,
                node: node.clone(),
                holders: holders(),
                others: self.others.filter(lately).map(|(_, others)| others),
                ending: self.ending(time),
            });
        }
        self.node = Some((time, node.clone()));
    }

    /// Records that a process that held this much has ended.
    pub(super) fn ended(&mut self, time: BootTime, held: Bytes) {
        self.ending
            .retain(|(ended, _)| time.since(*ended) <= ENDING_NS);
        if self.ending.len() < MOST_ENDING {
            self.ending.push((time, held));
        }
    }

    fn ending(&self, time: BootTime) -> Bytes {
        let lately = self
            .ending
            .iter()
            .filter(|(ended, _)| (0..=ENDING_NS).contains(&time.since(*ended)));
        Bytes(lately.map(|(_, held)| held.0).sum())
    }

    /// Whether less is available than ever before, with the holders of the rest known.
    fn is_fuller(&self, node: &NodeMemory) -> bool {
        let known = self.fullest.as_ref();
        let fuller = known.is_none_or(|known| node.available < known.node.available);
        fuller && node.remainder().is_some()
    }
}
