//! Attributes pages that forked processes share with their parents, so that a page counts once.
//!
//! A fork without exec (a `DataLoader` worker, a pool of `multiprocessing`) begins with all pages
//! of its parent. Only what it has touched since is its own. The rest counts for its oldest
//! ancestor, so that the figures of a family add up to what the kernel has in use.
//!
//! Families are measured every 10 s, every 2 s near a limit, and never for more than half a percent
//! of the time. Between two measurements, a process's growth counts as its own. If a child's pages
//! may not be read, at most what it has faulted in is its own.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::Memories;
use crate::{
    collect::{output::Output, processes::Processes},
    ids::{BootTime, Bytes, Pid, SECOND_NS},
    observe::forks,
};

const NEAR_NS: i64 = 2 * SECOND_NS;
const FAR_NS: i64 = 10 * SECOND_NS;
/// At most one part in this many of the time is spent on measuring.
const REST: i64 = 200;
/// The time for all measurements of one round. Families that do not fit come first in the next
/// round.
const BUDGET: Duration = Duration::from_millis(100);
/// A fork smaller than this is not measured; its faults count.
const SMALLEST: u64 = 8 << 20;
/// Forks whose faults are read in one round. Those that were read longest ago come first.
const FORKS_AT_ONCE: usize = 200;
/// A figure that changed by less is written when the process is next sampled.
const NEWS: u64 = 1 << 20;
/// The most generations of forks without exec that are followed.
const GENERATIONS: usize = 32;

/// When families are measured.
#[derive(Default)]
pub(super) struct Families {
    due: BootTime,
    /// When each family was last measured, by its root.
    measured: HashMap<Pid, BootTime>,
}

/// One process of a family.
#[derive(Debug, Clone, Copy)]
struct Member {
    anon: u64,
    /// The memory that only this process has mapped.
    own: u64,
}

/// A child, and an upper bound on what it has faulted in.
type Child = (Pid, Bytes);

impl Member {
    /// Returns the memory that relatives have mapped too.
    fn shared(self) -> u64 {
        self.anon.saturating_sub(self.own)
    }

    /// Returns the part of its memory that does not count for it, if `counted` does. It is negative
    /// for a root if its children still hold what it has freed.
    fn elsewhere(self, counted: u64) -> i64 {
        self.anon.cast_signed() - counted.cast_signed()
    }
}

/// Returns what counts for the root of a family: all memory of the root, and what children share
/// that the root has freed. Each child counts what only it has. No page counts twice. A page that
/// some of the children share, but not the root, may be missing.
fn of_root(root: Member, children: &[Member]) -> u64 {
    let most = children.iter().map(|child| child.shared()).max();
    root.anon + most.unwrap_or(0).saturating_sub(root.shared())
}

impl Memories {
    /// Returns the forks by the root of their family, with what each has faulted in.
    fn families(
        &mut self,
        now: BootTime,
        parent: impl Fn(Pid) -> Option<Pid>,
    ) -> BTreeMap<Pid, Vec<Child>> {
        let forks = self.forks(now);
        let mut families: BTreeMap<Pid, Vec<Child>> = BTreeMap::new();
        for (pid, faulted) in &forks {
            let mut root = *pid;
            for _ in 0..GENERATIONS {
                let above = parent(root).filter(|above| self.processes.contains_key(above));
                match above.filter(|_| forks.contains_key(&root)) {
                    Some(above) => root = above,
                    None => break,
                }
            }
            let children = families.entry(root).or_default();
            if root != *pid {
                children.push((*pid, *faulted));
            }
        }
        families
    }

    /// Returns the forks without exec, with what each had faulted in when that was last read.
    fn forks(&mut self, now: BootTime) -> HashMap<Pid, Bytes> {
        let all = self.processes.iter();
        let mut turns: Vec<(Option<BootTime>, Pid)> = all
            .filter(|(_, sampled)| !sampled.executed)
            .map(|(pid, sampled)| (sampled.faulted.map(|(read, _)| read), *pid))
            .collect();
        turns.sort_unstable();
        for (_, pid) in turns.iter().take(FORKS_AT_ONCE) {
            let Some(sampled) = self.processes.get_mut(pid) else {
                continue;
            };
            match forks::forked(*pid) {
                Some(fork) => sampled.faulted = Some((now, fork.faulted)),
                None => sampled.execute(),
            }
        }
        let read = |(_, pid): (_, Pid)| Some((pid, self.processes.get(&pid)?.faulted?.1));
        turns.into_iter().filter_map(read).collect()
    }

    fn anon(&self, pid: Pid) -> u64 {
        let sampled = self.processes.get(&pid);
        sampled.and_then(|one| one.last.anon).unwrap_or_default().0
    }

    /// Gives a process that no longer has a family all of its memory.
    fn without_family(&mut self, families: &BTreeMap<Pid, Vec<Child>>) {
        let gone = |root: &Pid| families.get(root).is_none_or(Vec::is_empty);
        let gone: Vec<Pid> = self
            .families
            .measured
            .keys()
            .copied()
            .filter(gone)
            .collect();
        for root in gone {
            self.families.measured.remove(&root);
            if let Some(sampled) = self.processes.get_mut(&root) {
                sampled.shared = None;
            }
        }
    }

    /// Measures one family. Returns the processes with a figure that changed.
    fn measure(&mut self, root: Pid, children: &[Child], left: &mut Duration) -> Vec<Pid> {
        let mut own = |pid: Pid, anon: u64| {
            if left.is_zero() || anon < SMALLEST {
                return None;
            }
            let pages = forks::sample_pages(pid);
            *left = left.saturating_sub(pages.map_or(BUDGET, |pages| pages.took));
            pages?.own(anon)
        };
        let anon = self.anon(root);
        let member = Member {
            anon,
            // Memory of the root that is not known to be its own is not counted as a child's own
            // either.
            own: own(root, anon).unwrap_or(0),
        };
        let of_children = children.iter().map(|(pid, faulted)| {
            let anon = self.anon(*pid);
            let own = own(*pid, anon).unwrap_or_else(|| anon.min(faulted.0));
            Member { anon, own }
        });
        let members: Vec<Member> = of_children.collect();
        let of_root = member.elsewhere(of_root(member, &members));
        let pids = children.iter().map(|(pid, _)| *pid);
        let elsewhere = members.iter().map(|child| child.elsewhere(child.own));
        let mut told = Vec::new();
        for (pid, elsewhere) in pids.zip(elsewhere).chain([(root, of_root)]) {
            if let Some(sampled) = self.processes.get_mut(&pid) {
                let before = sampled.shared.replace(elsewhere);
                if before.is_none_or(|before| before.abs_diff(elsewhere) >= NEWS) {
                    told.push(pid);
                }
            }
        }
        told
    }

    /// Measures the families that are due, and writes a row for each process with a figure that
    /// changed.
    pub(in crate::collect::samples) fn measure_families(
        &mut self,
        now: BootTime,
        near: bool,
        known: &Processes,
        out: &mut Output,
    ) {
        if now < self.families.due {
            return;
        }
        let parent = |pid: Pid| known.get(pid)?.process.parent;
        let families = self.families(now, parent);
        self.without_family(&families);
        let mut order: Vec<(Option<BootTime>, Pid)> = families
            .keys()
            .map(|root| (self.families.measured.get(root).copied(), *root))
            .collect();
        order.sort_unstable();
        let mut left = BUDGET;
        for (_, root) in order {
            let children = &families[&root];
            if left.is_zero() || children.is_empty() {
                continue;
            }
            self.families.measured.insert(root, now);
            for pid in self.measure(root, children, &mut left) {
                self.sample_one(pid, known, out);
            }
        }
        let spent = BUDGET.saturating_sub(left).as_nanos();
        let rest = i64::try_from(spent)
            .unwrap_or(i64::MAX)
            .saturating_mul(REST);
        let each = if near { NEAR_NS } else { FAR_NS };
        self.families.due = now.plus(each.max(rest));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a family from its pages. Each page has a bit for each process that maps it.
    fn members(pages: &[u8]) -> Vec<Member> {
        let of = |process: u64| {
            let mapped = pages.iter().filter(move |page| (*page >> process) & 1 == 1);
            Member {
                anon: mapped.clone().count() as u64,
                own: mapped.filter(|page| page.is_power_of_two()).count() as u64,
            }
        };
        (0..5).map(of).collect()
    }

    fn sum(members: &[Member]) -> u64 {
        let children = &members[1..];
        of_root(members[0], children) + children.iter().map(|child| child.own).sum::<u64>()
    }

    proptest! {
        #[test]
        fn no_page_counts_twice(pages in proptest::collection::vec(1_u8..32, 0..200)) {
            prop_assert!(sum(&members(&pages)) <= pages.len() as u64);
        }

        #[test]
        fn family_adds_up(kinds in proptest::collection::vec(0_usize..8, 0..200)) {
            // A page is one process's own, or shared by all, or shared by all children after the
            // root freed it.
            let kinds: Vec<u8> = kinds
                .iter()
                .map(|kind| [1, 2, 4, 8, 16, 31, 31, 30][*kind])
                .collect();
            let given_up = kinds.iter().filter(|kind| **kind == 30).map(|_| 1).sum::<usize>();
            prop_assert_eq!(sum(&members(&kinds)), kinds.len() as u64, "{} given up", given_up);
        }
    }

    #[test]
    fn untouched_memory_counts_for_the_parent() {
        const MIB: u64 = 1 << 20;
        let child = |own: u64| Member {
            anon: (1024 + own) * MIB,
            own: own * MIB,
        };
        let root = Member {
            anon: 1024 * MIB,
            own: 0,
        };
        let all = [root, child(0), child(0), child(15), child(15)];
        assert_eq!(sum(&all), (1024 + 30) * MIB);
        assert_eq!(root.elsewhere(of_root(root, &all[1..])), 0);
    }

    /// It counts for the root while its children hold it.
    #[test]
    fn memory_freed_by_the_root_still_counts() {
        let root = Member { anon: 10, own: 4 };
        let child = Member { anon: 100, own: 1 };
        let counted = of_root(root, &[child, child]);
        assert_eq!(counted, 10 + (99 - 6));
        assert_eq!(root.elsewhere(counted), -93);
    }
}
