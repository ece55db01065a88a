//! The kernel matrix: each staged death is named on Debian's kernels, in virtual machines.
//!
//! There a global OOM kill may be caused, and cgroup v2 has its controllers. Nothing is invented,
//! and the ledger balances.

use std::{fs, path::Path};

use raytrace_tests::{
    exits::Exits,
    recorder::{assert_balanced, missed_besides_events},
    skipped,
    staging::target,
    truth::{Comparison, PrivilegeMode, Truth},
    vm::{Machine, Root, Sections},
};
use serde_json::Value;

/// Boots the newest kernel of a Debian suite, and compares what was recorded there with what was
/// staged.
fn matrix(suite: &str, arguments: &[&str], least: usize) {
    kernel(suite, "nvme", arguments, least);
}

/// Boots the kernel in a folder of `target/vm`, and compares what was recorded there with what was
/// staged.
///
/// If the kernel skipped a program and the recorder says so, the machine is started again, three
/// times at most. An emulated machine with little processor time is preempted inside a program far
/// more often than a real one.
fn kernel(suite: &str, disk: &str, arguments: &[&str], least: usize) {
    let machine = Machine {
        suite,
        disk,
        root: Root::Program(Path::new(env!("CARGO_BIN_EXE_guest"))),
        arguments,
        kernel: "",
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

/// Returns the events that are counted as lost. Lines of the kernel log are left out, because some
/// are lost each time.
fn lost(report: &Value) -> u64 {
    let all = report["recordings"][0]["lost_events"].as_u64();
    all.unwrap_or_default()
        .saturating_sub(missed_besides_events(report))
}

fn compare(sections: &Sections, report: &Value, least: usize) {
    let exits = Exits::parse(&sections["taskstats"]).expect("the feed of exits");
    let truth = Truth::parse(&sections["truth"]).expect("truth");
    let truth = truth.with_exits(exits);
    let recording = &report["recordings"][0];
    let kernel = recording["host"]["kernel"].as_str().unwrap_or_default();
    let Comparison { deaths, mut wrong } = truth.compare(report, PrivilegeMode::Full);
    wrong.extend(unstaged(&truth, report));
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
    assert_balanced(report);
}

/// Describes what this kernel lacks and how much memory the recorder took.
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

/// Returns deaths that were not staged, except those of helpers that end well.
fn unstaged(truth: &Truth, report: &Value) -> Vec<String> {
    let (_, unstaged) = truth.split_staged(report);
    unstaged
        .into_iter()
        .filter(|death| death["exit_code"] != 0)
        .map(|death| format!("nobody staged this: {}", death["verdict"]["summary"]))
        .collect()
}

#[test]
fn linux_5_10_names_each_death() {
    matrix("bullseye", &["-smp", "2"], 87);
}

#[test]
fn linux_6_1_names_each_death() {
    matrix("bookworm", &["-smp", "2"], 88);
}

/// The machine has 255 possible CPUs, of which two are online: as many as QEMU 7.2 emulates without
/// x2APIC.
#[test]
fn linux_6_12_with_255_cpus_names_each_death() {
    matrix("trixie", &["-smp", "2,maxcpus=255"], 84);
}

#[test]
fn newest_debian_linux_names_each_death() {
    // One CPU: if QEMU patches code that another virtual CPU runs, this kernel hits a breakpoint
    // that is gone, and panics.
    matrix("trixie-backports", &["-smp", "1"], 40);
}

/// Records in one machine where the kernel refuses hooks that proof rests on.
fn degraded(kernel: &str, act: &str) -> Sections {
    let (init, machine) = (env!("CARGO_BIN_EXE_guest"), env!("CARGO_BIN_EXE_machine"));
    let machine = Machine {
        // Only this one of the kernels reports how a process of another parent has ended (since
        // 6.15).
        suite: "trixie-backports",
        disk: "nvme",
        root: Root::Programs(init.as_ref(), machine.as_ref(), act),
        arguments: &["-smp", "1"],
        kernel,
    };
    machine.run().expect("a machine")
}

fn json(sections: &Sections, name: &str) -> Value {
    let text = sections.get(name).map_or("", String::as_str);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {sections:#?}"))
}

/// Checks that the mode is procfs with this reason, that nothing is called proven, that eBPF is
/// refused if demanded, and that each death is there.
fn is_not_called_proof(sections: &Sections, name: &str, reason: &str) {
    let required = json(sections, &format!("{name} required"));
    let said = required["said"].as_str().unwrap_or_default();
    assert_eq!(required["code"], 4, "{name}: {said}");
    assert_eq!(required["file"], false, "{name}: {said}");
    let screen = &sections[&format!("{name} screen")];
    assert!(screen.contains("mode procfs"), "{name}: {screen}");
    assert!(
        !screen.contains("verdicts can be proven"),
        "{name}: {screen}"
    );
    let report = json(sections, &format!("{name} report"));
    let recording = &report["recordings"][0];
    assert_eq!(recording["mode"], "procfs", "{name}");
    assert_eq!(recording["probes"][0]["state"], "missing", "{name}");
    let probe = recording["probes"][0]["reason"].as_str();
    for text in [said, screen.as_str(), probe.unwrap_or_default()] {
        assert!(text.contains(reason), "{name}: {reason} is not in {text}");
    }
    let truth = Truth::parse(&sections[&format!("{name} truth")]).expect("truth");
    let Comparison { deaths, wrong } = truth.compare(&report, PrivilegeMode::Unprivileged);
    eprintln!(
        "{name} refused: {deaths} deaths staged, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{name}: {}\n{screen}", wrong.join("\n"));
    assert_eq!(deaths, 3, "{name}");
    let told = report["deaths"].as_array().expect("deaths");
    for killer in ["exit", "kernel-oom-memcg"] {
        let is_its = |death: &&Value| death["verdict"]["killer"] == killer;
        assert!(
            told.iter().any(|death| is_its(&death)),
            "{name}: no {killer}: {told:#?}"
        );
    }
}

#[test]
fn locked_down_kernel_proves_nothing() {
    let sections = degraded("lsm=lockdown lockdown=confidentiality", "locked");
    // Checks the staging itself. Without the lockdown this test would show nothing.
    let lockdown = &sections["lockdown"];
    assert!(lockdown.contains("[confidentiality]"), "{lockdown}");
    is_not_called_proof(&sections, "all", "lockdown=confidentiality");
}

/// The hook is one that proof rests on.
#[test]
fn refused_hook_proves_nothing() {
    let sections = degraded("", "refused");
    for (stem, hook) in [
        ("fork_", "sched/sched_process_fork"),
        ("exit_", "sched/sched_process_exit"),
        ("signal_generate", "signal/signal_generate"),
    ] {
        is_not_called_proof(&sections, stem, hook);
    }
}

/// A command line has 1 TiB; in other runs the recorder has a cgroup namespace of its own.
#[test]
fn hostile_processes_do_not_mislead() {
    let sections = degraded("", "hostile");
    let long = json(&sections, "long");
    let some = 32 << 20;
    assert_eq!(long["read"], serde_json::json!([some, some]), "of 1 TiB");
    let peak = long["peak_kib"].as_u64().expect("a peak") >> 10;
    eprintln!("a command line of 1 TiB: the recorder's peak is {peak} MiB");
    assert!((1..160).contains(&peak), "{peak} MiB");
    for rights in ["all", "few"] {
        let seen = json(&sections, rights);
        let of = |name: &str| seen[name].as_array().cloned().unwrap_or_default();
        let (limits, paths) = (of("limits"), of("paths"));
        let leads_out = |path: &Value| path.as_str().is_some_and(|path| path.contains(".."));
        assert!(!paths.iter().any(leads_out), "{paths:?}");
        assert!(
            !limits.iter().any(|level| level[1] == 222),
            "its own: {seen}"
        );
        if rights == "all" {
            let theirs = limits.iter().find(|level| level[1] == 333);
            assert_eq!(theirs.expect("a limit")[0], "/theirs", "{seen}");
        } else {
            assert!(limits.is_empty(), "{seen}");
            let missing = seen["missing"][0].as_str().unwrap_or_default();
            assert!(missing.starts_with("limits are not known"), "{seen}");
        }
    }
}

/// These kernels are not downloaded automatically. Each is a `vmlinuz` in a folder of
/// `target/vm/other`. docs/development/reliability-details.md says which were tried.
#[test]
fn other_kernels_name_each_death() {
    let folder = target().join("vm/other");
    let Ok(entries) = fs::read_dir(&folder) else {
        return skipped(format!("no kernels in {}", folder.display()));
    };
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let suite = format!("other/{}", name.display());
        kernel(&suite, "ide-hd", &["-smp", "1"], 84);
    }
}
