//! The scores of a forecast, with intervals of 95 %, beside those of the naive forecast.

use std::{ops::Range, thread};

use fastrand::Rng;

use super::{
    Outcome, replay,
    shapes::{End, FAMILIES, Family, Purpose},
};

/// A warning is in time if it is given this many seconds before the kill. Only growth that took
/// longer than `GREW_S` counts.
const IN_TIME_S: f64 = 10.0;
const GREW_S: f64 = 20.0;
/// Draws of the bootstrap.
const DRAWS: usize = 1000;

/// A family and the outcomes of its shapes.
struct FamilyOutcomes {
    family: &'static Family,
    outcomes: Vec<Outcome>,
}

/// Returns a share as a percentage, with its Wilson interval.
fn share(part: usize, all: usize) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    let (part, all, z) = (part as f64, all as f64, 1.96_f64);
    let mean = part / all;
    let middle = (mean + z * z / (2.0 * all)) / (1.0 + z * z / all);
    let half = z * (mean * (1.0 - mean) / all + z * z / (4.0 * all * all)).sqrt();
    let half = half / (1.0 + z * z / all);
    let percent = |share: f64| 100.0 * share;
    format!(
        "{:.1} % ({:.1} to {:.1})",
        percent(mean),
        percent((middle - half).max(0.0)),
        percent((middle + half).min(1.0))
    )
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Returns a median, with its bootstrap interval.
fn middle(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut rng = Rng::with_seed(7);
    let mut medians: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let mut drawn: Vec<f64> = (0..sorted.len())
                .map(|_| sorted[rng.usize(..sorted.len())])
                .collect();
            drawn.sort_by(f64::total_cmp);
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    format!(
        "{:.0} s ({:.0} to {:.0})",
        median(&sorted),
        medians[DRAWS / 40],
        medians[DRAWS - DRAWS / 40]
    )
}

/// Returns events an hour, with the upper end of the Poisson interval of 95 %. That is 3 events in
/// all if none was seen.
fn rate(count: u32, hours: f64) -> String {
    let seen = f64::from(count);
    let most = if count == 0 {
        3.0
    } else {
        // The Wilson–Hilferty approximation.
        let next = seen + 1.0;
        next * (1.0 - 1.0 / (9.0 * next) + 1.96 / (3.0 * next.sqrt())).powi(3)
    };
    format!("{:.3} (up to {:.3})", seen / hours, most / hours)
}

fn replay_family(family: &'static Family, numbers: Range<u32>) -> FamilyOutcomes {
    let outcomes = numbers.map(|number| replay(&mut family.shape(number)));
    FamilyOutcomes {
        family,
        outcomes: outcomes.collect(),
    }
}

/// Plays the shapes of all families and returns the tables.
///
/// `approaches` is the number of shapes of each family that comes near its limit, `healthy` that of
/// each healthy family. The shapes are numbered from `first`.
pub fn table(approaches: u32, healthy: u32, first: u32) -> String {
    let count = |family: &Family| match family.end {
        End::Killed | End::TurnsBack => approaches,
        // One shape of a week is enough.
        End::Healthy if family.name.contains("week") => 1,
        End::Healthy => healthy,
    };
    let played: Vec<FamilyOutcomes> = thread::scope(|scope| {
        let started = FAMILIES.each_ref().map(|family| {
            let family: &'static Family = &FAMILIES[index_of(family)];
            scope.spawn(move || replay_family(family, first..first + count(family)))
        });
        started
            .into_iter()
            .filter_map(|done| done.join().ok())
            .collect()
    });
    let mut text = String::new();
    for purpose in [Purpose::Scored, Purpose::Tuning] {
        let own: Vec<&FamilyOutcomes> = played
            .iter()
            .filter(|one| one.family.purpose == purpose)
            .collect();
        text += &format!("\n{purpose:?} families\n\n");
        text += "| family | kills | warned in time | naive | median lead | naive | interval held |\n|---|---|---|---|---|---|---|\n";
        let killed: Vec<&&FamilyOutcomes> = own
            .iter()
            .filter(|one| one.family.end == End::Killed)
            .collect();
        for one in &killed {
            text += &row(one.family.name, &one.outcomes);
        }
        let all = |swings: bool| -> Vec<Outcome> {
            let wanted = killed.iter().filter(|one| one.family.swings || !swings);
            wanted.flat_map(|one| one.outcomes.clone()).collect()
        };
        text += &row("saw-teeth and spikes", &all(true));
        text += &row("all", &all(false));
        text += "\n| family | hours | false warnings an hour | naive |\n|---|---|---|---|\n";
        let healthy = own.iter().filter(|one| one.family.end == End::Healthy);
        let mut sums = (0.0, 0, 0);
        for one in healthy {
            let sum = sum(&one.outcomes);
            sums = (sums.0 + sum.0, sums.1 + sum.1, sums.2 + sum.2);
            text += &healthy_row(one.family.name, sum);
        }
        text += &healthy_row("all", sums);
        for one in own.iter().filter(|one| one.family.end == End::TurnsBack) {
            let warned = one.outcomes.iter().filter(|one| one.warnings > 0).count();
            text += &format!(
                "\n{}: warned of and taken back in {}\n",
                one.family.name,
                share(warned, one.outcomes.len())
            );
        }
    }
    text
}

fn index_of(family: &Family) -> usize {
    let place = FAMILIES.iter().position(|one| one.name == family.name);
    place.unwrap_or(0)
}

fn sum(outcomes: &[Outcome]) -> (f64, u32, u32) {
    let of = |figure: fn(&Outcome) -> u32| outcomes.iter().map(figure).sum::<u32>();
    (
        f64::from(of(|one| one.seconds)) / 3600.0,
        of(|one| one.warnings),
        of(|one| one.naive_warnings),
    )
}

fn healthy_row(name: &str, (hours, warnings, naive): (f64, u32, u32)) -> String {
    format!(
        "| {name} | {hours:.0} | {} | {} |\n",
        rate(warnings, hours),
        rate(naive, hours)
    )
}

fn row(name: &str, outcomes: &[Outcome]) -> String {
    let killed: Vec<&Outcome> = outcomes.iter().filter(|one| one.killed.is_some()).collect();
    let slow: Vec<&&Outcome> = killed.iter().filter(|one| one.grew > GREW_S).collect();
    let lead = |one: &Outcome| one.lead.map_or(0.0, |(lead, ..)| lead);
    let in_time = |of: &dyn Fn(&Outcome) -> f64| {
        let warned = slow.iter().filter(|one| of(one) >= IN_TIME_S).count();
        share(warned, slow.len())
    };
    let median = |of: &dyn Fn(&Outcome) -> f64| {
        let leads: Vec<f64> = killed.iter().map(|one| of(one)).collect();
        middle(&leads)
    };
    let told: Vec<(f64, f64, f64)> = killed.iter().filter_map(|one| one.lead).collect();
    let held = told
        .iter()
        .filter(|(lead, low, high)| lead >= low && lead <= high)
        .count();
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} |\n",
        killed.len(),
        in_time(&lead),
        in_time(&|one| one.naive_lead),
        median(&lead),
        median(&|one| one.naive_lead),
        share(held, told.len())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds are coarse, so that this fails only if the forecast has become much worse.
    /// `cargo xtask bench forecast` has the scores.
    #[test]
    fn kills_are_warned_of_and_health_is_quiet() {
        let (mut kills, mut warned, mut hours, mut wrong) = (0, 0, 0.0, 0);
        for family in &FAMILIES {
            let count = match family.end {
                End::Killed => 6,
                End::Healthy if !family.name.contains("week") => 1,
                End::Healthy | End::TurnsBack => 0,
            };
            for number in 0..count {
                let outcome = replay(&mut family.shape(number));
                if family.end == End::Healthy {
                    hours += f64::from(outcome.seconds) / 3600.0;
                    wrong += outcome.warnings;
                } else if outcome.killed.is_some() && outcome.grew > GREW_S {
                    kills += 1;
                    let in_time = outcome.lead.is_some_and(|(lead, ..)| lead >= IN_TIME_S);
                    warned += u32::from(in_time);
                }
            }
        }
        assert!(kills > 90 && hours > 30.0, "{kills} {hours}");
        assert!(
            f64::from(warned) >= 0.9 * f64::from(kills),
            "{warned} of {kills}"
        );
        assert_eq!(wrong, 0, "in {hours} h");
    }
}
