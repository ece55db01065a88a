//! Tests each check on a case that it must report and on a similar one that it must not.

use super::{
    Check, State, checks,
    facts::*,
    fixtures::{machine, node, set},
};
use crate::{
    event::{CgroupState, Mode, Probe, ProbeState},
    ids::{Bytes, Pid},
    judge::report::Monitor,
};

const GIB: u64 = 1 << 30;

fn problems(machine: &Machine) -> Vec<Check> {
    let all = checks(machine).into_iter();
    all.filter(|check| check.state == State::Problem).collect()
}

fn ids(machine: &Machine) -> Vec<String> {
    problems(machine)
        .into_iter()
        .map(|check| check.id)
        .collect()
}

#[test]
fn healthy_machine_has_no_problem() {
    assert_eq!(ids(&machine(node())), Vec::<String>::new());
}

#[test]
fn every_problem_has_a_command() {
    let mut bad = node();
    bad.settings = set(&[
        ("RAY_memory_monitor_refresh_ms", "0"),
        ("RAY_object_store_memory", "1"),
    ]);
    bad.plasma_directory = Some("/tmp/ray".into());
    bad.gpus = Some(9.0);
    let mut machine = machine(bad);
    machine.mode = Some(Mode::Procfs);
    machine.output.free = Bytes(1);
    let problems = problems(&machine);
    assert_eq!(problems.len(), 6, "{problems:#?}");
    assert!(problems.iter().all(|check| check.command.is_some()));
}

#[test]
fn optional_missing_probe_is_no_problem() {
    let mut machine = machine(node());
    let mut probe = Probe {
        name: "signal/signal_deliver".into(),
        state: ProbeState::Missing,
        reason: Some("no such tracepoint".into()),
        required: false,
    };
    machine.probes.push(probe.clone());
    let state = |machine: &Machine| {
        let all = checks(machine);
        let found = all
            .iter()
            .find(|check| check.id.starts_with("recording.probe."));
        found.map(|check| check.state)
    };
    assert_eq!(state(&machine), Some(State::Missing));
    probe.required = true;
    machine.probes[1] = probe;
    assert_eq!(state(&machine), Some(State::Problem));
}

#[test]
fn raylet_log_takes_precedence_over_environment() {
    let mut logged = node();
    logged.settings = set(&[("RAY_memory_usage_threshold", "0.5")]);
    logged.monitor = Some(Monitor {
        enabled: true,
        threshold_bytes: Some(Bytes(178 * GIB)),
        total_bytes: Some(Bytes(188 * GIB)),
        refresh_ms: Some(250),
    });
    let machine = machine(logged);
    let all = checks(&machine);
    let ray = all.iter().find(|check| check.id == "killer.ray-monitor");
    assert_eq!(
        ray.and_then(|check| check.value.clone()),
        Some((178 * GIB).to_string())
    );
    assert_eq!(ids(&machine), Vec::<String>::new());
}

#[test]
fn use_above_threshold_before_start_is_a_problem() {
    let mut low = node();
    low.settings = set(&[("RAY_memory_usage_threshold", "0.7")]);
    assert_eq!(ids(&machine(low.clone())), ["monitor.above-threshold"]);
    low.settings = set(&[("RAY_memory_usage_threshold", "0.8")]);
    assert_eq!(ids(&machine(low)), Vec::<String>::new());
}

#[test]
fn isolation_makes_the_threshold_ineffective() {
    let mut isolated = node();
    isolated.settings = set(&[("RAY_memory_usage_threshold", "0.98")]);
    assert_eq!(ids(&machine(isolated.clone())), Vec::<String>::new());
    isolated.isolated = true;
    assert_eq!(
        ids(&machine(isolated)),
        ["setting.RAY_memory_usage_threshold"]
    );
}

#[test]
fn threshold_has_no_effect_while_the_monitor_is_off() {
    let mut off = node();
    let interval = ("RAY_memory_monitor_refresh_ms", "0");
    off.settings = set(&[interval, ("RAY_memory_usage_threshold", "0.98")]);
    let machine = machine(off);
    let all = checks(&machine);
    let threshold = all
        .iter()
        .find(|check| check.id == "setting.RAY_memory_usage_threshold");
    assert_eq!(threshold.map(|check| check.state), Some(State::Note));
    assert_eq!(ids(&machine), ["monitor.off"]);
}

#[test]
fn isolation_ignores_memory_used_by_others() {
    let mut isolated = node();
    isolated.isolated = true;
    isolated.monitor = Some(Monitor {
        enabled: true,
        // Less than the machine has in use.
        threshold_bytes: Some(Bytes(20 * GIB)),
        total_bytes: Some(Bytes(30 * GIB)),
        refresh_ms: Some(1000),
    });
    let machine = machine(isolated);
    assert_eq!(ids(&machine), Vec::<String>::new());
    let all = checks(&machine);
    let ray: Vec<&Check> = all
        .iter()
        .filter(|check| check.id == "killer.ray-monitor")
        .collect();
    assert!(
        matches!(ray.as_slice(), [ray] if ray.text.contains("every 1000 ms") && !ray.text.contains("margin")),
        "{ray:#?}"
    );
}

/// A limit below the machine's memory is not called earlier than Ray's if the monitor is off.
#[test]
fn cgroup_limit_is_reported_with_monitor_off() {
    let mut off = node();
    off.settings = set(&[("RAY_memory_monitor_refresh_ms", "0")]);
    off.levels = vec![CgroupState {
        path: "/pod".into(),
        limit: Some(Bytes(100 * GIB)),
        ..CgroupState::default()
    }];
    let all = checks(&machine(off));
    let limit = all
        .iter()
        .find(|check| check.id == "limit.unseen")
        .expect("a check");
    assert!(limit.text.contains("Ray's monitor is off"), "{limit:#?}");
    assert_eq!(limit.command.as_deref(), Some("raise that limit"));
}

#[test]
fn only_ray_like_settings_are_called_unknown() {
    let mut strange = node();
    strange.settings = set(&[
        ("RAY_HEAD_SERVICE_HOST", "10.0.0.1"),
        ("RAY_memory_treshold", "0.9"),
    ]);
    strange.unread = Some(vec![
        "RAY_HEAD_SERVICE_HOST".into(),
        "RAY_memory_treshold".into(),
    ]);
    assert_eq!(
        ids(&machine(strange.clone())),
        ["setting.RAY_memory_treshold"]
    );
    strange.unread = None;
    assert_eq!(ids(&machine(strange)), Vec::<String>::new());
}

#[test]
fn driver_may_set_driver_settings() {
    let driver = |pairs| {
        let mut node = node();
        node.drivers.push(Driver {
            pid: Pid(690),
            settings: set(pairs),
        });
        problems(&machine(node))
    };
    assert_eq!(
        driver(&[("RAY_task_oom_retries", "3"), ("RAY_ADDRESS", "auto")]),
        []
    );
    let found = driver(&[("RAY_memory_monitor_refresh_ms", "0")]);
    assert_eq!(
        found[0].text,
        "RAY_memory_monitor_refresh_ms=0: set in driver 690, but only the raylet reads it. In force: 250 (default)"
    );
    let found = driver(&[("RAY_object_store_memory", "30")]);
    assert_eq!(
        found[0].text,
        "RAY_object_store_memory=30 of driver 690: no Ray version reads it; the store's size is --object-store-memory"
    );
}

/// It is reported before `/dev/shm` is full.
#[test]
fn store_too_large_for_dev_shm_is_reported() {
    let shm = |free: u64| {
        let mut node = node();
        node.shm = Some(Folder {
            path: "/dev/shm".into(),
            free: Bytes(free * GIB),
            total: Bytes(94 * GIB),
        });
        ids(&machine(node))
    };
    assert_eq!(shm(60), Vec::<String>::new());
    assert_eq!(shm(40), ["shm.overbooked"]);
    assert_eq!(shm(2), ["shm.full"]);
}

/// A container's /dev/shm is another one than the machine's, and is made with the container.
#[test]
fn full_dev_shm_is_looked_at_where_it_is() {
    let command = |container: Option<&str>| {
        let mut node = node();
        if let Some(cluster) = &mut node.cluster {
            cluster.container_id = container.map(str::to_owned);
        }
        node.shm = Some(Folder {
            path: "/dev/shm".into(),
            free: Bytes(0),
            total: Bytes(64 << 20),
        });
        let all = checks(&machine(node));
        let full = all.iter().find(|check| check.id == "shm.full");
        full.and_then(|check| check.command.clone())
            .expect("a command")
    };
    let host = command(None);
    assert!(
        host.starts_with("ls -lS /dev/shm; a bigger one: as root on this machine, mount -o remount,size=128M /dev/shm"),
        "{host}"
    );
    let container = command(Some("4f5e"));
    assert!(
        container.contains("/root/dev/shm; a bigger one: docker run --shm-size=128M")
            && !container.contains("remount"),
        "{container}"
    );
}

/// Ray takes a share of what is available at its start, not of the host's memory.
#[test]
fn store_share_is_of_available_memory() {
    let with = |gib: u64| {
        let mut node = node();
        let cluster = node.cluster.as_mut().expect("a cluster");
        cluster.object_store_bytes = Some(Bytes(gib * GIB));
        let all = checks(&machine(node)).into_iter();
        all.filter(|check| check.id == "object-store.share")
            .map(|check| check.text)
            .collect::<Vec<String>>()
    };
    let found = with(40);
    assert!(
        found[0].starts_with("its size is 21 % of this machine") && found[0].contains("available"),
        "{found:?}"
    );
    // Exactly 30 % of the host, and sizes that somebody configured.
    for given in [56, 20, 90] {
        assert_eq!(with(given), Vec::<String>::new());
    }
}

/// GPUs that Ray was not told of are none.
#[test]
fn missing_gpus_are_a_problem() {
    let gpus = |by_ray: f64, visible: Option<&str>| {
        let mut node = node();
        node.gpus = Some(by_ray);
        node.visible_devices = visible.map(str::to_owned);
        ids(&machine(node))
    };
    assert_eq!(gpus(2.0, None), Vec::<String>::new());
    assert_eq!(gpus(1.0, None), Vec::<String>::new());
    assert_eq!(gpus(1.0, Some("1")), Vec::<String>::new());
    assert_eq!(gpus(2.0, Some("1")), ["gpu.count"]);
    assert_eq!(gpus(4.0, None), ["gpu.count"]);
}

/// It must have lost its parent and not be a process that has only just started.
#[test]
fn leftover_is_an_orphaned_engine() {
    let holder = GpuProcess {
        pid: Pid(8812),
        used: Some(Bytes(21 * GIB)),
        comm: Some("VLLM::EngineCor".into()),
        title: "VLLM::EngineCore".into(),
        parent: Some(Pid(1)),
        user: Some("lin".into()),
        age_s: Some(22_320),
    };
    let on_gpu = |process: &GpuProcess| {
        let mut machine = machine(node());
        machine.gpus = Ok(vec![
            Gpu {
                index: 0,
                processes: Vec::new(),
            },
            Gpu {
                index: 3,
                processes: vec![process.clone()],
            },
        ]);
        problems(&machine)
    };
    let found = on_gpu(&holder);
    assert_eq!(
        found[0].text,
        "GPU 3: 21.0 GiB, pid 8812, VLLM::EngineCore, parent 1, 6 h 12 min, user lin"
    );
    assert_eq!(
        found[0].command.as_deref(),
        Some("check: ps -fp 8812; end: kill 8812")
    );
    for changed in [
        GpuProcess {
            parent: Some(Pid(700)),
            ..holder.clone()
        },
        GpuProcess {
            age_s: Some(5),
            ..holder.clone()
        },
        GpuProcess {
            comm: Some("Xorg".into()),
            ..holder.clone()
        },
    ] {
        assert_eq!(on_gpu(&changed), []);
    }
}

/// Old sessions are only a note.
#[test]
fn full_session_disk_is_a_problem() {
    let mut machine = machine(node());
    machine.old_sessions.push(OldSessions {
        folder: "/tmp/ray".into(),
        sessions: 4,
        bytes: Bytes(38 * GIB),
    });
    assert_eq!(ids(&machine), Vec::<String>::new());
    if let Some(disk) = &mut machine.nodes[0].session_disk {
        disk.free = Bytes(4 * GIB);
    }
    assert_eq!(ids(&machine), ["disk.full"]);
}

#[test]
fn unreadable_settings_report_no_defaults() {
    let hidden = Node {
        hidden: true,
        ..node()
    };
    let machine = machine(hidden);
    let told = |id: &str| checks(&machine).iter().any(|check| check.id == id);
    assert!(told("settings.hidden") && told("killers.hidden"));
    assert!(!told("setting.RAY_memory_usage_threshold") && !told("limit.seen"));
    assert_eq!(problems(&machine), []);
}
