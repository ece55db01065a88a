//! The live path of warnings over a golden recording.

use super::read;
use crate::{
    event::{LimitName, NearProcess, Observation},
    ids::SECOND_NS,
    judge::{Judge, foresight::Foresight},
};

#[test]
fn a_real_run_is_warned_of_half_a_minute_before_ray_kills_it() {
    let events = read("verl-d").events;
    let (mut judge, mut foresight) = (Judge::default(), Foresight::default());
    let (mut told, mut killed) = (Vec::new(), None);
    let mut look = events.first().expect("an event").time;
    for event in &events {
        // Each second, as the recorder does.
        while look <= event.time {
            let near = foresight.look(look, &judge);
            told.extend(near.into_iter().map(|near| (look, near)));
            look = look.plus(SECOND_NS);
        }
        judge.observe(event);
        match &event.what {
            Observation::Call(call) => foresight.called(call),
            Observation::Signal(signal) if signal.signal == 9 => {
                killed = killed.or(Some(event.time));
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
