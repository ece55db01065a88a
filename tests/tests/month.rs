//! A month in seconds: the recording's writer, its retention and the live judge stay within bounds.
//!
//! They run on a clock of their own.

use raytrace::recording;
use raytrace_tests::month::{self, Plan};

/// A job that crashes again and again is part of it.
#[test]
fn month_of_deaths_stays_within_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("month.raytrace");
    let plan = Plan::short();
    let hours = month::write(&file, plan, |_| {}).expect("written");
    let most = plan.retention.max_bytes;
    for hour in &hours {
        assert!(
            hour.bytes < most,
            "hour {}: {} bytes",
            hour.hour,
            hour.bytes
        );
    }
    let largest = hours.iter().map(|hour| hour.bytes).max().expect("hours");
    assert!(largest > most / 2, "it was never near its bound: {largest}");
    // The judge forgets: it holds only what happened in the last minutes.
    let of = |hour: usize| hours[hour].resident;
    assert!(of(29) < of(12) + (32 << 20), "{} to {}", of(12), of(29));
    let read = recording::read(&file).expect("a recording");
    let deaths = read
        .events
        .iter()
        .filter(|event| matches!(event.what, raytrace::event::Observation::Exit(_)));
    let last = hours.last().expect("hours");
    assert_eq!(deaths.count() as u64, last.deaths, "each death is there");
}
