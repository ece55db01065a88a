//! Keeps the last row of each item, which decides whether the next one is worth writing.

use std::{collections::HashMap, hash::Hash};

use crate::ids::{BootTime, Bytes, MINUTE_NS};

/// How often a row is written if no figure changes.
pub(super) const AT_LEAST_NS: i64 = MINUTE_NS;

/// Whether a figure changed by at least max(1 MiB, 1 %).
pub(super) fn moved(from: Option<Bytes>, to: Option<Bytes>) -> bool {
    let (from, to) = (from.unwrap_or_default().0, to.unwrap_or_default().0);
    from.abs_diff(to) >= (from / 100).max(1 << 20)
}

/// The last row of each item, with its time.
pub(super) struct Rows<Key, Row>(HashMap<Key, (BootTime, Row)>);

impl<Key, Row> Default for Rows<Key, Row> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<Key: Hash + Eq, Row: Clone> Rows<Key, Row> {
    /// Returns the row if it is to be written: it is the first one, the last one is old, or
    /// `is_news` says that it differs.
    pub(super) fn next(
        &mut self,
        now: BootTime,
        key: Key,
        row: Row,
        is_news: impl FnOnce(&Row, &Row) -> bool,
    ) -> Option<Row> {
        let last = self.0.get(&key);
        let is_due = last
            .is_none_or(|(since, last)| now.since(*since) >= AT_LEAST_NS || is_news(last, &row));
        is_due.then(|| {
            self.0.insert(key, (now, row.clone()));
            row
        })
    }

    pub(super) fn last(&self, key: &Key) -> Option<&Row> {
        self.0.get(key).map(|(_, row)| row)
    }

    /// Forgets the rows of items that no longer exist.
    pub(super) fn retain(&mut self, there: impl Fn(&Key) -> bool) {
        self.0.retain(|key, _| there(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_needs_a_mebibyte_or_a_percent() {
        let mib = |count: u64| Some(Bytes(count << 20));
        assert!(!moved(mib(10), mib(10)));
        assert!(moved(mib(10), mib(11)));
        assert!(!moved(mib(1000), mib(1009)));
        assert!(moved(mib(1000), mib(1010)));
        assert!(moved(None, mib(1)));
    }

    #[test]
    fn row_is_written_when_changed_or_due() {
        let mut rows = Rows::default();
        let mut next = |seconds: u64, row: u32| {
            let now = BootTime(seconds * 1_000_000_000);
            rows.next(now, "a", row, |last, row| last != row)
        };
        assert_eq!(next(1, 5), Some(5));
        assert_eq!(next(2, 5), None);
        assert_eq!(next(3, 6), Some(6));
        assert_eq!(next(62, 6), None);
        assert_eq!(next(63, 6), Some(6));
    }
}
