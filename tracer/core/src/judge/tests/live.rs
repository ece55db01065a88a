//! What is alive now, and how near each limit is.

use super::scene::Scene;
use crate::{
    event::{LimitOwner, NodeMemory, Observation, Source},
    ids::{BootTime, Bytes},
    judge::Judge,
};

const GIB: u64 = 1 << 30;

/// Returns where the machine's limit is, and what is left until then, in GiB.
fn end_of_machine(swap_total: Option<Bytes>) -> (u64, u64) {
    let mut scene = Scene::new();
    let node = NodeMemory {
        total: Bytes(16 * GIB),
        available: Bytes(2 * GIB),
        swap_used: Bytes(GIB),
        swap_total,
        ..NodeMemory::default()
    };
    scene.push(Source::Proc, Observation::Node(node));
    let mut judge = Judge::default();
    for event in &scene.events {
        judge.observe(event);
    }
    let now = scene.events.last().map_or(BootTime(0), |event| event.time);
    let live = judge.live(now);
    let mut threats = live.threats.iter();
    let machine = threats.find(|threat| threat.limit_owner == LimitOwner::Machine);
    let machine = machine.expect("the machine's limit");
    (machine.at.0 / GIB, machine.margin.0 / GIB)
}

#[test]
fn free_swap_is_left_until_the_machine_is_full() {
    assert_eq!(end_of_machine(Some(Bytes(8 * GIB))), (24, 9));
    // Earlier recordings have only what is in use.
    assert_eq!(end_of_machine(None), (17, 2));
}
