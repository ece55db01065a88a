//! The stored form of what the recorder reports about itself.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    event,
    ids::{self, Bytes, WallTime},
};

stored_as! {
    RecordingStarted => event::RecordingStarted,
    Part => event::Part,
    Previous => event::Previous,
    Mode => event::Mode,
    Probe => event::Probe,
    ProbeState => event::ProbeState,
    Ledger => event::Ledger,
    ClockError => event::ClockError,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ClockError")]
pub(super) struct ClockError {
    max_us: u64,
    synchronised: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::RecordingStarted")]
pub(super) struct RecordingStarted {
    raytrace: String,
    host: String,
    kernel: String,
    boot_id: String,
    memory_bytes: Bytes,
    cpus: u32,
    #[serde(with = "stored")]
    mode: event::Mode,
    wall: WallTime,
    pid_namespace: Option<u64>,
    #[serde(default, with = "stored")]
    recorder: Option<ids::ProcessKey>,
    #[serde(default, with = "stored")]
    supervisor: Option<ids::ProcessKey>,
    #[serde(default, with = "stored")]
    part: Option<event::Part>,
    #[serde(default, with = "stored")]
    previous: Option<event::Previous>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Part")]
pub(super) struct Part {
    began: WallTime,
    number: u32,
    before: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Previous")]
pub(super) struct Previous {
    file: String,
    ended: WallTime,
    clean: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Mode", rename_all = "lowercase")]
pub(super) enum Mode {
    Ebpf,
    Procfs,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Probe")]
pub(super) struct Probe {
    name: String,
    #[serde(with = "stored")]
    state: event::ProbeState,
    reason: Option<String>,
    required: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ProbeState", rename_all = "lowercase")]
pub(super) enum ProbeState {
    Ok,
    Degraded,
    Missing,
    Gone,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Ledger")]
pub(super) struct Ledger {
    hook: String,
    seen: u64,
    submitted: u64,
    filtered: u64,
    ring_full: u64,
    map_full: u64,
    recursion_misses: Option<u64>,
    #[serde(default, rename = "has_backup", alias = "second")]
    second: bool,
    received: u64,
    written: u64,
    dropped: u64,
    #[serde(default)]
    missed: u64,
}
