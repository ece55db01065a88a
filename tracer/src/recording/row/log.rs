//! The stored form of log lines.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    event,
    ids::{self, Bytes, Pid},
    ray,
};

stored_as! {
    KernelLog => event::KernelLog,
    RayLog => event::RayLog,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::KernelLog", tag = "line", rename_all = "snake_case")]
pub(super) enum KernelLog {
    Invoked {
        comm: String,
        gfp_mask: String,
    },
    OomKill {
        constraint: String,
        oom_memcg: Option<String>,
        task_memcg: Option<String>,
        comm: String,
        pid: Pid,
        uid: u32,
    },
    Killed {
        pid: Pid,
        comm: String,
        memcg: bool,
        anon: Bytes,
        file: Bytes,
        shmem: Option<Bytes>,
        score_adj: Option<i32>,
    },
    OomGroup {
        cgroup: String,
    },
    Fault {
        comm: String,
        pid: Pid,
        text: String,
    },
    Xid {
        gpu: String,
        instance: Option<String>,
        code: u32,
        pid: Option<Pid>,
        comm: Option<String>,
        text: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::RayLog")]
pub(super) struct RayLog {
    #[serde(default, with = "stored")]
    cluster: Option<ids::ProcessKey>,
    file: String,
    local_time: Option<i64>,
    text: String,
    #[serde(with = "stored")]
    fact: ray::facts::RayFact,
}
