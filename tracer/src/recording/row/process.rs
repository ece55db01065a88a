//! The stored form of clusters, processes and the calls that run in them.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    event,
    ids::{self, BootTime, Bytes, HexId, Pid},
};

stored_as! {
    Cluster => event::Cluster,
    Process => event::Process,
    Role => event::Role,
    Worker => event::Worker,
    Exec => event::Exec,
    Call => event::Call,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Cluster")]
pub(super) struct Cluster {
    #[serde(with = "stored")]
    raylet: ids::ProcessKey,
    raylet_ns_pid: Pid,
    session: Option<String>,
    session_dir: Option<String>,
    ray_version: Option<String>,
    node_id: Option<HexId>,
    gcs_address: Option<String>,
    head: bool,
    object_store_bytes: Option<Bytes>,
    container_id: Option<String>,
    settings: Vec<(String, String)>,
    log_utc_offset_s: Option<i32>,
    #[serde(default)]
    commands: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Process")]
pub(super) struct Process {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    ns_pid: Option<Pid>,
    parent: Option<Pid>,
    process_group: Option<Pid>,
    comm: String,
    argv: Vec<String>,
    exe: Option<String>,
    uid: Option<u32>,
    cgroup: Option<String>,
    container_id: Option<String>,
    #[serde(default, with = "stored")]
    cluster: Option<ids::ProcessKey>,
    #[serde(with = "stored")]
    role: event::Role,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Role", rename_all = "lowercase")]
pub(super) enum Role {
    Worker,
    Driver,
    Raylet,
    Gcs,
    Dashboard,
    Agent,
    Descendant,
    Other,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Worker")]
pub(super) struct Worker {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    worker_id: HexId,
    job_id: Option<HexId>,
    actor_class: Option<String>,
    driver: bool,
    from: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Exec")]
pub(super) struct Exec {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    parent: Option<Pid>,
    ns_pid: Option<Pid>,
    comm: String,
    argv: Vec<String>,
    uid: Option<u32>,
    #[serde(default, with = "stored")]
    file: Option<event::FileId>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Call")]
pub(super) struct Call {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    title: String,
    nth: u32,
    began: BootTime,
    ended: Option<BootTime>,
    before: Option<Bytes>,
    after: Option<Bytes>,
    peak: Option<Bytes>,
}
