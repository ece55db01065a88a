//! The stored form of memory, and of what made it grow.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    event,
    ids::{self, BootTime, Bytes, Pid},
};

stored_as! {
    MemorySplit => event::MemorySplit,
    SharedMemory => event::SharedMemory,
    SharedFile => event::SharedFile,
    CgroupState => event::CgroupState,
    ProcessMemory => event::ProcessMemory,
    MonitorCount => event::MonitorCount,
    Mapped => event::Mapped,
    MemoryPart => event::MemoryPart,
    Step => event::Step,
    OutsideMemory => event::OutsideMemory,
    NodeMemory => event::NodeMemory,
    LimitName => event::LimitName,
    Within => event::Within,
    ForecastProcess => event::ForecastProcess,
    LimitWarning => event::LimitWarning,
    GpuState => event::GpuState,
    GpuHolder => event::GpuHolder,
    PythonStack => event::PythonStack,
    PythonFrame => event::PythonFrame,
    NativeFrame => event::NativeFrame,
    Unsampled => event::Unsampled,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::MemorySplit")]
pub(super) struct MemorySplit {
    anon: Option<Bytes>,
    file: Option<Bytes>,
    shmem: Option<Bytes>,
    swap: Option<Bytes>,
    peak: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::SharedMemory")]
pub(super) struct SharedMemory {
    #[serde(with = "stored")]
    raylet: ids::ProcessKey,
    total: Bytes,
    used: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::SharedFile")]
pub(super) struct SharedFile {
    device: u64,
    inode: u64,
    name: String,
    bytes: Bytes,
    #[serde(with = "stored")]
    holders: Vec<ids::ProcessKey>,
    holder_count: u32,
    looked_us: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::CgroupState")]
pub(super) struct CgroupState {
    path: String,
    usage: Bytes,
    limit: Option<Bytes>,
    oom_kills: Option<u64>,
    anon: Option<Bytes>,
    file: Option<Bytes>,
    shmem: Option<Bytes>,
    kernel: Option<Bytes>,
    swap: Option<Bytes>,
    stalled_us: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::MonitorCount")]
pub(super) struct MonitorCount {
    #[serde(with = "stored")]
    raylet: ids::ProcessKey,
    used: Bytes,
    threshold: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ProcessMemory")]
pub(super) struct ProcessMemory {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    #[serde(with = "stored")]
    memory: event::MemorySplit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Mapped")]
pub(super) struct Mapped {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    tid: Pid,
    bytes: Bytes,
    all_bytes: Bytes,
    calls: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::MemoryPart", rename_all = "lowercase")]
pub(super) enum MemoryPart {
    File,
    Anon,
    Swap,
    Shmem,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Step")]
pub(super) struct Step {
    time: BootTime,
    #[serde(with = "stored")]
    part: event::MemoryPart,
    bytes: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::OutsideMemory")]
pub(super) struct OutsideMemory {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    name: String,
    #[serde(default)]
    cgroup: Option<String>,
    #[serde(with = "stored")]
    memory: event::MemorySplit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::NodeMemory")]
pub(super) struct NodeMemory {
    total: Bytes,
    available: Bytes,
    free: Bytes,
    shmem: Bytes,
    swap_used: Bytes,
    anon: Option<Bytes>,
    file: Option<Bytes>,
    kernel: Option<Bytes>,
    huge: Option<Bytes>,
    cpu_lists: Option<Bytes>,
    stalled_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    others: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swap_total: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::LimitName", rename_all = "snake_case")]
pub(super) enum LimitName {
    RayMonitor,
    Cgroup(String),
    Machine,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Within")]
pub(super) struct Within {
    soonest_ms: u64,
    latest_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ForecastProcess")]
pub(super) struct ForecastProcess {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    name: String,
    call: Option<String>,
    moved: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::LimitWarning")]
pub(super) struct LimitWarning {
    #[serde(with = "stored")]
    limit: event::LimitName,
    at: Bytes,
    used: Bytes,
    #[serde(with = "stored", rename = "forecast", alias = "within")]
    within: Option<event::Within>,
    #[serde(with = "stored", alias = "doer")]
    grower: Option<event::ForecastProcess>,
    #[serde(with = "stored")]
    victim: Option<event::ForecastProcess>,
    seen_ms: u64,
    #[serde(default, rename = "tasks_at_once", alias = "at_once")]
    at_once: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::GpuState")]
pub(super) struct GpuState {
    device: u32,
    total: Bytes,
    used: Bytes,
    uncorrected_errors: Option<u64>,
    #[serde(with = "stored")]
    holders: Vec<event::GpuHolder>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::GpuHolder")]
pub(super) struct GpuHolder {
    pid: Pid,
    #[serde(default, with = "stored")]
    process: Option<ids::ProcessKey>,
    name: Option<String>,
    parent: Option<Pid>,
    used: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::PythonStack")]
pub(super) struct PythonStack {
    #[serde(with = "stored")]
    process: ids::ProcessKey,
    tid: Option<Pid>,
    grown: Bytes,
    shared: Bytes,
    mapping: Option<u32>,
    repeats: bool,
    #[serde(with = "stored")]
    frames: Vec<event::PythonFrame>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "stored")]
    native: Vec<event::NativeFrame>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "stored")]
    unsampled: Option<event::Unsampled>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::PythonFrame")]
pub(super) struct PythonFrame {
    file: String,
    function: String,
    line: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Unsampled", rename_all = "kebab-case")]
pub(super) enum Unsampled {
    NoTime,
    TooShort,
    TooSlow,
    TooMany,
    Unreadable,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::NativeFrame")]
pub(super) struct NativeFrame {
    library: String,
    function: Option<String>,
}
