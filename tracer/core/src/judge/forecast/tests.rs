//! Tests warnings, most of them on levels alone.

use super::*;
use crate::{
    event::{
        CgroupState, Event, MemorySplit, NodeMemory, Observation, Process, ProcessMemory, Role,
        Source,
    },
    ids::EventId,
};

const GIB: f64 = 1_073_741_824.0;

/// Returns how the warning changes with a level that is read each second.
fn turns(seconds: u32, mut level: impl FnMut(f64) -> f64) -> Vec<(u32, WarningChange)> {
    let mut state: Option<WarningState> = None;
    let mut found = Vec::new();
    for second in 0..seconds {
        let time = f64::from(second);
        let point = Point {
            time: 1000.0 + time,
            level: level(time) * GIB,
        };
        let state = state.get_or_insert_with(|| WarningState::new(point));
        found.extend(state.step(point, 100.0 * GIB).map(|turn| (second, turn)));
    }
    found
}

/// The warning has the time that is left.
#[test]
fn steady_rise_is_warned_of_once() {
    let found = turns(260, |time| 50.0 + (time - 60.0).max(0.0) * 0.25);
    let [(second, WarningChange::Begun(forecast))] = found[..] else {
        panic!("{found:?}");
    };
    let left = 260.0 - f64::from(second);
    assert!(left >= 30.0 && forecast.low <= left && left <= forecast.high);
}

/// The warning comes long before the last rise begins.
#[test]
fn rising_peaks_are_forecast_early() {
    // Teeth of 20 GiB each half minute, each 2 GiB higher than the last. The sixteenth hits the
    // limit.
    let found = turns(460, |time| {
        50.0 + (time / 30.0).floor() * 2.0 + 20.0 * (time % 30.0) / 30.0
    });
    let (second, WarningChange::Begun(forecast)) = found[0] else {
        panic!("{found:?}");
    };
    assert!(
        found.len() == 1 && second < 400 && forecast.kind == Kind::Peaks,
        "{found:?}"
    );
}

#[test]
fn level_below_the_limit_gives_no_warning() {
    assert_eq!(turns(5000, |time| 92.0 + (time / 7.0).sin()), []);
    assert_eq!(
        turns(5000, |time| 75.0 + 20.0 * (time % 40.0) / 40.0 - 20.0),
        []
    );
    assert_eq!(turns(5000, |time| 93.0 - 60.0 * (-time / 300.0).exp()), []);
}

/// A level that comes near the limit again and again, without order, does not warn each time.
#[test]
fn warning_does_not_flap_at_the_limit() {
    // Teeth of a minute whose peaks are between 86 and 98 GiB: for three hours.
    let mut peak = 90.0;
    let mut drawn = 1_u32;
    let found = turns(3 * 3600, |time| {
        if time % 60.0 == 0.0 {
            drawn = drawn.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            peak = 86.0 + f64::from(drawn >> 16 & 0xff) / 255.0 * 12.0;
        }
        50.0 + (peak - 50.0) * (time % 60.0) / 60.0
    });
    // A level just below the limit that never rests.
    let near = turns(3 * 3600, |time| {
        drawn = drawn.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        96.0 + 2.0 * (time / 40.0).sin() + f64::from(drawn >> 16 & 0xff) / 255.0
    });
    println!("{} {}", found.len(), near.len());
    assert!(found.len() <= 2 && near.len() <= 2, "{found:?} {near:?}");
}

#[test]
fn freed_memory_ends_the_warning() {
    let found = turns(400, |time| match time {
        ..60.0 => 50.0,
        ..240.0 => 50.0 + (time - 60.0) * 0.25,
        _ => 50.0,
    });
    assert!(
        matches!(
            found[..],
            [
                (..240, WarningChange::Begun(_)),
                (240..260, WarningChange::Over(_))
            ]
        ),
        "{found:?}"
    );
}

#[test]
fn warning_after_a_kill_is_like_the_first() {
    // The same job, killed at its limit after 200 s and started again.
    let level = |time: f64| 50.0 + (time % 230.0 - 30.0).clamp(0.0, 170.0) * 0.29;
    let found = |is_told: bool| {
        let mut state: Option<WarningState> = None;
        let mut found = Vec::new();
        for second in 0..460 {
            let time = f64::from(second);
            let point = Point {
                time: 1000.0 + time,
                level: level(time) * GIB,
            };
            let state = state.get_or_insert_with(|| WarningState::new(point));
            if is_told && second == 231 {
                state.killed(1229.9);
                state.killed(1229.9);
            }
            let turn = state.step(point, 99.3 * GIB);
            found.extend(turn.map(|turn| (second, matches!(turn, WarningChange::Begun(_)))));
        }
        found
    };
    let turns = |found: &[(u32, bool)]| found.iter().map(|turn| turn.1).collect::<Vec<_>>();
    assert_eq!(turns(&found(false)), [true, false]);
    let told = found(true);
    assert_eq!(turns(&told), [true, false, true], "{told:?}");
    assert!((230..240).contains(&told[1].0), "{told:?}");
}

/// A kill was reported, but its memory is not freed yet.
#[test]
fn memory_not_yet_freed_is_no_peak() {
    // A look just before a step of the last tooth, then the kill, then a look before the memory is
    // freed.
    let level = |second: u32| match second {
        60..100 => 15.0 + f64::from(second - 60) * 2.0,
        100 => 99.9,
        101 => 60.0,
        ..140 => 15.0,
        _ => (15.0 + f64::from(second - 140) * 1.7).min(88.0),
    };
    let mut state = WarningState::new(Point {
        time: 1000.0,
        level: level(0) * GIB,
    });
    let mut found = Vec::new();
    for second in 1..200 {
        if second == 100 {
            state.killed(1099.6);
        }
        let point = Point {
            time: 1000.0 + f64::from(second),
            level: level(second) * GIB,
        };
        let turn = state.step(point, 100.0 * GIB);
        found.extend(turn.map(|turn| (second, matches!(turn, WarningChange::Begun(_)))));
    }
    let again = found
        .iter()
        .any(|(second, warning)| *warning && *second > 140);
    assert!(again, "{found:?}");
}

/// Lets the judge observe something at this many seconds after boot.
fn observe_at(judge: &mut Judge, second: u64, what: Observation) {
    judge.observe(&Event {
        id: EventId(second),
        time: BootTime(second * 1_000_000_000),
        source: Source::Proc,
        what,
    });
}

#[test]
fn limit_of_idle_processes_is_kept() {
    let mut judge = Judge::default();
    let process = ProcessKey::new(7, 1);
    let mut observe = |second, what| observe_at(&mut judge, second, what);
    observe(
        1,
        Observation::Node(NodeMemory {
            total: Bytes(64 << 30),
            available: Bytes(32 << 30),
            ..NodeMemory::default()
        }),
    );
    observe(
        2,
        Observation::Process(Process {
            process,
            parent: None,
            process_group: None,
            slurm: None,
            ns_pid: None,
            comm: "worker".to_owned(),
            argv: vec!["worker".to_owned()],
            exe: None,
            uid: Some(0),
            cgroup: Some("/pod/job".to_owned()),
            container_id: None,
            role: Role::Worker,
            cluster: None,
        }),
    );
    observe(
        3,
        Observation::Cgroup(CgroupState {
            path: "/pod".to_owned(),
            usage: Bytes(7 << 30),
            limit: Some(Bytes(8 << 30)),
            oom_kills: None,
            anon: None,
            file: None,
            shmem: None,
            kernel: None,
            swap: None,
            stalled_us: None,
        }),
    );
    // A process at rest has a row every ten minutes.
    let memory = MemorySplit {
        anon: Some(Bytes(6 << 30)),
        ..MemorySplit::default()
    };
    observe(4, Observation::Memory(ProcessMemory { process, memory }));
    let mut forecaster = LimitForecaster::default();
    for second in 4..610 {
        forecaster.look(BootTime(second * 1_000_000_000), &judge);
        let pod = LimitOwner::Cgroup("/pod".to_owned());
        let limit = forecaster
            .limits
            .iter()
            .find(|limit| limit.limit_owner == pod);
        let used = limit.and_then(|limit| limit.state.history.latest());
        assert_eq!(used, Some((7_u64 << 30) as f64), "{second}");
    }
}

/// Returns a judge with workers of these titles, each of which grew by this many GiB within a
/// minute.
fn grown(workers: &[(&str, u64)]) -> Judge {
    let mut judge = Judge::default();
    let mut observe = |second, what| observe_at(&mut judge, second, what);
    for (pid, (title, gib)) in (1..).zip(workers) {
        let process = ProcessKey::new(pid, 1);
        observe(
            1,
            Observation::Process(Process {
                process,
                parent: None,
                process_group: None,
                slurm: None,
                ns_pid: None,
                comm: title.chars().take(15).collect(),
                argv: vec![(*title).to_owned()],
                exe: None,
                uid: Some(0),
                cgroup: None,
                container_id: None,
                role: Role::Worker,
                cluster: None,
            }),
        );
        for (second, held) in [(2, 1), (60, 1 + gib)] {
            let memory = MemorySplit {
                anon: Some(Bytes(held << 30)),
                ..MemorySplit::default()
            };
            observe(
                second,
                Observation::Memory(ProcessMemory { process, memory }),
            );
        }
    }
    judge
}

/// Ranks of one actor class are not counted.
#[test]
fn tasks_that_grow_together_are_counted() {
    let grower_of = |workers: &[(&str, u64)]| {
        let judge = grown(workers);
        let at = |second: u64| BootTime(second * 1_000_000_000);
        let found = grower(&judge.world, &LimitOwner::Machine, at(61), at(2), None);
        found.map(|(grower, at_once)| (grower.name, at_once))
    };
    let score = |gib| ("ray::compute_score", gib);
    // None of the five has a quarter of the growth, but together they have.
    let tasks = [score(2), score(3), score(2), score(2), score(2), score(0)];
    assert_eq!(grower_of(&tasks), Some(("compute_score".to_owned(), 5)));
    let rank = |gib| ("ray::WorkerDict.generate", gib);
    let ranks = [rank(5), rank(4), score(1)];
    assert_eq!(grower_of(&ranks), Some(("WorkerDict".to_owned(), 0)));
}
