//! The kernel matrix: Debian's kernels in virtual machines, where a global OOM may be caused and cgroup v2 has its controllers.
//! Every staged death has its verdict, nothing is invented, and the ledger balances.

use std::{fs, path::Path};

use raytrace_tests::{
    exits::Exits,
    recorder::{balanced, missed_of_log},
    staging::target,
    truth::{Comparison, Sight, Truth},
    vm::{Machine, Root, Sections},
};
use serde_json::Value;

/// Boots the newest kernel of a suite of Debian's, and compares what was recorded there with what was staged.
fn matrix(suite: &str, arguments: &[&str], least: usize) {
    kernel(suite, "nvme", arguments, least);
}

/// Boots the kernel in a folder of `target/vm`, and compares what was recorded there with what was staged.
///
/// Where the kernel left out a program, and the recorder says so, the machine is started once more: emulated and starved of processor time it
/// is preempted in a program far more often than a real one.
fn kernel(suite: &str, disk: &str, arguments: &[&str], least: usize) {
    let machine = Machine {
        suite,
        disk,
        root: Root::Program(Path::new(env!("CARGO_BIN_EXE_guest"))),
        arguments,
    };
    for started in 1.. {
        let ran = machine.run();
        let sections = ran.unwrap_or_else(|error| panic!("{suite}: {error:#}"));
        let report: Value = serde_json::from_str(&sections["report"]).unwrap_or_else(|error| {
            panic!("{error}: {}\n{}", sections["errors"], sections["log"]);
        });
        if lost(&report) == 0 || started == 3 {
            return compare(&sections, &report, least);
        }
        eprintln!("{suite}: started once more, the kernel has left out a hook, which is counted");
    }
}

/// Events that are counted as lost, but for lines of the kernel log, which are each time.
fn lost(report: &Value) -> u64 {
    let all = report["recordings"][0]["lost_events"].as_u64();
    all.unwrap_or_default()
        .saturating_sub(missed_of_log(report))
}

fn compare(sections: &Sections, report: &Value, least: usize) {
    let exits = Exits::parse(&sections["taskstats"]).expect("the feed of exits");
    let truth = Truth::parse(&sections["truth"]).expect("truth");
    let truth = truth.with(exits);
    let recording = &report["recordings"][0];
    let kernel = recording["host"]["kernel"].as_str().unwrap_or_default();
    let Comparison { deaths, mut wrong } = truth.compare(report, Sight::Full);
    wrong.extend(strangers(&truth, report));
    wrong.extend(truth.disagreements(report));
    let notes = notes(recording, &truth);
    eprintln!(
        "Linux {kernel}: {deaths} deaths staged, {} wrong{notes}",
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "Linux {kernel}:\n{}\n{}",
        wrong.join("\n"),
        said(sections)
    );
    assert!(
        deaths >= least,
        "Linux {kernel}: only {deaths} deaths were staged\n{}",
        said(sections)
    );
    assert_eq!(recording["mode"], "ebpf", "{}", said(sections));
    let recorder = truth.recorder().expect("a row on the recorder");
    assert_eq!(
        recorder.oom_score_adj, -1000,
        "the recorder is protected from what it records"
    );
    balanced(report);
}

/// What this kernel lacks, and what the recorder took.
fn notes(recording: &Value, truth: &Truth) -> String {
    let mut text = String::new();
    for probe in recording["probes"].as_array().into_iter().flatten() {
        if let Some(reason) = probe["reason"].as_str() {
            text.push_str(&format!(
                "\n    {} {}: {reason}",
                probe["name"], probe["state"]
            ));
        }
    }
    for row in recording["ledgers"].as_array().into_iter().flatten() {
        let lost = ["recursion_misses", "missed", "ring_full", "map_full"];
        if lost.iter().any(|column| row[column].as_u64() > Some(0)) {
            text.push_str(&format!("\n    {row}"));
        }
    }
    if let Some(recorder) = truth.recorder() {
        text.push_str(&format!("\n    the recorder's peak: {}", recorder.peak));
    }
    text
}

fn said(sections: &Sections) -> &str {
    &sections["log"]
}

/// Deaths that nobody staged, other than those of helpers that end well.
fn strangers(truth: &Truth, report: &Value) -> Vec<String> {
    let (_, strangers) = truth.staged_or_not(report);
    strangers
        .into_iter()
        .filter(|death| death["exit_code"] != 0)
        .map(|death| format!("nobody staged this: {}", death["verdict"]["summary"]))
        .collect()
}

#[test]
fn on_linux_5_10_each_staged_death_is_named() {
    matrix("bullseye", &["-smp", "2"], 85);
}

#[test]
fn on_linux_6_1_each_staged_death_is_named() {
    matrix("bookworm", &["-smp", "2"], 84);
}

#[test]
fn on_linux_6_12_with_128_possible_cpus_each_staged_death_is_named() {
    matrix("trixie", &["-smp", "2,maxcpus=128"], 86);
}

#[test]
fn on_the_newest_linux_of_debian_each_staged_death_is_named() {
    // One CPU: when QEMU patches code that another virtual CPU runs, this kernel meets a breakpoint that is gone, and panics.
    matrix("trixie-backports", &["-smp", "1"], 36);
}

/// Kernels that are not fetched by themselves: `vmlinuz` in a folder of `target/vm/other` each. docs/reliability.md says which were tried.
#[test]
fn on_each_other_kernel_that_is_there_each_staged_death_is_named() {
    let folder = target().join("vm/other");
    let Ok(entries) = fs::read_dir(&folder) else {
        return eprintln!("skipped: no kernels in {}", folder.display());
    };
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let suite = format!("other/{}", name.display());
        kernel(&suite, "ide-hd", &["-smp", "1"], 84);
    }
}
