//! Formats what a process held as a part of a limit, with the percentage.

use crate::ids::{Bytes, SMALL, size};

/// Formats a part, the percentage and the whole: `3.05 GiB`, `38 %`, `8.0 GiB`.
///
/// A size has more digits where those of [`size`] would give another percentage: `3.05 GiB` of
/// `8.0 GiB` are `38 %`, 3.1 of 8.0 would be 39 %.
pub(super) fn part_of(part: Bytes, whole: Bytes) -> [String; 3] {
    let percent =
        |part: f64, whole: f64| format!("{:.0} %", 100.0 * part / whole.max(f64::EPSILON));
    let exact = percent(part.gib(), whole.gib());
    let digits = [(false, false), (true, false)];
    let enough = digits.into_iter().find(|(fine_part, fine_whole)| {
        percent(
            printed_gib(part, *fine_part),
            printed_gib(whole, *fine_whole),
        ) == exact
    });
    let (fine_part, fine_whole) = enough.unwrap_or((true, true));
    let shown = |bytes: Bytes, fine: bool| {
        if fine && bytes.0 >= 1 << 20 {
            bytes.finer_size()
        } else {
            size(bytes)
        }
    };
    [shown(part, fine_part), exact, shown(whole, fine_whole)]
}

/// Returns the GiB that [`size`] prints, or [`Bytes::finer_size`] if `fine`.
fn printed_gib(bytes: Bytes, fine: bool) -> f64 {
    let steps = match bytes.0 {
        0..0x10_0000 => return bytes.gib(),
        0x4000_0000.. if fine => 100.0,
        SMALL.. if !fine => 10.0,
        _ => 1024.0,
    };
    (bytes.gib() * steps).round() / steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_sizes_give_the_percentage() {
        let text = |part: u64, whole: u64| {
            let [part, percent, whole] = part_of(Bytes(part), Bytes(whole));
            format!("{part}, {percent} of {whole}")
        };
        let mib = 1 << 20;
        assert_eq!(text(3124 * mib, 8192 * mib), "3.05 GiB, 38 % of 8.0 GiB");
        assert_eq!(text(2048 * mib, 8192 * mib), "2.0 GiB, 25 % of 8.0 GiB");
        assert_eq!(text(22 * mib, 16 * mib), "22 MiB, 138 % of 16 MiB");
        assert_eq!(text(4096, 16 * mib), "4 KiB, 0 % of 16 MiB");
    }
}
