//! The timeline of a recording: lifetimes, samples, titles and deaths.

use super::scene::{Scene, key};
use crate::{
    event::{MemorySplit, NodeMemory, Observation, ProcessMemory, Source},
    ids::{Bytes, WallTime},
    judge::report::Utc,
};

#[test]
fn process_has_lifetime_samples_and_death() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    for anon in [1 << 20, 5 << 20] {
        scene.after(1000);
        let memory = MemorySplit {
            anon: Some(Bytes(anon)),
            ..MemorySplit::default()
        };
        let process = key(7);
        let sample = ProcessMemory { process, memory };
        scene.push(Source::Proc, Observation::Memory(sample));
    }
    scene.push(Source::Proc, Observation::Node(NodeMemory::default()));
    scene.after(1000);
    let exit = scene.exit(7, 9);
    let timeline = scene.timeline();
    let worker = timeline
        .processes
        .iter()
        .find(|process| process.process.same(key(7)))
        .expect("the worker");
    // The recording begins 1.000 s after boot. The worker started at 0.070 s.
    let began = 1_700_000_000_000_000_000;
    let at = |ms: i64| Utc(WallTime(began + ms * 1_000_000));
    assert_eq!(timeline.began, at(0));
    assert_eq!(worker.started, Some(at(-930)));
    assert_eq!((worker.ended, worker.death), (Some(at(3)), Some(exit)));
    assert_eq!(
        worker.private[..2],
        [(at(1), Bytes(1 << 20)), (at(2), Bytes(5 << 20))]
    );
    assert_eq!(worker.titles.first(), Some(&(at(0), "ray::hog".to_owned())));
    assert_eq!(worker.cluster, Some(0));
    assert_eq!(timeline.node.len(), 1);
}
