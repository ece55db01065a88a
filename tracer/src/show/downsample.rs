//! Downsamples a series to what a screen can show, without losing a peak.

/// Returns about `most` of `points` or fewer. They are split into buckets of equal count, and each
/// keeps its first, lowest, highest and last point.
pub fn downsample<T: Copy>(points: &[T], most: usize, figure: impl Fn(&T) -> u64) -> Vec<T> {
    if points.len() <= most {
        return points.to_vec();
    }
    let bucket = points.len().div_ceil((most / 4).max(1));
    let mut kept = Vec::with_capacity(most);
    for part in points.chunks(bucket) {
        let by_figure = |at: &usize| figure(&part[*at]);
        let lowest = (0..part.len()).min_by_key(by_figure).unwrap_or(0);
        let highest = (0..part.len()).max_by_key(by_figure).unwrap_or(0);
        let mut chosen = vec![0, lowest, highest, part.len() - 1];
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|at| part[at]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downsampling_keeps_ends_and_peak() {
        let mut points: Vec<u64> = (0..10_000).map(|at| at % 7).collect();
        points[4321] = 1000;
        let kept = downsample(&points, 100, |point| *point);
        assert!(kept.len() <= 104, "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.contains(&1000));
        assert_eq!(downsample(&points, 10_000, |point| *point), points);
    }
}
