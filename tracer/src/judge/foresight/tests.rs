//! The live path over a golden recording, and over levels alone.

use super::*;
use crate::{event::Observation, golden};

const GIB: f64 = 1_073_741_824.0;

/// The turns of a level that is asked for each second.
fn turns(seconds: u32, mut level: impl FnMut(f64) -> f64) -> Vec<(u32, Turn)> {
    let mut approach: Option<Approach> = None;
    let mut found = Vec::new();
    for second in 0..seconds {
        let time = f64::from(second);
        let point = Point {
            time: 1000.0 + time,
            level: level(time) * GIB,
        };
        let approach = approach.get_or_insert_with(|| Approach::new(point));
        found.extend(approach.step(point, 100.0 * GIB).map(|turn| (second, turn)));
    }
    found
}

#[test]
fn a_steady_rise_is_told_once_with_the_time_that_is_left() {
    let found = turns(260, |time| 50.0 + (time - 60.0).max(0.0) * 0.25);
    let [(second, Turn::Near(forecast))] = found[..] else {
        panic!("{found:?}");
    };
    let left = 260.0 - f64::from(second);
    assert!(left >= 30.0 && forecast.low <= left && left <= forecast.high);
}

#[test]
fn peaks_that_rise_are_foreseen_long_before_the_last_rise_begins() {
    // Teeth of 20 GiB each half minute, each 2 GiB above the last: the limit is met in the sixteenth.
    let found = turns(460, |time| {
        50.0 + (time / 30.0).floor() * 2.0 + 20.0 * (time % 30.0) / 30.0
    });
    let (second, Turn::Near(forecast)) = found[0] else {
        panic!("{found:?}");
    };
    assert!(
        found.len() == 1 && second < 400 && forecast.kind == Kind::Tops,
        "{found:?}"
    );
}

#[test]
fn what_stays_below_the_limit_is_not_told() {
    assert_eq!(turns(5000, |time| 92.0 + (time / 7.0).sin()), []);
    assert_eq!(
        turns(5000, |time| 75.0 + 20.0 * (time % 40.0) / 40.0 - 20.0),
        []
    );
    assert_eq!(turns(5000, |time| 93.0 - 60.0 * (-time / 300.0).exp()), []);
}

#[test]
fn a_rise_that_gives_back_is_taken_back() {
    let found = turns(400, |time| match time {
        ..60.0 => 50.0,
        ..240.0 => 50.0 + (time - 60.0) * 0.25,
        _ => 50.0,
    });
    assert!(
        matches!(
            found[..],
            [(..240, Turn::Near(_)), (240..260, Turn::Over(_))]
        ),
        "{found:?}"
    );
}

#[test]
fn after_a_kill_the_next_approach_is_told_as_if_it_were_the_first() {
    // The same job, killed at its limit after 200 s and started again.
    let level = |time: f64| 50.0 + (time % 230.0 - 30.0).clamp(0.0, 170.0) * 0.29;
    let found = |is_told: bool| {
        let mut approach: Option<Approach> = None;
        let mut found = Vec::new();
        for second in 0..460 {
            let time = f64::from(second);
            let point = Point {
                time: 1000.0 + time,
                level: level(time) * GIB,
            };
            let approach = approach.get_or_insert_with(|| Approach::new(point));
            if is_told && second == 231 {
                approach.killed(1229.9);
                approach.killed(1229.9);
            }
            let turn = approach.step(point, 99.3 * GIB);
            found.extend(turn.map(|turn| (second, matches!(turn, Turn::Near(_)))));
        }
        found
    };
    let turns = |found: &[(u32, bool)]| found.iter().map(|turn| turn.1).collect::<Vec<_>>();
    assert_eq!(turns(&found(false)), [true, false]);
    let told = found(true);
    assert_eq!(turns(&told), [true, false, true], "{told:?}");
    assert!((230..240).contains(&told[1].0), "{told:?}");
}

#[test]
fn a_real_run_is_warned_of_half_a_minute_before_ray_kills_it() {
    let events = golden::read("verl-d").events;
    let (mut judge, mut foresight) = (Judge::default(), Foresight::default());
    let (mut told, mut second, mut killed) = (Vec::new(), 0, None);
    for event in &events {
        judge.observe(event);
        match &event.what {
            Observation::Call(call) => foresight.called(call),
            Observation::Signal(signal) if signal.signal == 9 => {
                killed = killed.or(Some(event.time));
            }
            Observation::Node(_) if event.time.0 / 1_000_000_000 > second => {
                second = event.time.0 / 1_000_000_000;
                let near = foresight.look(event.time, &judge);
                told.extend(near.into_iter().map(|near| (event.time, near)));
            }
            _ => {}
        }
    }
    let killed = killed.expect("Ray's kill");
    let before = told.iter().filter(|(time, _)| *time < killed);
    let by_ray = before.filter(|(_, near)| near.limit == LimitName::RayMonitor);
    let by_ray: Vec<_> = by_ray.collect();
    let [.., (time, near)] = &by_ray[..] else {
        panic!("nothing was told");
    };
    let lead = killed.since(*time) as f64 / 1e9;
    assert!(near.within.is_some() && lead >= 30.0, "{lead} {near:?}");
    let name = |one: &Option<NearProcess>| one.as_ref().map(|one| one.name.clone());
    assert_eq!(name(&near.doer).as_deref(), Some("TaskRunner"), "{near:?}");
    assert_eq!(
        name(&near.victim).as_deref(),
        Some("WorkerDict"),
        "{near:?}"
    );
}
