//! Tests that a process that ended without an exit event is found in /proc, once, and counted.
//!
//! Needs root (CAP_BPF, CAP_PERFMON). Without it, the test reports that it was skipped.

#[path = "../src/tests/skips.rs"]
mod skips;

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use raytrace::{
    collect::{ClusterFilter, Collector, Ids, Watch},
    ids::Pid,
    observe::{
        kernel::{KernelError, attach},
        processes,
    },
    recording::Sender,
};

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep")
}

#[test]
fn missed_exit_is_found_and_counted_once() {
    let mut kernel = match attach(false) {
        Ok(kernel) => kernel,
        Err(error @ (KernelError::NotPermitted(_) | KernelError::NoBtf { .. })) => {
            skips::skipped(&error);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let (mut gone, mut zombie, mut alive) = (sleeper(), sleeper(), sleeper());
    let keys =
        [&gone, &zombie, &alive].map(|child| processes::key(Pid(child.id())).expect("a key"));
    // They end before they are tracked, so that no event reports it, as if the hook had failed.
    gone.kill().expect("a kill");
    gone.wait().expect("its end");
    zombie.kill().expect("a kill");
    while processes::stat(Pid(zombie.id())).is_some_and(|stat| stat.state != 'Z') {
        std::thread::yield_now();
    }
    for key in keys {
        assert!(kernel.tracked.add(key));
    }
    let watch = Watch::Kernel {
        tracked: kernel.tracked,
        ledgers: kernel.ledgers,
        growth: None,
    };
    let ids = Ids::default();
    let mut collector = Collector::new(
        ids,
        Sender::discarding(),
        watch,
        None,
        ClusterFilter::default(),
    );
    let before = lost(&collector);
    for _ in 0..3 {
        collector.sweep();
    }
    let row = collector.ledger();
    let row = row
        .iter()
        .find(|row| row.hook == "sched/sched_process_exit");
    assert_eq!(row.expect("a row").missed, 2);
    assert!(lost(&collector) >= before + 2, "what was missed is lost");
    // Each death is reported once its verdict has settled.
    let until = Instant::now() + Duration::from_secs(60);
    let mut told = Vec::new();
    while told.len() < 2 {
        assert!(Instant::now() < until, "told: {told:?}");
        std::thread::sleep(Duration::from_millis(50));
        told.extend(collector.take_updates().into_iter().map(|told| told.death));
    }
    told.sort_by_key(|death| death.end.signal);
    let found: Vec<_> = told
        .iter()
        .map(|death| (death.process.pid.0, death.end.signal))
        .collect();
    assert_eq!(found, [(gone.id(), None), (zombie.id(), Some(9))]);
    alive.kill().expect("a kill");
    for child in [&mut zombie, &mut alive] {
        child.wait().expect("its end");
    }
}

fn lost(collector: &Collector) -> u64 {
    collector
        .ledger()
        .iter()
        .map(raytrace::event::Ledger::lost)
        .sum()
}
