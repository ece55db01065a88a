//! Holds two figures of one process that are compared, added and recorded together.

/// A smaller change is not recorded.
pub(super) const MOVE: u64 = 1 << 20;

/// Private memory, and shared memory without a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MemoryPair {
    pub(super) private: u64,
    pub(super) shared: u64,
}

impl MemoryPair {
    fn both(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            private: of(self.private, other.private),
            shared: of(self.shared, other.shared),
        }
    }

    pub(super) fn less(self, other: Self) -> Self {
        self.both(other, u64::saturating_sub)
    }

    pub(super) fn more(self, other: Self) -> Self {
        self.both(other, u64::saturating_add)
    }

    pub(super) fn at_most(self, other: Self) -> Self {
        self.both(other, u64::min)
    }

    pub(super) fn at_least(self, other: Self) -> Self {
        self.both(other, u64::max)
    }

    pub(super) fn is_move(self) -> bool {
        self.private >= MOVE || self.shared >= MOVE
    }
}
