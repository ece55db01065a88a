//! Growth belongs to the call that ran at that time, even if the call is recorded later.

use super::scene::{MS, Scene, grown, key};
use crate::{
    event::{Call, Observation, Source},
    ids::BootTime,
    judge::{Judge, report::Growth},
};

/// Worker 7 calls `title` between two times in ms. Without an end, the call is still running.
fn calls(scene: &mut Scene, title: &str, began: u64, ended: Option<u64>) {
    let call = Call {
        process: key(7),
        title: title.into(),
        nth: 1,
        began: BootTime(began * MS),
        ended: ended.map(|ended| BootTime(ended * MS)),
        before: None,
        after: None,
        peak: None,
    };
    scene.push(Source::Kernel, Observation::Call(call));
}

/// Worker 7 has grown by `mib` MiB at `ms`, in a function with this name.
fn grows(scene: &mut Scene, ms: u64, function: &str, mib: u64) {
    let mut event = scene.event(Source::Proc, grown(Some(function), mib));
    event.time = BootTime(ms * MS);
    scene.events.push(event);
}

fn owners(growth: &[Growth]) -> Vec<(&str, u64)> {
    let figures = growth
        .iter()
        .map(|one| (one.class.as_str(), one.grown_bytes.0 >> 20));
    figures.collect()
}

#[test]
fn growth_belongs_to_the_call_that_ran() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    calls(&mut scene, "ray::load", 2000, None);
    grows(&mut scene, 3000, "load", 100);
    calls(&mut scene, "ray::load", 2000, Some(7000));
    // Short calls are recorded when they have ended. The stacks of that second may come before or
    // after that.
    grows(&mut scene, 7400, "parse", 300);
    calls(&mut scene, "ray::parse", 7100, Some(7600));
    calls(&mut scene, "ray::parse", 7700, Some(8200));
    calls(&mut scene, "ray::tidy", 8210, Some(8300));
    grows(&mut scene, 8000, "parse", 300);
    // Seen 2 ms after its call has ended.
    grows(&mut scene, 8302, "tidy", 10);
    let report = scene.report();
    let wanted = [("parse", 600), ("load", 100), ("tidy", 10)];
    assert_eq!(owners(&report.growth), wanted);
}

#[test]
fn growth_is_reassigned_as_calls_arrive() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    grows(&mut scene, 7400, "parse", 300);
    calls(&mut scene, "ray::parse", 7100, Some(7600));
    // The call that is still running.
    grows(&mut scene, 9000, "load", 50);
    calls(&mut scene, "ray::load", 8000, None);
    let mut judge = Judge::default();
    let mut found = Vec::new();
    for event in &scene.events {
        judge.observe(event);
        let growth = judge.report().growth;
        found.push(format!("{:?}", owners(&growth)));
    }
    found.dedup();
    let wanted = [
        "[]",
        r#"[("hog", 300)]"#,
        r#"[("parse", 300)]"#,
        r#"[("parse", 350)]"#,
        r#"[("parse", 300), ("load", 50)]"#,
    ];
    assert_eq!(found, wanted);
}

#[test]
fn growth_survives_forgetting_its_process() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    grows(&mut scene, 7400, "parse", 300);
    calls(&mut scene, "ray::parse", 7100, Some(7600));
    let mut judge = Judge::default();
    for event in &scene.events {
        judge.observe(event);
    }
    judge.forget(key(7));
    assert_eq!(owners(&judge.report().growth), [("parse", 300)]);
}
