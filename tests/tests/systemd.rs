//! The unit under a real systemd in a virtual machine: boot, kills, a killed recorder, shutdown.
//!
//! Without KVM this takes minutes, so it runs in `cargo xtask soak`.

use std::{path::PathBuf, process::Command};

use raytrace_tests::{skipped, soak, staging};
use serde_json::Value;

fn deb() -> PathBuf {
    let folder = std::env::var_os("RAYTRACE_PACKED");
    let folder = folder.map_or_else(|| staging::target().join("packed"), PathBuf::from);
    let mut paths = std::fs::read_dir(&folder).expect("packages").flatten();
    let found = paths.find(|entry| entry.path().extension().is_some_and(|end| end == "deb"));
    found.expect("a deb").path()
}

fn unit() -> String {
    let unit = staging::root().join("deploy/systemd/raytrace.service");
    unit.to_string_lossy().into_owned()
}

/// Boots a machine in which the package is installed, and returns what it says.
fn booted(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("python3")
        .arg(staging::root().join("tests/staging/boot.py"))
        .arg("--deb")
        .arg(deb())
        .arg("--kernel")
        .arg(staging::target().join("vm/bookworm/vmlinuz"))
        .arg("--folder")
        .arg(folder.path())
        .args(arguments)
        .output()
        .expect("python");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn each_directive_alone_lets_a_kill_be_proven() {
    if !soak() {
        skipped("only in cargo xtask soak");
        return;
    }
    let said = booted(&["--each", &unit()]);
    println!("{said:#}");
    let tried = said.as_object().expect("an object");
    assert!(tried.len() >= 25, "{tried:#?}");
    let other: Vec<_> = tried
        .iter()
        .filter(|(_, said)| **said != "proven")
        .collect();
    assert!(other.is_empty(), "{other:#?}");
}

/// It records proven kills before and after that.
#[test]
fn unit_restarts_after_a_kill() {
    if !soak() {
        skipped("only in cargo xtask soak");
        return;
    }
    let said = booted(&[]);
    println!("{}", said["journal"].as_str().unwrap_or_default());
    assert_eq!(said["show"]["NRestarts"], "1", "{}", said["show"]);
    assert_eq!(said["show"]["Type"], "notify");
    assert_eq!(said["score"], "-999");
    assert_eq!(said["stopped"]["Result"], "success", "{}", said["stopped"]);
    let reports = said["reports"].as_array().expect("reports");
    let [first, second] = reports.as_slice() else {
        panic!("two recordings: {}", said["files"]);
    };
    // The recording of the recorder that was killed, and that of the restarted one.
    assert_eq!(first["recordings"][0]["clean_end"], false);
    assert_eq!(second["recordings"][0]["clean_end"], true);
    for report in reports {
        let deaths = report["deaths"].as_array().expect("deaths");
        let killed = deaths.iter().find(|death| death["signal"] == 9);
        let killed = killed.unwrap_or_else(|| panic!("a kill: {deaths:#?}"));
        assert_eq!(killed["verdict"]["certainty"], "proven");
    }
    let lines = said["publish"]["lines"].as_array().expect("lines");
    assert_eq!(said["publish"]["state"], "active");
    assert!(
        lines
            .iter()
            .any(|line| line["event.name"] == "raytrace.gap"),
        "{lines:#?}"
    );
}
