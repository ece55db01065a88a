//! Tests what calls left behind, on rows of calls.

use super::*;
use crate::ids::ProcessKey;

const MIB: u64 = 1 << 20;

fn call(title: &str, nth: u32, before: u64, after: u64) -> Call {
    Call {
        process: ProcessKey::new(7, 1),
        title: title.into(),
        nth,
        began: BootTime(u64::from(nth) * 1000),
        ended: Some(BootTime(u64::from(nth) * 1000 + 500)),
        before: Some(Bytes(before * MIB)),
        after: Some(Bytes(after * MIB)),
        peak: None,
    }
}

fn folded(calls: &[Call]) -> Calls {
    let mut folded = Calls::default();
    for call in calls {
        folded.fold(call);
    }
    folded
}

fn grown(calls: &[Call]) -> Vec<(String, u32, Option<u64>)> {
    let growth = folded(calls).growth().into_iter();
    growth
        .map(|one| {
            (
                one.title,
                one.calls,
                one.per_call.map(|bytes| bytes.0 / MIB),
            )
        })
        .collect()
}

/// The first calls are warm-up.
#[test]
fn leak_is_what_later_calls_leave_each() {
    let calls = [
        call("ray::A.go", 1, 50, 400),
        call("ray::A.go", 2, 400, 600),
        call("ray::A.go", 3, 600, 800),
    ];
    assert_eq!(grown(&calls), [("ray::A.go".to_owned(), 3, Some(200))]);
}

#[test]
fn memory_given_back_is_no_leak() {
    let calls = [
        call("ray::A.go", 1, 50, 400),
        call("ray::A.go", 2, 60, 400),
        call("ray::A.go", 3, 70, 80),
    ];
    assert_eq!(grown(&calls), [("ray::A.go".to_owned(), 3, None)]);
}

#[test]
fn memory_freed_by_another_method_is_no_leak() {
    let calls = [
        call("ray::A.offload", 1, 50, 250),
        call("ray::A.load", 1, 250, 60),
        call("ray::A.offload", 2, 60, 260),
        call("ray::A.load", 2, 260, 70),
        call("ray::A.offload", 3, 70, 270),
    ];
    let expected = [
        ("ray::A.offload".to_owned(), 3, None),
        ("ray::A.load".to_owned(), 2, None),
    ];
    assert_eq!(grown(&calls), expected);
}

#[test]
fn memory_freed_after_a_call_is_not_kept() {
    let calls = [
        call("ray::A.load", 1, 20, 50),
        call("ray::A.go", 1, 50, 120),
        call("ray::A.go", 2, 80, 150),
        call("ray::A.go", 3, 110, 180),
        call("ray::A.go", 4, 140, 210),
        call("ray::A.go", 5, 170, 200),
    ];
    let mut folded = Calls::default();
    for call in &calls {
        folded.fold(call);
    }
    // The load took as much, but only once, so it is no series.
    let steady = folded.steady().expect("a series");
    assert_eq!(
        (steady.title.as_str(), steady.per_call),
        ("ray::A.go", Some(Bytes(30 * MIB)))
    );
}

#[test]
fn leaking_one_of_two_methods_is_named() {
    let calls = [
        call("ray::A.step", 1, 50, 50),
        call("ray::A.load", 1, 50, 150),
        call("ray::A.step", 2, 150, 150),
        call("ray::A.load", 2, 150, 250),
        call("ray::A.step", 3, 250, 250),
        call("ray::A.load", 3, 250, 350),
    ];
    let expected = [
        ("ray::A.load".to_owned(), 3, Some(100)),
        ("ray::A.step".to_owned(), 3, None),
    ];
    assert_eq!(grown(&calls), expected);
}

#[test]
fn unrecorded_calls_count_in_the_mean() {
    let calls = [
        call("ray::f", 1, 50, 52),
        call("ray::f", 5, 52, 54),
        call("ray::f", 9, 54, 58),
    ];
    // 2 MiB from the fifth call to the ninth.
    assert_eq!(folded(&calls).growth()[0].per_call, Some(Bytes(MIB / 2)));
}

#[test]
fn last_call_with_arguments_is_not_counted() {
    // Each call keeps 30 MiB, and takes 40 MiB for its arguments, which are freed after it.
    let calls = [
        call("ray::A.go", 1, 80, 150),
        call("ray::A.go", 2, 110, 180),
        call("ray::A.go", 3, 140, 210),
        call("ray::A.go", 4, 170, 240),
    ];
    assert_eq!(grown(&calls), [("ray::A.go".to_owned(), 4, Some(30))]);
    let two = grown(&calls[..2]);
    assert_eq!(two, [("ray::A.go".to_owned(), 2, Some(30))]);
}

#[test]
fn single_large_call_does_not_change_the_mean() {
    let calls = [
        call("ray::A.go", 1, 10, 50),
        call("ray::A.go", 2, 50, 80),
        call("ray::A.go", 3, 80, 110),
        call("ray::A.go", 4, 110, 240),
        call("ray::A.go", 5, 240, 270),
        call("ray::A.go", 6, 270, 300),
    ];
    assert_eq!(grown(&calls), [("ray::A.go".to_owned(), 6, Some(30))]);
}

/// What the running call already holds is subtracted.
#[test]
fn next_call_estimate_includes_arguments() {
    let mut folded = folded(&[
        call("ray::A.go", 1, 80, 150),
        call("ray::A.go", 2, 110, 180),
    ]);
    assert_eq!(
        folded.next_call_peak_above("ray::A.go", Bytes(30 * MIB), Bytes(140 * MIB)),
        Some(70 << 20)
    );
    // A call runs that is too short to have been reported. It began at 140 and holds all that it
    // takes.
    assert_eq!(
        folded.next_call_peak_above("ray::A.go", Bytes(30 * MIB), Bytes(210 * MIB)),
        Some(0)
    );
    let mut running = call("ray::A.go", 3, 140, 0);
    running.ended = None;
    folded.fold(&running);
    assert_eq!(
        folded.next_call_peak_above("ray::A.go", Bytes(30 * MIB), Bytes(190 * MIB)),
        Some(20 << 20)
    );
    assert_eq!(
        folded.next_call_peak_above("ray::B.go", Bytes(30 * MIB), Bytes(190 * MIB)),
        None
    );
}

#[test]
fn call_peak_ignores_samples_before_the_call() {
    let mut calls = Calls::default();
    calls.sampled(BootTime(900), Bytes(900 * MIB));
    calls.sampled(BootTime(1100), Bytes(300 * MIB));
    calls.sampled(BootTime(1200), Bytes(200 * MIB));
    calls.fold(&call("ray::A.go", 1, 50, 60));
    assert_eq!(calls.complete[0].peak, Some(Bytes(300 * MIB)));
}

fn held_before(title: &str, mib: &[u64]) -> Vec<Call> {
    let pairs = (1..).zip(mib.windows(2));
    pairs
        .map(|(nth, pair)| call(title, nth, pair[0], pair[1]))
        .collect()
}

#[test]
fn memory_reused_by_later_tasks_was_free() {
    let reused = |title: &str, mib: &[u64]| {
        let found = folded(&held_before(title, mib)).reused();
        found.map(|reused| (reused.task, reused.calls, reused.kept.0 / MIB))
    };
    assert_eq!(
        reused("ray::hog", &[50, 950, 960, 955, 952, 955]),
        Some(("hog".to_owned(), 5, 900))
    );
    // Given back, growing, an actor's state, too few calls.
    assert_eq!(reused("ray::hog", &[50, 60, 50, 52, 50, 51]), None);
    assert_eq!(reused("ray::hog", &[50, 300, 550, 800, 1050, 1300]), None);
    assert_eq!(reused("ray::A.go", &[50, 950, 960, 955, 952, 955]), None);
    assert_eq!(reused("ray::hog", &[50, 950, 960]), None);
}

#[test]
fn tasks_that_free_all_keep_nothing() {
    // The title changes before the task's memory is freed.
    let calls = [
        call("ray::hog", 1, 35, 205),
        call("ray::hog", 2, 45, 215),
        call("ray::hog", 3, 55, 225),
    ];
    assert_eq!(grown(&calls), [("ray::hog".to_owned(), 3, None)]);
}

#[test]
fn first_and_last_calls_suffice_for_growth() {
    // What a long recording keeps: see `recording::retention`.
    let grown_by = grown;
    let tell = |grown: u64| {
        let leak = (1..=1000u32).flat_map(|nth| {
            let base = u64::from(nth) * grown;
            [
                call("ray::A.leak", nth, base, base + grown),
                call("ray::A.look", nth, base + grown, base + grown),
            ]
        });
        let all: Vec<Call> = leak.collect();
        let kept = [&all[..1], &all[all.len() - 64..]].concat();
        (grown_by(&all), grown_by(&kept))
    };
    let (all, kept) = tell(2);
    assert_eq!(kept[0], ("ray::A.leak".to_owned(), 1000, Some(2)));
    assert_eq!((&all[0].2, &all[1].2), (&kept[0].2, &kept[1].2));
    let (all, kept) = tell(0);
    assert!(all.iter().chain(&kept).all(|growth| growth.2.is_none()));
}

#[test]
fn two_warm_up_calls_are_no_trend() {
    let steady = |mib: &[u64]| folded(&held_before("ray::A.go", mib)).steady();
    // Then nothing more, or only what an allocator varies by.
    assert_eq!(steady(&[50, 400, 700, 700, 700, 700, 700]), None);
    assert_eq!(steady(&[50, 400, 700, 702, 703, 705, 706, 708]), None);
    let leak = steady(&[50, 400, 700, 760, 820, 880, 940]).expect("a series");
    assert_eq!(
        (leak.per_call, leak.kept()),
        (Some(Bytes(60 * MIB)), Bytes(240 * MIB))
    );
    // Too few calls to tell.
    assert_eq!(steady(&[50, 400, 700, 760, 820]), None);
}
