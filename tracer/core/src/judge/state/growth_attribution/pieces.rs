//! Says how much of a process's growth is still held, as far as that can be known.
//!
//! Memory in a large mapping is measured: what the mapping lost was given back. All other memory is
//! one heap. When a part of it is given back, nobody outside can see whose lines that was, so their
//! figures are then not known. What an interpreter frees while it ends does not count as given
//! back.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::ids::BootTime;

/// Measurements err by one part in this many. Within that share, all was given back, or nothing.
pub(super) const MEASUREMENT_ERROR_DIVISOR: u64 = 20;

/// An interpreter ends in less time.
const END_NS: i64 = 500_000_000;

/// Memory that is given back together.
#[derive(Debug, Clone, Default)]
struct Piece {
    /// How much each site grew it.
    sites: BTreeMap<usize, u64>,
    freed: u64,
    /// The newest part of `freed`.
    recent: VecDeque<(BootTime, u64)>,
}

/// All pieces of one process.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces(HashMap<Option<u32>, Piece>);

impl Pieces {
    /// Records that a site grew a mapping, or the heap.
    pub(super) fn grew(&mut self, mapping: Option<u32>, site: usize, bytes: u64) {
        let piece = self.0.entry(mapping).or_default();
        *piece.sites.entry(site).or_default() += bytes;
    }

    /// Records that a mapping, or the heap, became smaller.
    pub(super) fn freed(&mut self, time: BootTime, mapping: Option<u32>, bytes: u64) {
        let Some(piece) = self.0.get_mut(&mapping) else {
            return;
        };
        piece.freed += bytes;
        piece.recent.push_back((time, bytes));
        let is_old = |(then, _): &(BootTime, u64)| time.since(*then) > END_NS;
        while piece.recent.front().is_some_and(is_old) {
            piece.recent.pop_front();
        }
    }

    /// Tells how much each site grew each piece, and how much of that is held when the process
    /// ended, or now; `None` if that cannot be known.
    pub(super) fn held(
        &self,
        ended: Option<BootTime>,
        mut tell: impl FnMut(usize, u64, Option<u64>),
    ) {
        for (mapping, piece) in &self.0 {
            let whole: u64 = piece.sites.values().sum();
            let alone = mapping.is_some() && piece.sites.len() == 1;
            let at_end =
                |(then, _): &&(BootTime, u64)| ended.is_some_and(|end| end.since(*then) <= END_NS);
            let at_end: u64 = piece
                .recent
                .iter()
                .filter(at_end)
                .map(|(_, bytes)| bytes)
                .sum();
            for (site, bytes) in &piece.sites {
                let held = match piece.freed - at_end {
                    freed if alone => Some(bytes.saturating_sub(freed)),
                    freed if freed <= whole / MEASUREMENT_ERROR_DIVISOR => Some(*bytes),
                    freed if freed >= whole - whole / MEASUREMENT_ERROR_DIVISOR => Some(0),
                    _ => None,
                };
                tell(*site, *bytes, held);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(pieces: &Pieces) -> BTreeMap<usize, Option<u64>> {
        let mut found = BTreeMap::new();
        pieces.held(None, |site, _, held| {
            found.insert(site, held);
        });
        found
    }

    #[test]
    fn mapping_of_one_line_is_measured() {
        let mut pieces = Pieces::default();
        pieces.grew(Some(0), 1, 100);
        pieces.freed(BootTime(1), Some(0), 30);
        pieces.grew(Some(0), 1, 10);
        assert_eq!(held(&pieces), BTreeMap::from([(1, Some(80))]));
    }

    /// Nobody can see whose part of the heap was given back.
    #[test]
    fn partly_freed_heap_is_unknown() {
        let mut pieces = Pieces::default();
        pieces.grew(None, 1, 100);
        pieces.grew(None, 2, 100);
        pieces.freed(BootTime(1), None, 5);
        assert_eq!(
            held(&pieces),
            BTreeMap::from([(1, Some(100)), (2, Some(100))])
        );
        pieces.freed(BootTime(1), None, 95);
        assert_eq!(held(&pieces), BTreeMap::from([(1, None), (2, None)]));
        pieces.freed(BootTime(1), None, 95);
        assert_eq!(held(&pieces), BTreeMap::from([(1, Some(0)), (2, Some(0))]));
    }

    /// What was freed may have been there before the line grew.
    #[test]
    fn single_line_in_a_shrunk_heap_is_unknown() {
        let mut pieces = Pieces::default();
        pieces.grew(None, 1, 100);
        pieces.freed(BootTime(1), None, 50);
        assert_eq!(held(&pieces), BTreeMap::from([(1, None)]));
    }

    #[test]
    fn memory_freed_at_interpreter_exit_was_held() {
        const SECOND: u64 = 1_000_000_000;
        let mut pieces = Pieces::default();
        pieces.grew(Some(0), 1, 100);
        pieces.freed(BootTime(SECOND), Some(0), 40);
        pieces.freed(BootTime(10 * SECOND - 1), Some(0), 60);
        let held = |ended: Option<BootTime>| {
            let mut found = None;
            pieces.held(ended, |_, _, held| found = held);
            found
        };
        assert_eq!(held(None), Some(0));
        assert_eq!(held(Some(BootTime(10 * SECOND))), Some(60));
        assert_eq!(held(Some(BootTime(20 * SECOND))), Some(0));
    }
}
