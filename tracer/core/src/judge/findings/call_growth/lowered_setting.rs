//! Computes the value of a setting at which the calls fit that it bounds.

use super::{FrameworkSetting, Method, Run, is_printed, number, tokens};
use crate::{
    ids::Bytes,
    judge::report::Death,
    phrase::{self, when},
    ray::framework::{self, Bound},
};

/// The share of the limit that should be filled after the change.
const FILL: f64 = 0.9;
/// A killed call had not yet taken all that it takes. What it took is multiplied by this.
const UNFINISHED: f64 = 2.0;
/// A call that trains on a batch takes about so many times what a pass over it takes: it keeps
/// activations, and the logits have gradients.
const TRAINING: u64 = 2;
/// A divisor is searched among so many numbers of passes.
const MOST_PARTS: u64 = 100_000;

/// A setting with the value to set.
pub(super) struct LoweredSetting {
    key: String,
    now: u64,
    value: u64,
    /// Settings of other calls that process the same batch, with their present values and those to
    /// set.
    others: Vec<(String, u64, u64)>,
    /// Whether it counts tokens.
    tokens: bool,
    /// Whether nobody has run it.
    from_source: bool,
}

impl LoweredSetting {
    /// Returns the expected saving, as a share of what the killed calls had taken. Calls with the
    /// new value are counted until their end.
    pub(super) fn saves(&self) -> f64 {
        let share = UNFINISHED * self.value as f64 / self.now as f64;
        (1.0 - share).max(0.0)
    }

    /// Returns the settings as they are typed: `a.micro=8 b.micro=8 (now 64 and 32): set both, …`.
    pub(super) fn text(&self) -> String {
        let own = (&self.key, self.now, self.value);
        let others = self.others.iter();
        let others = others.map(|(key, now, value)| (key, *now, *value));
        let all: Vec<(&String, u64, u64)> = std::iter::once(own).chain(others).collect();
        let typed: Vec<String> = all
            .iter()
            .map(|(key, _, value)| format!("{}={value}", framework::typed(key)))
            .collect();
        let now: Vec<String> = all.iter().map(|(_, now, _)| now.to_string()).collect();
        let now = phrase::join(&now);
        let set = match all.len() {
            1 => "",
            2 => ": set both, since the other call passes the same batch",
            _ => ": set all, since the other calls pass the same batch",
        };
        let fewer = when(
            self.tokens,
            ": no effect where the batch of a rank has fewer tokens",
        );
        let source = when(self.from_source, " (inferred, from the source)");
        format!("{} (now {now}){set}{fewer}{source}", typed.join(" "))
    }
}

/// Returns the setting that bounds the method's calls, with a value at which they fit, given what
/// they had taken. The value is a power of two, and at most half of the present one.
pub(super) fn turned(
    run: Run<'_>,
    death: &Death,
    limit: Bytes,
    method: &Method<'_>,
    given: &[FrameworkSetting],
) -> Option<LoweredSetting> {
    let bound = framework::bound(run.framework, method.name)?;
    let known = |key: &str| {
        let mut all = given.iter().filter(|one| !one.overruled);
        all.find(|one| one.key == key).map(|one| one.value.as_str())
    };
    if let Some((key, part)) = &bound.only_with
        && !known(key).is_some_and(|value| value.contains(part.as_str()))
    {
        return None;
    }
    let on = is_switched(bound, known);
    let key = if on {
        bound.instead.as_deref()?
    } else {
        bound.key.as_str()
    };
    // A printed configuration is complete: this version has no other keys.
    let now: u64 = match known(key).filter(|_| !on || is_printed(run)) {
        Some(value) => value.parse().ok()?,
        None => framework::default(key).filter(|_| !on)?,
    };
    // A batch of tokens holds at least one sequence.
    let of_tokens = on || bound.tokens;
    let least = if of_tokens { tokens(given)? } else { 1.0 };
    let used_at_kill = death.memory.used_at_kill().unwrap_or(limit);
    let most = fitting(now, used_at_kill, method.took, limit);
    let value = if of_tokens {
        power_of_two(most).max(Bytes(1).times(least).0)
    } else {
        divisor(now, most)
    };
    let same = bound.and.iter().map(|other| (other, value));
    let trained = bound.trains.iter();
    let others = same.chain(trained.map(|other| (other, value / TRAINING)));
    let others = others.filter(|_| !on).filter_map(|(other, most)| {
        let own = framework::bound_by(run.framework, other);
        let now = number(given, other).filter(|now| *now > most)?;
        let counts = own.is_none_or(|own| !is_switched(own, known));
        let value = if of_tokens { most } else { divisor(now, most) };
        counts.then(|| (other.clone(), now, value))
    });
    (value < now).then(|| LoweredSetting {
        key: key.to_owned(),
        now,
        value,
        others: others.collect(),
        tokens: bound.tokens,
        from_source: bound.from_source,
    })
}

/// Returns whether another setting counts in place of the key. The first switch that is set decides.
fn is_switched<'a>(bound: &Bound, value: impl Fn(&str) -> Option<&'a str>) -> bool {
    let decides = bound.instead_if.iter().find_map(|key| value(key));
    // A switch without a value is on.
    decides.is_some_and(|value| value.is_empty() || value.eq_ignore_ascii_case("true"))
}

/// Returns the largest value with which the calls fit, at most half of the present one.
fn fitting(now: u64, used: Bytes, took: Bytes, limit: Bytes) -> u64 {
    let others = used.0.saturating_sub(took.0) as f64;
    let room = (FILL * limit.0 as f64 - others).max(0.0);
    let share = room / (UNFINISHED * took.0.max(1) as f64);
    Bytes(now).times(share.min(0.5)).0
}

fn power_of_two(most: u64) -> u64 {
    most.checked_ilog2().map_or(1, |power| 1 << power)
}

/// Returns the largest divisor of the present value that is not above `most`. What the present value
/// divides, as frameworks demand of a micro batch, the divisor divides too.
fn divisor(now: u64, most: u64) -> u64 {
    let least = now.div_ceil(most.max(1));
    let mut parts = least..=now.min(least + MOST_PARTS);
    parts
        .find(|parts| now.is_multiple_of(*parts))
        .map_or(1, |parts| now / parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the growth fits with it, and it is at most half of the present value.
    #[test]
    fn fitting_value_leaves_room_and_divides_the_present_one() {
        let gib = |gib: f64| Bytes(1 << 30).times(gib);
        let value = |now, used, took, limit| {
            let most = fitting(now, gib(used), gib(took), gib(limit));
            (divisor(now, most), power_of_two(most))
        };
        // Others hold 3.4 GiB of the 7.6 to fill. That leaves 4.2 for 2 × 5.1.
        assert_eq!(value(64, 8.5, 5.1, 8.5), (16, 16));
        // Never more than half.
        assert_eq!(value(64, 5.0, 0.5, 8.5), (32, 32));
        // No room at all: one at a time.
        assert_eq!(value(64, 9.0, 1.0, 8.5), (1, 1));
        assert_eq!(value(1, 8.5, 5.1, 8.5), (1, 1));
        assert_eq!(value(20, 8.5, 5.1, 8.5), (5, 8));
        assert_eq!(value(7, 5.0, 0.5, 8.5), (1, 2));
        assert_eq!(divisor(u64::MAX, u64::MAX / 2), u64::MAX / 3);
    }
}
