//! Defines what the recorder reports about itself: its mode, its probes, what it lost.

use serde::{Deserialize, Serialize};

use crate::ids::{Bytes, ProcessKey, WallTime};

/// Facts about the machine and the recorder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingStarted {
    /// raytrace's version.
    pub raytrace: String,
    /// Node name.
    pub host: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// `MemTotal`.
    pub memory_bytes: Bytes,
    /// Logical CPUs online.
    pub cpus: u32,
    /// The version of the memory cgroups, 1 or 2; `None` where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_version: Option<u8>,
    /// How it observes.
    pub mode: Mode,
    /// The wall clock at the event's boot time.
    pub wall: WallTime,
    /// The pid namespace of the recorder (inode number), where readable.
    pub pid_namespace: Option<u64>,
    /// The recorder's own process, in its own pid namespace.
    pub recorder: Option<ProcessKey>,
    /// The process that hands signals on to the wrapped command. What it sends has the sender of
    /// the same signal to it.
    pub supervisor: Option<ProcessKey>,
    /// Which file this is, if the recorder writes several in turn; `None` in the first.
    pub part: Option<Part>,
    /// The recording of this host that was in the same folder when the recorder began.
    pub previous: Option<Previous>,
}

/// A file that continues after another file of the same recorder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The wall clock when the recorder began: the same in all its files, and in no other
    /// recorder's.
    pub began: WallTime,
    /// How many files came before this one.
    pub number: u32,
    /// The name of the previous file.
    pub before: String,
}

/// A recording of an earlier recorder. No recorder ran between its end and the start of this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Its file's name.
    pub file: String,
    /// When its last event happened.
    pub ended: WallTime,
    /// Whether it ended as asked, not by a crash.
    pub clean: bool,
}

/// How a recording observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mode {
    /// eBPF programs are attached: acts are observed.
    Ebpf,
    /// No privilege: pidfds, /proc, cgroup counters and logs.
    Procfs,
}

/// One hook or file that the recorder wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probe {
    /// `oom/mark_victim`, `/dev/kmsg`, …
    pub name: String,
    /// Whether it works.
    pub state: ProbeState,
    /// Why it does not work, or which fallback is in use.
    pub reason: Option<String>,
    /// Whether verdicts can be proven only with it (`--require-all-probes` fails when such a probe
    /// is missing).
    pub required: bool,
}

impl Probe {
    /// Makes a probe that is missing.
    pub fn missing(name: &str, reason: String, required: bool) -> Self {
        Self {
            name: name.to_owned(),
            state: ProbeState::Missing,
            reason: Some(reason),
            required,
        }
    }
}

/// Whether a probe works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ProbeState {
    /// Attached.
    Ok,
    /// Attached by a fallback that sees less.
    Degraded,
    /// Absent; `reason` says why.
    Missing,
    /// It worked and then stopped; `reason` says how.
    Gone,
}

/// The loss ledger of one hook: `seen = submitted + filtered + ring_full + map_full`, `received =
/// written + dropped`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ledger {
    /// The hook, as the probe's name.
    pub hook: String,
    /// How often the program ran to the point where it counts.
    pub seen: u64,
    /// Records put into the ring.
    pub submitted: u64,
    /// Events that the program chose not to report (not tracked, not fatal).
    pub filtered: u64,
    /// Lost: no room in the ring.
    pub ring_full: u64,
    /// Lost: no room in a map.
    pub map_full: u64,
    /// How often the hook's first program could not run because it was already running on that CPU.
    /// These events are lost unless the hook has a second program. `None` where the kernel does not
    /// count them.
    pub recursion_misses: Option<u64>,
    /// Whether a second program reports what the first one missed.
    #[serde(rename = "has_backup", default, alias = "second")]
    pub second: bool,
    /// Records that user space took out of the ring.
    pub received: u64,
    /// Received records that were handed to the recording.
    pub written: u64,
    /// Received records that were dropped because a queue was full.
    pub dropped: u64,
    /// Lost events: a look at /proc found them, and the hook had not reported them.
    #[serde(default)]
    pub missed: u64,
}

/// The begins of the names of hooks at the exit and at the entry of a function of the kernel.
pub const OF_FUNCTIONS: [&str; 2] = ["fexit/", "fentry/"];

/// The begin of the name of a row that counts titles of one user's processes that were over a
/// budget.
pub const TITLES_OF: &str = "titles of user ";
/// The same for acts of one user's tracers and writers. The process that they were done to has
/// [`super::Exit::unrecorded`].
pub const INTERFERENCE_BY: &str = "tracers and writers of user ";
/// The same for signals that one user sent and that their targets caught or blocked.
pub const SIGNALS_BY: &str = "signals of user ";
/// The name of the row that counts events about processes that did not fit into the recording's
/// queue.
pub const PROCESS_EVENTS: &str = "starts and ends of processes";

impl Ledger {
    /// Returns how many events are known to have been lost.
    pub fn lost(&self) -> u64 {
        let left_out = self.recursion_misses.filter(|_| !self.second);
        let left_out = left_out.unwrap_or(0).max(self.missed);
        self.ring_full + self.map_full + self.dropped + left_out
    }
}
