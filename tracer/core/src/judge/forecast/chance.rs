//! Computes Student's t distribution by approximations.
//!
//! They are those of Wallace (1959) and of Abramowitz and Stegun (26.2.17, 26.2.23).

fn normal_above(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_530,
    ]
    .into_iter()
    .fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = sum * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    if z < 0.0 { 1.0 - tail } else { tail }
}

fn normal_quantile(chance: f64) -> f64 {
    let tail = chance.min(1.0 - chance).max(1e-12);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - above / below;
    if chance < 0.5 { z } else { -z }
}

/// Returns the factor by which Wallace's approximation scales a normal deviation.
fn scale(freedom: f64) -> f64 {
    (8.0 * freedom + 3.0) / (8.0 * freedom + 1.0)
}

/// Returns the probability that a t-distributed value is above `t`.
pub(super) fn upper_tail(t: f64, freedom: f64) -> f64 {
    let z = (freedom * (t * t / freedom).ln_1p()).sqrt() / scale(freedom);
    normal_above(z.copysign(t))
}

/// Returns the level that a t-distributed value exceeds with this probability.
pub(super) fn quantile(chance: f64, freedom: f64) -> f64 {
    let z = normal_quantile(chance) * scale(freedom);
    let t = (freedom * (z * z / freedom).exp_m1()).sqrt();
    t.copysign(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        for (chance, freedom, expected) in [
            (0.05, 3.0, 2.353),
            (0.01, 5.0, 3.365),
            (0.001, 10.0, 4.144),
            (0.9, 30.0, -1.310),
        ] {
            let t = quantile(chance, freedom);
            assert!((t / expected - 1.0).abs() < 0.01, "{t} {expected}");
            let back = upper_tail(t, freedom);
            assert!((back / chance - 1.0).abs() < 0.01, "{back} {chance}");
        }
    }
}
