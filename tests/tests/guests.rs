//! One Ray cluster on two virtual machines with different clocks: causes and order are right.
//!
//! The report bounds the difference of the clocks.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use raytrace_tests::{
    fleet::report,
    keep,
    recorder::{assert_balanced, report as report_of_one},
    skipped, soak, staging,
    truth::{PrivilegeMode, Truth},
    vm::{Machine, Root, Sections},
};
use serde_json::Value;

const SUITE: &str = "trixie";

/// Deaths on two kernels are in order.
#[test]
fn worker_clock_ahead_keeps_the_order() {
    on_two_machines(60);
}

/// Deaths on two kernels are in order.
#[test]
fn worker_clock_behind_keeps_the_order() {
    on_two_machines(-60);
}

/// Runs the test with guest 2's clock ahead of guest 1's by this many seconds.
fn on_two_machines(ahead_s: i64) {
    if !soak() {
        return skipped("only in cargo xtask soak");
    }
    let guests = started(ahead_s);
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for (number, guest) in (1..).zip(&guests) {
        let file = folder.path().join(format!("guest{number}.raytrace"));
        keep::unpack(&guest["recording"], &file).expect("a recording");
        assert_balanced(&report_of_one(&file).expect("a report"));
        files.push(file);
    }
    let truth = guests.iter().map(|guest| guest["truth"].as_str());
    let truth = Truth::parse(&truth.collect::<Vec<_>>().join("\n")).expect("truth");
    let report = report(&files, &[]).expect("a report");
    let compared = truth.compare(&report, PrivilegeMode::Full);
    let logs = guests.iter().map(|guest| guest["log"].as_str());
    let logs = logs.collect::<Vec<_>>().join("\n");
    assert!(
        compared.wrong.is_empty(),
        "{}\n{logs}",
        compared.wrong.join("\n")
    );
    assert_eq!(compared.deaths, 4);
    causes_come_first_and_are_linked(&report);
    the_clock_is_bounded(&report, &guests[0]["clock"], ahead_s);
}

fn started(ahead_s: i64) -> Vec<Sections> {
    let modules = staging::target().join("vm").join(SUITE).join("modules");
    assert!(modules.exists(), "no network card; run: cargo xtask setup");
    let folder = tempfile::tempdir().expect("a folder");
    let now = Timestamp::now();
    let clocks = [now, now + SignedDuration::from_secs(ahead_s)]
        .map(|time| format!("base={}", time.strftime("%Y-%m-%dT%H:%M:%S")));
    let wires = [wire(folder.path(), 1, 2), wire(folder.path(), 2, 1)];
    let cards = ["52:54:00:00:00:01", "52:54:00:00:00:02"]
        .map(|address| format!("virtio-net-pci,netdev=wire,mac={address}"));
    let own = [
        [
            "-m", "4000", "-netdev", &wires[0], "-device", &cards[0], "-rtc", &clocks[0],
        ],
        [
            "-m", "4000", "-netdev", &wires[1], "-device", &cards[1], "-rtc", &clocks[1],
        ],
    ];
    let machine = |name, arguments| Machine {
        suite: SUITE,
        disk: "nvme",
        root: Root::Ray("2.60.0", "guests.py", name),
        arguments,
        kernel: "",
    };
    let machines = [machine("guest1", &own[0]), machine("guest2", &own[1])];
    Machine::run_together(&machines).expect("two machines")
}

/// Returns one end of the wire between the two machines, which are sockets in a folder.
fn wire(folder: &Path, from: u32, to: u32) -> String {
    let end = |number: u32| folder.join(format!("end{number}")).display().to_string();
    format!(
        "dgram,id=wire,local.type=unix,local.path={},remote.type=unix,remote.path={}",
        end(from),
        end(to)
    )
}

/// Checks that causes come first: the actor on guest 2 before its driver on guest 1, and the owner
/// on guest 1 before its actor on guest 2.
///
/// By the machines' own clocks, one of the two pairs is the other way round.
fn causes_come_first_and_are_linked(report: &Value) {
    let deaths = report["deaths"].as_array().expect("deaths");
    let place = |node: &str, killer: &str| {
        let is_it = |death: &Value| death["node"] == node && death["verdict"]["killer"] == killer;
        let at = deaths.iter().position(is_it);
        at.unwrap_or_else(|| panic!("no {killer} on {node}: {deaths:#?}"))
    };
    let failed = |node: &str| {
        let is_it = |death: &Value| {
            death["node"] == node && death["role"] == "driver" && death["exit_code"] == 1
        };
        let at = deaths.iter().position(is_it);
        at.expect("the driver that failed")
    };
    let pairs = [
        (
            place("guest2", "kernel-oom-memcg"),
            failed("guest1"),
            "guest2",
        ),
        (
            place("guest1", "signal"),
            place("guest2", "ray-collapse"),
            "guest1",
        ),
    ];
    for (cause, effect, node) in pairs {
        assert!(cause < effect, "{:#}", deaths[effect]);
        let link = &deaths[effect]["verdict"]["cause_link"];
        assert_eq!(link["node"], node, "{:#}", deaths[effect]);
        assert_eq!(link["link_certainty"], "inferred");
    }
    let own_time = |at: usize| deaths[at]["time"].as_str().unwrap_or_default();
    let turned = pairs
        .iter()
        .filter(|(cause, effect, _)| own_time(*cause) > own_time(*effect));
    assert_eq!(turned.count(), 1, "by their own clocks");
}

/// Checks that Ray's messages give bounds for the difference of the clocks that agree with the
/// narrower ones that the staging measured.
fn the_clock_is_bounded(report: &Value, measured: &str, ahead_s: i64) {
    let measured: [[i64; 2]; 2] = serde_json::from_str(measured).expect("two measurements");
    let milliseconds = |ns: i64| ns / 1_000_000;
    let least = milliseconds(measured[0][0].min(measured[1][0]));
    let most = milliseconds(measured[0][1].max(measured[1][1]));
    let nodes = report["nodes"].as_array().expect("nodes");
    let node = nodes.iter().find(|node| node["name"] == "guest2");
    let clock = &node.expect("guest 2")["clock"];
    eprintln!(
        "guest 2's clock is ahead by {measured:?} ns, as measured; by Ray's messages {clock}"
    );
    assert!((least - ahead_s * 1000).abs() < 3000, "{measured:?}");
    let bound = |name: &str| clock[name].as_i64();
    assert!(bound("ahead_at_least_ms").is_some_and(|bound| bound <= most));
    assert!(bound("ahead_at_most_ms").is_some_and(|bound| bound >= least));
    let corrected = bound("corrected_by_ms").unwrap_or_default();
    assert_eq!(corrected.signum(), ahead_s.signum(), "{clock}");
}
