//! Formats sizes as people read them: GiB with one decimal, MiB below 0.1 GiB.

use crate::ids::{Bytes, SMALL};

const MIB: f64 = 1024.0 * 1024.0;
/// Sums below this are in MiB.
const LARGE: u64 = 1 << 30;

pub use crate::ids::size;

/// Formats what was used above a threshold. Logs round it to two decimals, so it may be below.
pub fn use_above(used: Bytes, threshold: Bytes) -> (String, String) {
    if used > threshold {
        return sizes(used, threshold);
    }
    let rounded = |bytes: Bytes| format!("{:.2} GiB", bytes.gib());
    (rounded(used), rounded(threshold))
}

/// Formats two sizes for comparison, with more digits where they would read the same: `3.84 GiB`,
/// `3.80 GiB`.
pub fn sizes(one: Bytes, other: Bytes) -> (String, String) {
    let rough = (size(one), size(other));
    if rough.0 != rough.1 || one == other {
        return rough;
    }
    let fine = (one.finer_size(), other.finer_size());
    if fine.0 != fine.1 {
        return fine;
    }
    let is_large = one.0.max(other.0) >= LARGE;
    let more = |digits: usize| {
        [one, other].map(|bytes| {
            if is_large {
                format!("{:.digits$} GiB", bytes.gib())
            } else {
                format!("{:.digits$} MiB", bytes.0 as f64 / MIB)
            }
        })
    };
    let digits = if is_large { 3..=6 } else { 1..=3 };
    let mut tried = digits.map(more);
    let finest = more(6);
    let [one, other] = tried.find(|[one, other]| one != other).unwrap_or(finest);
    (one, other)
}

/// Formats GiB with one decimal and no unit, for sums that name the unit once.
pub fn gib(bytes: Bytes) -> String {
    format!("{:.1}", bytes.gib())
}

/// The unit of the figures in one sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// For sums of a GiB and more.
    Gib,
    /// For smaller sums.
    Mib,
}

impl Unit {
    /// Returns the unit for a sum.
    pub fn of(sum: Bytes) -> Self {
        match sum.0 {
            LARGE.. => Self::Gib,
            _ => Self::Mib,
        }
    }

    /// Returns its symbol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gib => "GiB",
            Self::Mib => "MiB",
        }
    }

    /// Formats the sum itself, with the unit.
    pub fn sum(self, bytes: Bytes) -> String {
        format!("{} {}", self.figure(bytes), self.name())
    }

    /// Formats `bytes` in this unit, without the unit.
    pub fn figure(self, bytes: Bytes) -> String {
        match self {
            Self::Gib => gib(bytes),
            Self::Mib => format!("{:.0}", bytes.0 as f64 / MIB),
        }
    }
}

/// Formats `23.9 of 24.0 GiB`; in MiB where the whole is small.
pub fn of(part: Bytes, whole: Bytes) -> String {
    if whole.0 < 1 << 20 {
        format!("{} of {}", size(part), size(whole))
    } else if whole.0 < SMALL {
        format!("{:.0} of {}", part.0 as f64 / MIB, size(whole))
    } else {
        format!("{} of {}", gib(part), size(whole))
    }
}

/// Formats `81.0 %`; `0.0 %` if the whole is 0.
pub fn percent(part: Bytes, whole: Bytes) -> String {
    format!("{:.1} %", share(part, whole) * 100.0)
}

/// Returns the share of `whole` that `part` is.
pub fn share(part: Bytes, whole: Bytes) -> f64 {
    if whole.0 == 0 {
        0.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_below_0_1_gib_are_in_mib() {
        assert_eq!(size(Bytes(0)), "0 MiB");
        assert_eq!(size(Bytes(65_536)), "64 KiB");
        assert_eq!(of(Bytes(4096), Bytes(65_536)), "4 KiB of 64 KiB");
        assert_eq!(size(Bytes(54 << 20)), "54 MiB");
        assert_eq!(size(Bytes(SMALL)), "0.1 GiB");
        assert_eq!(size(Bytes(3 << 30)), "3.0 GiB");
    }

    #[test]
    fn different_sizes_read_differently() {
        let mib = |mib: u64| Bytes(mib << 20);
        assert_eq!(sizes(mib(2048), mib(1024)).0, "2.0 GiB");
        assert_eq!(sizes(mib(3930), mib(3900)).0, "3.84 GiB");
        let close = sizes(mib(1640), mib(1639));
        assert_eq!(close, ("1.602 GiB".into(), "1.601 GiB".into()));
        let kib = |kib: u64| Bytes(kib << 10);
        let close = sizes(kib(8_741_069), kib(8_740_659));
        assert_eq!(close, ("8.3361 GiB".into(), "8.3357 GiB".into()));
        let small = sizes(kib(2100), kib(2000));
        assert_eq!(small, ("2.1 MiB".into(), "2.0 MiB".into()));
    }

    #[test]
    fn figures_of_a_sum_have_no_unit() {
        assert_eq!(Unit::Gib.figure(Bytes(3 << 29)), "1.5");
        assert_eq!(Unit::Mib.figure(Bytes(3 << 20)), "3");
        let small = Bytes(320 << 20);
        assert_eq!(Unit::of(small).sum(small), "320 MiB");
        assert_eq!(Unit::of(Bytes(1 << 30)), Unit::Gib);
    }

    #[test]
    fn part_has_the_unit_of_the_whole() {
        assert_eq!(of(Bytes(1 << 29), Bytes(1 << 30)), "0.5 of 1.0 GiB");
        assert_eq!(of(Bytes(63 << 20), Bytes(64 << 20)), "63 of 64 MiB");
        assert_eq!(percent(Bytes(81), Bytes(100)), "81.0 %");
        assert_eq!(percent(Bytes(81), Bytes(0)), "0.0 %");
    }
}
