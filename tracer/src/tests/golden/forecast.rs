//! Tests the live warnings on a golden recording.

use super::read;
use crate::{
    event::{ForecastProcess, LimitOwner, Observation},
    ids::SECOND_NS,
    judge::{Judge, forecast::LimitForecaster},
};

#[test]
fn warning_comes_30_s_before_rays_kill() {
    let events = read("verl-d").events;
    let (mut judge, mut forecaster) = (Judge::default(), LimitForecaster::default());
    let (mut told, mut killed) = (Vec::new(), None);
    let mut look = events.first().expect("an event").time;
    for event in &events {
        // Once a second, as the recorder does.
        while look <= event.time {
            let warning = forecaster.look(look, &judge);
            told.extend(warning.into_iter().map(|warning| (look, warning)));
            look = look.plus(SECOND_NS);
        }
        judge.observe(event);
        match &event.what {
            Observation::Call(call) => forecaster.called(call),
            Observation::Signal(signal) if signal.signal == 9 => {
                killed = killed.or(Some(event.time));
            }
            _ => {}
        }
    }
    let killed = killed.expect("Ray's kill");
    let before = told.iter().filter(|(time, _)| *time < killed);
    let by_ray = before.filter(|(_, warning)| warning.limit == LimitOwner::RayMonitor);
    let by_ray: Vec<_> = by_ray.collect();
    let [.., (time, warning)] = &by_ray[..] else {
        panic!("nothing was told");
    };
    let lead = killed.since(*time) as f64 / 1e9;
    assert!(
        warning.within.is_some() && lead >= 30.0,
        "{lead} {warning:?}"
    );
    let name = |one: &Option<ForecastProcess>| one.as_ref().map(|one| one.name.clone());
    assert_eq!(
        name(&warning.grower).as_deref(),
        Some("TaskRunner"),
        "{warning:?}"
    );
    assert_eq!(
        name(&warning.victim).as_deref(),
        Some("WorkerDict"),
        "{warning:?}"
    );
}
