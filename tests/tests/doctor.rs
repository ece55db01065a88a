//! `raytrace doctor` on staged machines with a real Ray reports what was staged, and nothing else.

use std::process::Command;

use raytrace_tests::{recorder::raytrace, staging};
use serde_json::Value;

/// The answer of `doctor` about the staged raylet: JSON, text and exit code.
struct Said {
    checks: Vec<Value>,
    text: String,
    code: i32,
}

impl Said {
    fn of(machine: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut held = staging::start_waiting(
            "2.60.0",
            "machines.py",
            &["--machine", machine],
            folder.path(),
        )
        .expect("a staging");
        let raylet = held.wait_for_raylet("staged").expect("a raylet");
        let doctor = |format: &str| {
            Command::new(raytrace())
                .args([
                    "doctor",
                    "--raylet-pid",
                    &raylet.to_string(),
                    "--format",
                    format,
                ])
                .output()
                .expect("a run")
        };
        let (json, text) = (doctor("json"), doctor("text"));
        held.finish().expect("its end");
        let object: Value = serde_json::from_slice(&json.stdout).expect("JSON");
        assert_eq!(object["raylets"][0]["pid"], raylet, "{object}");
        assert_eq!(object["raylets"][0]["ray_version"], "2.60.0");
        assert_eq!(json.status.code(), text.status.code());
        Self {
            checks: object["checks"].as_array().expect("checks").clone(),
            text: String::from_utf8_lossy(&text.stdout).into_owned(),
            code: text.status.code().expect("a code"),
        }
    }

    fn problems(&self) -> Vec<&str> {
        let problems = self
            .checks
            .iter()
            .filter(|check| check["state"] == "problem");
        let ids = problems.filter_map(|check| check["id"].as_str());
        // The disk is not staged. If this machine's disk is full, `doctor` rightly reports it.
        ids.filter(|id| *id != "disk.full").collect()
    }

    fn disk_is_full(&self) -> bool {
        self.checks.iter().any(|check| check["id"] == "disk.full")
    }

    fn check(&self, id: &str) -> &Value {
        let found = self.checks.iter().find(|check| check["id"] == id);
        found.unwrap_or_else(|| panic!("no check {id}: {}", self.text))
    }

    /// Returns the killers in the order in which they strike.
    fn order(&self) -> Vec<&str> {
        let killers = self.checks.iter().filter_map(|check| check["id"].as_str());
        killers.filter(|id| id.starts_with("killer.")).collect()
    }
}

const GIB: u64 = 1 << 30;

/// On a plain machine Ray's monitor kills first.
#[test]
fn plain_machine_has_no_problem() {
    let said = Said::of("plain");
    assert_eq!(said.problems(), Vec::<&str>::new(), "{}", said.text);
    assert_eq!(said.order()[0], "killer.ray-monitor", "{}", said.text);
    // Half of the 6 GiB that the staging shows Ray.
    assert_eq!(
        said.check("killer.ray-monitor")["value"],
        (3 * GIB).to_string()
    );
    assert_eq!(
        said.check("setting.RAY_memory_usage_threshold")["value"],
        "0.5"
    );
    assert_eq!(said.check("recording.mode")["value"], "ebpf");
    assert!(
        said.text.contains("mode ebpf: verdicts can be proven"),
        "{}",
        said.text
    );
    if said.disk_is_full() {
        assert_eq!(said.code, 9, "{}", said.text);
    } else {
        assert_eq!(said.code, 0, "{}", said.text);
        assert!(said.text.contains("No problems found"), "{}", said.text);
    }
}

/// A limit below the machine's memory as Ray sees it kills first, and is named.
#[test]
fn limit_unseen_by_ray_kills_first() {
    let said = Said::of("nested-limit");
    assert_eq!(
        (said.code, said.problems()),
        (9, vec!["limit.unseen"]),
        "{}",
        said.text
    );
    assert!(said.order()[0].ends_with("/cluster"), "{:?}", said.order());
    let check = said.check("limit.unseen");
    assert_eq!(check["value"], (1536u64 << 20).to_string());
    // 0.9 × 1.5 of 6 GiB, rounded down.
    let command = check["command"].as_str().expect("a command");
    assert!(
        command.contains("RAY_memory_usage_threshold=0.22 "),
        "{command}"
    );
}

#[test]
fn threshold_of_a_driver_alone_has_no_effect() {
    let said = Said::of("driver-only");
    let id = "setting.RAY_memory_usage_threshold";
    assert_eq!((said.code, said.problems()), (9, vec![id]), "{}", said.text);
    let check = said
        .checks
        .iter()
        .find(|check| check["id"] == id && check["state"] == "problem");
    let check = check.expect("the problem");
    assert_eq!(
        (&check["value"], &check["expected"]),
        (&"0.98".into(), &"0.5".into())
    );
    assert!(said.text.contains("IGNORED"), "{}", said.text);
}

#[test]
fn kernel_kills_if_the_monitor_is_off() {
    let said = Said::of("monitor-off");
    assert_eq!(
        (said.code, said.problems()),
        (9, vec!["monitor.off"]),
        "{}",
        said.text
    );
    assert!(
        !said.order().contains(&"killer.ray-monitor"),
        "{}",
        said.text
    );
}

#[test]
fn object_store_too_large_for_dev_shm_is_named() {
    let said = Said::of("small-shm");
    assert_eq!(
        (said.code, said.problems()),
        (9, vec!["object-store.place"]),
        "{}",
        said.text
    );
    let command = said.check("object-store.place")["command"]
        .as_str()
        .expect("a command");
    assert!(command.contains("--shm-size"), "{command}");
}

#[test]
fn unknown_ray_variables_have_no_effect() {
    let said = Said::of("no-knob");
    let mut problems = said.problems();
    problems.sort_unstable();
    assert_eq!(
        (said.code, problems),
        (
            9,
            vec![
                "setting.RAY_memory_use_threshold",
                "setting.RAY_object_store_memory"
            ]
        ),
        "{}",
        said.text
    );
    let check = said.check("setting.RAY_object_store_memory");
    assert_eq!(check["command"], "unset RAY_object_store_memory");
}

#[test]
fn pid_of_no_raylet_is_refused() {
    let output = Command::new(raytrace())
        .args(["doctor", "--raylet-pid", "1"])
        .output()
        .expect("a run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("pgrep -a raylet"), "{said}");
}
