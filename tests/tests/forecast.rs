//! Compares who is forecast to kill first, and when, with what happens.
//!
//! The staged machines differ in who kills first.

use std::path::Path;

use raytrace::{
    event::{Event, LimitOwner, Observation},
    ids::BootTime,
    judge::Judge,
    recording,
};
use raytrace_tests::{
    recorder::Recorder,
    skipped,
    staging::{self, WaitingScript},
    truth::PrivilegeMode,
};

/// The forecast is judged this long before the kill.
const BEFORE_NS: u64 = 10_000_000_000;

/// Tries on a busy machine.
const TRIES: u32 = 3;

/// Who must be named as the first to kill.
enum FirstKiller {
    Ray,
    Cgroup,
}

/// Stages a machine and records its cluster alone, because others may be staged at the same time.
fn staged(machine: &str, folder: &Path) -> (WaitingScript, Recorder) {
    let arguments = ["--machine", machine];
    let mut script =
        staging::start_waiting("2.60.0", "ramp.py", &arguments, folder).expect("a script");
    let raylet = script
        .wait_for_raylet("ready")
        .expect("a raylet")
        .to_string();
    let file = folder.join("ramp.raytrace");
    let recorder = Recorder::start(&file, &["--raylet-pid", &raylet]).expect("a recorder");
    script.go_on().expect("the script");
    (script, recorder)
}

fn foretold(machine: &str, first: &FirstKiller) {
    let steady = (0..TRIES).any(|_| ramped(machine, first));
    if !steady {
        skipped(format!(
            "what and when: {machine}: no steady ramp in {TRIES} tries; the kill itself was judged"
        ));
    }
}

/// Returns whether the ramp was steady. If so, it also checks the forecast.
fn ramped(machine: &str, first: &FirstKiller) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let (script, recorder) = staged(machine, folder.path());
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let wrong = truth.compare(&recorded.report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{machine}: {}", wrong.join("\n"));
    if truth.unsteady() {
        return false;
    }

    let events = recording::read(&folder.path().join("ramp.raytrace"))
        .expect("a recording")
        .events;
    let killed = killed(&events);
    let at = BootTime(killed.0 - BEFORE_NS);
    let mut judge = Judge::default();
    for event in events.iter().filter(|event| event.time <= at) {
        judge.observe(event);
    }
    let live = judge.live(at);
    let next = &live.threats[0];
    let named = matches!(
        (&next.limit_owner, first),
        (LimitOwner::RayMonitor, FirstKiller::Ray) | (LimitOwner::Cgroup(_), FirstKiller::Cgroup)
    );
    assert!(named, "{machine}: {:#?}", live.threats);
    let seconds = next.left.expect("seconds").as_secs_f64();
    let real = BEFORE_NS as f64 / 1e9;
    eprintln!(
        "{machine}: {real:.1} s before the kill by {:?}, {seconds:.1} s were foretold",
        next.limit_owner
    );
    assert!(
        (seconds - real).abs() <= 2.0_f64.max(real * 0.2),
        "{machine}: {:#?}",
        live.threats
    );
    true
}

/// Returns when the actor that grew ended.
fn killed(events: &[Event]) -> BootTime {
    let of_grower = |event: &&Event| matches!(&event.what, Observation::Exit(exit) if exit.title.as_deref().is_some_and(|title| title.contains("Grower")));
    events
        .iter()
        .find(of_grower)
        .expect("the grower's exit")
        .time
}

#[test]
fn plain_machine_rays_monitor_is_foretold() {
    foretold("plain", &FirstKiller::Ray);
}

/// The threshold comes from the raylet's environment.
#[test]
fn threshold_of_the_environment_is_foretold() {
    foretold("env-threshold", &FirstKiller::Ray);
}

#[test]
fn limit_unseen_by_ray_is_foretold_first() {
    foretold("nested-limit", &FirstKiller::Cgroup);
}

#[test]
fn monitor_off_the_kernel_is_foretold() {
    foretold("monitor-off", &FirstKiller::Cgroup);
}
