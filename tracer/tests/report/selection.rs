//! Tests which deaths are shown: `--kill`, `--match`, `--since`, `--until`, `--tz`.

use crate::stage::{harmless, two_kills, worker_id};

#[test]
fn kill_is_selected_by_number_or_id() {
    let recording = two_kills();
    let all = recording.report(&["--format", "json"]).json();
    let id = all["deaths"][0]["id"].as_u64().expect("an id");
    for kill in ["1".to_owned(), format!("#{id}")] {
        let ran = recording.report(&["--kill", &kill]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("pid 4001") && !ran.out.contains("pid 4002"));
        assert!(ran.out.contains(&worker_id(4001)), "{}", ran.out);
    }
}

#[test]
fn unknown_kill_is_refused_with_known_ones() {
    let recording = two_kills();
    recording
        .report(&["--kill", "3"])
        .refused(2, &["no first cause has the number 3", "numbered 1 and 2"]);
    recording
        .report(&["--kill", "#999999"])
        .refused(2, &["no death has the id #999999"]);
    recording
        .report(&["--kill", "first"])
        .refused(2, &["the number after KILL or DEATH"]);
    harmless()
        .report(&["--kill", "1"])
        .refused(2, &["there is none"]);
}

#[test]
fn any_id_in_traceback_finds_its_death() {
    let recording = two_kills();
    for text in ["4001", &worker_id(4001)[..8], &worker_id(4001)] {
        let ran = recording.report(&["--match", text]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("pid 4001"), "{text}: {}", ran.out);
        assert!(!ran.out.contains("pid 4002"), "{text}: {}", ran.out);
    }
    for text in ["550e550e", "01000000", "hog"] {
        let deaths = recording
            .report(&["--match", text, "--format", "json"])
            .json();
        assert!(
            deaths["deaths"].as_array().expect("deaths").len() >= 2,
            "{text}"
        );
    }
}

#[test]
fn match_shows_normal_exits_too() {
    let ran = two_kills().report(&["--match", "10001"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("pid 10001"), "{}", ran.out);
    assert!(!ran.out.contains("KILL 1"), "{}", ran.out);
}

/// The error says how many deaths and exits were compared.
#[test]
fn match_without_a_hit_is_refused() {
    let recording = two_kills();
    recording.report(&["--match", "deadbeef"]).refused(
        2,
        &[
            "none of 2 deaths and 3 normal exits matches \"deadbeef\"",
            "--all",
        ],
    );
    recording.report(&["--match", ""]).refused(2, &["--match"]);
}

/// A time of day, an instant, or a span before the end.
#[test]
fn since_and_until_accept_every_time_format() {
    let recording = two_kills();
    let pids = |arguments: &[&str]| -> Vec<u64> {
        let json = ["--format", "json"];
        let report = recording.report(&[arguments, &json].concat()).json();
        let deaths = report["deaths"].as_array().expect("deaths").iter();
        let pids = deaths.filter_map(|death| death["pid"].as_u64());
        pids.filter(|pid| *pid < 10_000).collect()
    };
    assert_eq!(pids(&["--since", "08:00:15"]), [4002]);
    assert_eq!(pids(&["--until", "2026-11-20T08:00:15Z"]), [4001]);
    assert_eq!(pids(&["--until", "16:00:15", "--tz", "+08:00"]), [4001]);
    assert_eq!(pids(&["--since", "-605s"]), [4002]);
    assert_eq!(pids(&["--since", "-1h"]), [4001, 4002]);
    recording
        .report(&["--since", "teatime"])
        .refused(2, &["--since", "unknown time \"teatime\"", "-10m"]);
    recording
        .report(&["--since", "08:00:15", "--until", "08:00:05"])
        .refused(2, &["is after --until", "swap them"]);
}

#[test]
fn times_are_in_the_requested_zone() {
    let recording = two_kills();
    let ran = recording.report(&["--tz", "Asia/Shanghai"]);
    assert!(ran.out.contains("16:00:10.0"), "{}", ran.out);
    let ran = recording.report(&["--tz", "-03:30"]);
    assert!(ran.out.contains("04:30:10.0"), "{}", ran.out);
    recording
        .report(&["--tz", "Mars"])
        .refused(2, &["unknown time zone", "+08:00"]);
}
