//! Says how much of a process's anonymous memory is its own.
//!
//! Pages that forked relatives share count once. Samples say how much is shared. The kernel's
//! figures at an end do not, and are split as the last sample was. Recordings of earlier versions
//! do not say it either. There, a forked child has as its own what it has more than its parent had
//! at the fork.

use crate::{
    event::MemorySplit,
    ids::{ByProcess, Bytes, ProcessKey},
};

/// How much of each process's memory counts for a relative. It is negative if pages that the
/// process gave up count for it.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    elsewhere: ByProcess<i64>,
    /// Whether a sample of any process said it.
    told: bool,
    /// The anonymous memory of each process in its last sample.
    anon: ByProcess<Bytes>,
    /// Whose pages a forked child has that ran no other program.
    parents: ByProcess<ProcessKey>,
}

impl Shares {
    /// Records an exec. A new program shares nothing.
    pub(crate) fn executed(&mut self, process: ProcessKey) {
        self.forget(process);
    }

    /// Records a fork: the child has the pages of its parent.
    pub(crate) fn forked(&mut self, parent: ProcessKey, child: ProcessKey) {
        let (parent, child) = (parent.truncated(), child.truncated());
        if let Some(anon) = self.anon.get(&parent).filter(|_| !self.told) {
            self.elsewhere.insert(child, anon.0.cast_signed());
            self.parents.insert(child, parent);
        }
    }

    /// Records a sample, and returns it with the part that is the process's own.
    pub(crate) fn sampled(&mut self, process: ProcessKey, split: &MemorySplit) -> MemorySplit {
        let process = process.truncated();
        if let (Some(anon), Some(own)) = (split.anon, split.own) {
            let elsewhere = anon.0.cast_signed() - own.0.cast_signed();
            self.elsewhere.insert(process, elsewhere);
            self.told = true;
        } else if self.told {
            self.forget(process);
        } else {
            self.inherits(process);
            self.anon.extend(split.anon.map(|anon| (process, anon)));
        }
        self.at_end(process, split)
    }

    /// Once a parent has ended, the pages that its children share count for one of them.
    fn inherits(&mut self, process: ProcessKey) {
        let parent = self.parents.get(&process).copied();
        let Some(parent) = parent.filter(|parent| !self.anon.contains_key(parent)) else {
            return;
        };
        self.forget(process);
        for other in self.parents.values_mut().filter(|other| **other == parent) {
            *other = process;
        }
    }

    /// Whether this recording says what forks share; those of earlier versions do not.
    pub(crate) fn is_recorded(&self) -> bool {
        self.told
    }

    /// Returns the figures at its end, with the part that is its own.
    pub(crate) fn at_end(&self, process: ProcessKey, split: &MemorySplit) -> MemorySplit {
        let elsewhere = self.elsewhere.get(&process.truncated());
        let own = split.anon.zip(elsewhere).map(|(anon, elsewhere)| {
            let own = anon.0.cast_signed() - elsewhere;
            // A process that gave back what it shared holds less than that.
            Bytes(u64::try_from(own).unwrap_or(0))
        });
        MemorySplit {
            own: split.own.or(own),
            ..*split
        }
    }

    /// Drops a process that is gone.
    pub(crate) fn forget(&mut self, process: ProcessKey) {
        let process = process.truncated();
        self.elsewhere.remove(&process);
        self.anon.remove(&process);
        self.parents.remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pid: u32) -> ProcessKey {
        ProcessKey::new(pid, u64::from(pid))
    }

    fn split(anon: u64, own: Option<u64>) -> MemorySplit {
        MemorySplit {
            anon: Some(Bytes(anon)),
            own: own.map(Bytes),
            ..MemorySplit::default()
        }
    }

    #[test]
    fn sampled_share_applies_at_the_end() {
        let mut shares = Shares::default();
        shares.sampled(key(2), &split(3500, Some(40)));
        let own = |shares: &Shares, pid, anon| shares.at_end(key(pid), &split(anon, None)).own;
        assert_eq!(own(&shares, 2, 3510), Some(Bytes(50)));
        assert_eq!(own(&shares, 2, 3000), Some(Bytes(0)));
        shares.sampled(key(1), &split(100, Some(1100)));
        assert_eq!(own(&shares, 1, 90), Some(Bytes(1090)));
    }

    /// Where samples do not say what is shared, a parent's memory counts once, also after its end.
    #[test]
    fn forked_child_counts_what_it_has_more_than_its_parent() {
        let mut shares = Shares::default();
        let own = |shares: &mut Shares, pid, anon| {
            let split = shares.sampled(key(pid), &split(anon, None));
            split.private().map(|bytes| bytes.0)
        };
        assert_eq!(own(&mut shares, 1, 3500), Some(3500));
        for child in [2, 3, 4] {
            shares.forked(key(1), key(child));
        }
        assert_eq!(own(&mut shares, 2, 3515), Some(15));
        assert_eq!(own(&mut shares, 3, 3510), Some(10));
        shares.executed(key(4));
        assert_eq!(own(&mut shares, 4, 50), Some(50));
        assert_eq!(own(&mut shares, 1, 4600), Some(4600));
        assert!(!shares.is_recorded());
        shares.forget(key(1));
        let at_end = shares.at_end(key(2), &split(3520, None));
        assert_eq!(at_end.private(), Some(Bytes(20)));
        assert_eq!(own(&mut shares, 2, 3520), Some(3520));
        assert_eq!(own(&mut shares, 3, 3520), Some(20));
    }

    #[test]
    fn exec_or_unshared_sample_counts_all_memory() {
        let mut shares = Shares::default();
        shares.sampled(key(2), &split(3500, Some(40)));
        shares.executed(key(2));
        assert_eq!(shares.at_end(key(2), &split(50, None)).own, None);
        shares.sampled(key(2), &split(3500, Some(40)));
        shares.sampled(key(2), &split(3500, None));
        assert_eq!(
            shares.at_end(key(2), &split(50, None)).private(),
            Some(Bytes(50))
        );
    }
}
