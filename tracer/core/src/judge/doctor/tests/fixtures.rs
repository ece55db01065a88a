//! Makes a healthy machine with one node, for tests.

use super::facts::{Folder, Gpu, Machine, Node};
use crate::{
    event::{Cluster, Mode, NodeMemory, Probe, ProbeState},
    ids::{Bytes, Pid, ProcessKey},
};

const GIB: u64 = 1 << 30;

/// Returns settings of a raylet as a list.
pub fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// Returns a node of Ray 2.60 without any problem.
pub fn node() -> Node {
    Node {
        cluster: Some(Cluster {
            raylet_ns_pid: Pid(416),
            session: Some("session_x".into()),
            session_dir: Some("/tmp/ray/session_x".into()),
            ray_version: Some("2.60.0".into()),
            head: true,
            object_store_bytes: Some(Bytes(56 * GIB)),
            container_id: Some("3f2a".repeat(16)),
            ..Cluster::new(ProcessKey::new(12104, 0))
        }),
        settings: Vec::new(),
        hidden: false,
        unread: Some(Vec::new()),
        monitor: None,
        isolated: false,
        root: None,
        levels: Vec::new(),
        shm: Some(Folder {
            path: "/dev/shm".into(),
            free: Bytes(93 * GIB),
            total: Bytes(94 * GIB),
        }),
        plasma_directory: Some("/dev/shm".into()),
        plasma_used: Some(Bytes(GIB)),
        gpus: Some(2.0),
        visible_devices: None,
        session_disk: Some(Folder {
            path: "/tmp/ray/session_x".into(),
            free: Bytes(50 * GIB),
            total: Bytes(100 * GIB),
        }),
        drivers: Vec::new(),
    }
}

/// Returns a machine of 188 GiB with that node, two GPUs and one probe.
pub fn machine(node: Node) -> Machine {
    let gpu = |index| Gpu {
        index,
        processes: Vec::new(),
    };
    Machine {
        host: "a6000-01".into(),
        kernel: "5.15.0".into(),
        memory: NodeMemory {
            total: Bytes(188 * GIB),
            available: Bytes(47 * GIB),
            swap_total: Some(Bytes(8 * GIB)),
            ..NodeMemory::default()
        },
        overcommit: Some(0),
        mode: Some(Mode::Ebpf),
        probes: vec![Probe {
            name: "oom/mark_victim".into(),
            state: ProbeState::Ok,
            reason: None,
            required: true,
        }],
        advice: "sudo raytrace record".into(),
        output: Folder {
            path: "/data".into(),
            free: Bytes(212 * GIB),
            total: Bytes(400 * GIB),
        },
        nodes: vec![node],
        gpus: Ok(vec![gpu(0), gpu(1)]),
        old_sessions: Vec::new(),
    }
}
