//! Says how much of a process's anonymous memory is its own.
//!
//! Pages that forked relatives share count once. Samples say how much is shared. The kernel's
//! figures at an end do not, and are split as the last sample was. Recordings of earlier versions
//! do not say it either. There, all memory counts.

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
}

impl Shares {
    /// Records an exec. A new program shares nothing.
    pub(crate) fn executed(&mut self, process: ProcessKey) {
        self.forget(process);
    }

    /// Records what a sample says is the process's own.
    pub(crate) fn sampled(&mut self, process: ProcessKey, split: &MemorySplit) {
        if let (Some(anon), Some(own)) = (split.anon, split.own) {
            let elsewhere = anon.0.cast_signed() - own.0.cast_signed();
            self.elsewhere.insert(process.truncated(), elsewhere);
            self.told = true;
        } else {
            self.forget(process);
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
        self.elsewhere.remove(&process.truncated());
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
