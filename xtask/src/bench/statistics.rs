//! The median of ratios, with a bootstrap bound.

/// A median with its bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    /// Median.
    pub(super) median: f64,
    /// The value below which 95 % of the bootstrapped medians are.
    pub(super) upper: f64,
}

/// Resamples of the bootstrap.
const RESAMPLES: usize = 10_000;

impl Ratio {
    /// Returns the ratio of all pairs.
    pub(super) fn of(ratios: impl Iterator<Item = f64>) -> Self {
        let ratios: Vec<f64> = ratios.collect();
        let mut random = fastrand::Rng::with_seed(1);
        let mut resample = || {
            let mut sample: Vec<f64> = ratios
                .iter()
                .map(|_| ratios[random.usize(..ratios.len())])
                .collect();
            median(&mut sample)
        };
        let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
        medians.sort_by(f64::total_cmp);
        Self {
            median: median(&mut ratios.clone()),
            upper: medians[RESAMPLES * 95 / 100],
        }
    }
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound of unequal ratios is above the median.
    #[test]
    fn bound_of_equal_ratios_is_their_value() {
        let equal = Ratio::of(std::iter::repeat_n(1.5, 9));
        assert!((equal.median - 1.5).abs() < 1e-9 && (equal.upper - 1.5).abs() < 1e-9);
        let spread = Ratio::of((1..=9).map(f64::from));
        assert!((spread.median - 5.0).abs() < 1e-9);
        assert!((6.0..=9.0).contains(&spread.upper), "{spread:?}");
    }
}
