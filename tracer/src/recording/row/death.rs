//! The stored form of what the kernel reports of deaths.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    event,
    ids::{self, Bytes, Pid},
};

stored_as! {
    Signal => event::Signal,
    Sender => event::Sender,
    Ancestor => event::Ancestor,
    OomVictim => event::OomVictim,
    CgroupLevel => event::CgroupLevel,
    ShortOf => event::ShortOf,
    Exit => event::Exit,
    PendingSignals => event::PendingSignals,
    SystemCall => event::SystemCall,
    FileId => event::FileId,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Signal")]
pub(super) struct Signal {
    #[serde(with = "stored")]
    target: ids::ProcessKey,
    target_tid: Pid,
    signal: i32,
    code: i32,
    group: bool,
    result: i32,
    group_exit: bool,
    group_exit_code: i32,
    took_effect: bool,
    parent_death_signal: i32,
    #[serde(with = "stored")]
    sender: event::Sender,
    #[serde(default, with = "stored")]
    call: Option<event::SystemCall>,
    #[serde(default, with = "stored", skip_serializing_if = "Option::is_none")]
    tracer: Option<event::Ancestor>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::SystemCall")]
pub(super) struct SystemCall {
    name: String,
    arguments: [i64; 3],
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::FileId")]
pub(super) struct FileId {
    inode: u64,
    device: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Sender")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that the kernel said"
)]
pub(super) struct Sender {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    tid: Pid,
    comm: String,
    uid: u32,
    exiting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process_exiting: Option<bool>,
    kernel_thread: bool,
    exe: Option<String>,
    cgroup: Option<String>,
    #[serde(with = "stored")]
    ancestors: Vec<event::Ancestor>,
    container_id: Option<String>,
    #[serde(default)]
    effective_uid: Option<u32>,
    #[serde(default)]
    saved_uid: Option<u32>,
    #[serde(default, with = "stored")]
    file: Option<event::FileId>,
    #[serde(default)]
    argv: Vec<String>,
    #[serde(default)]
    exec_seen: bool,
    #[serde(default)]
    same_root: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Ancestor")]
pub(super) struct Ancestor {
    pid: Pid,
    comm: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::OomVictim")]
pub(super) struct OomVictim {
    #[serde(with = "stored")]
    victim: ids::ProcessKey,
    victim_tid: Pid,
    signalled: bool,
    mm: u64,
    #[serde(with = "stored")]
    invoker: ids::ProcessKey,
    invoker_comm: String,
    stack: Vec<String>,
    #[serde(default, with = "stored", skip_serializing_if = "Option::is_none")]
    short_of: Option<event::ShortOf>,
    #[serde(with = "stored")]
    cgroups: Vec<event::CgroupLevel>,
    score_adj: i32,
    #[serde(with = "stored")]
    memory: event::MemorySplit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::CgroupLevel")]
pub(super) struct CgroupLevel {
    #[serde(default)]
    id: u64,
    path: String,
    usage: Bytes,
    limit: Option<Bytes>,
    #[serde(default)]
    oom_events: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ShortOf", rename_all = "snake_case")]
pub(super) enum ShortOf {
    Cgroup { id: u64 },
    Machine,
    Cpuset,
    Mempolicy,
    ByHand,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Exit")]
pub(super) struct Exit {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    ns_pid: Option<Pid>,
    parent: Option<Pid>,
    comm: String,
    status: Option<i32>,
    title: Option<String>,
    #[serde(with = "stored")]
    memory: event::MemorySplit,
    mm: u64,
    uid: Option<u32>,
    harvested: bool,
    #[serde(default, with = "stored", skip_serializing_if = "Option::is_none")]
    tracer: Option<event::Ancestor>,
    #[serde(default, with = "stored", skip_serializing_if = "Option::is_none")]
    pending: Option<event::PendingSignals>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::PendingSignals")]
pub(super) struct PendingSignals {
    process: u64,
    threads: u64,
    blocked: u64,
}
