//! Newtypes for pids, times, sizes and Ray's ids: no bare integer crosses a module border.
//!
//! Pure: no clock is read here. Observers make times and pass them on.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A process id (a thread group id), in the initial pid namespace unless a field says otherwise.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Nanoseconds since boot, suspend included (`CLOCK_BOOTTIME`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Returns nanoseconds from `earlier` to `self`; negative when `self` came first.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.cast_signed().wrapping_sub(earlier.0.cast_signed())
    }

    /// Returns whole milliseconds from `earlier` to `self`; `None` when `self` came first.
    pub fn ms_since(self, earlier: Self) -> Option<u64> {
        u64::try_from(self.since(earlier) / 1_000_000).ok()
    }

    /// Returns this time moved by `nanoseconds`, never below 0.
    pub fn plus(self, nanoseconds: i64) -> Self {
        Self(self.0.saturating_add_signed(nanoseconds))
    }
}

/// Nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(pub i64);

impl WallTime {
    /// Returns the time as jiff's type, for printing.
    pub fn timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

/// Bytes of memory or of a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bytes(pub u64);

/// Formats a size as people read it: `402.6 GiB`, `54 MiB` below a tenth of a GiB, `512 KiB` below
/// one MiB.
pub fn size(bytes: Bytes) -> String {
    match bytes.0 {
        0 => "0 MiB".to_owned(),
        1..0x10_0000 => format!("{} KiB", bytes.0.div_ceil(1024)),
        0x10_0000..SMALL => format!("{:.0} MiB", bytes.gib() * 1024.0),
        SMALL.. => format!("{:.1} GiB", bytes.gib()),
    }
}

/// Below this size, GiB with one decimal is too coarse.
pub(crate) const SMALL: u64 = (1 << 30) / 10;

impl Bytes {
    /// Returns the size in GiB (2^30 bytes).
    pub fn gib(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }

    /// Multiplies by `factor` and truncates to whole bytes. Returns 0 if `factor` is negative or
    /// not a number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of floats saturates, and memory sizes are far below 2^53"
    )]
    pub fn times(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }

    /// Formats a size that grows in small steps: `120 MiB`, `1.90 GiB`.
    pub fn finer_size(self) -> String {
        if self.0 >= 1 << 30 {
            format!("{:.2} GiB", self.gib())
        } else {
            format!("{:.0} MiB", self.gib() * 1024.0)
        }
    }
}

/// Identifies a process within one boot. Pids are reused, `(pid, start)` is not.
///
/// `start` is `task_struct.start_boottime` of the thread group's leader. /proc shows it truncated
/// to clock ticks (10 ms): see [`ProcessKey::same`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessKey {
    /// The thread group id.
    pub pid: Pid,
    /// When the process started.
    pub start: BootTime,
}

/// A map of processes. Each memory sample is looked up in several maps. A fast hash is safe here:
/// the kernel chooses pids and starts.
pub type ByProcess<T> = FxHashMap<ProcessKey, T>;

/// One second, in nanoseconds.
pub const SECOND_NS: i64 = 1_000_000_000;

/// One minute, in nanoseconds.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;

/// One clock tick of /proc (`USER_HZ` is 100 on every Linux that Ray runs on), in nanoseconds.
pub const CLOCK_TICK_NS: u64 = 10_000_000;

impl ProcessKey {
    /// Returns the key of the process `pid` that started at `start`.
    pub fn new(pid: u32, start: u64) -> Self {
        Self {
            pid: Pid(pid),
            start: BootTime(start),
        }
    }

    /// Whether both keys name one process: the pids are equal, and so are the starts when truncated
    /// to clock ticks.
    pub fn same(self, other: Self) -> bool {
        self.pid == other.pid && self.start.0 / CLOCK_TICK_NS == other.start.0 / CLOCK_TICK_NS
    }

    /// Returns the key with its start truncated to clock ticks. Maps hold processes in this form,
    /// whichever source named them.
    pub fn truncated(self) -> Self {
        Self {
            pid: self.pid,
            start: BootTime(self.start.0 / CLOCK_TICK_NS * CLOCK_TICK_NS),
        }
    }
}

impl Hash for ProcessKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Each memory sample is looked up several times, and hashing one number is faster than two.
        state.write_u64(self.start.0 ^ (u64::from(self.pid.0) << 32));
    }
}

impl fmt::Display for ProcessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pid.fmt(formatter)
    }
}

/// A hexadecimal id of Ray in lower case. Ids of tasks and leases have 48 or 64 digits, others as
/// the constants say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HexId(pub String);

impl HexId {
    /// Number of digits of a worker's or a node's id.
    pub const WORKER_DIGITS: usize = 56;
    /// Number of digits of an actor's id. The last ones are the id of its job.
    pub const ACTOR_DIGITS: usize = 32;
    /// Number of digits of a job's id.
    pub const JOB_DIGITS: usize = 8;

    /// Whether the id has this many digits. A shortened id would be another id.
    pub fn has_digits(&self, digits: usize) -> bool {
        self.0.len() == digits
    }

    /// Returns the job in an actor's id.
    pub fn job_of_actor(&self) -> Option<Self> {
        let begin = self.0.len().checked_sub(Self::JOB_DIGITS)?;
        self.0.get(begin..).and_then(Self::parse)
    }

    /// Returns the actor in a task's id (`TaskID::ForActorTask`): its last digits. `None` for a
    /// task of no actor, where they are nil.
    pub fn actor_of_task(&self) -> Option<Self> {
        let begin = self.0.len().checked_sub(Self::ACTOR_DIGITS)?;
        if begin == 0 {
            return None;
        }
        let actor = self.0.get(begin..)?;
        let is_nil = actor.starts_with("ffffffffffff");
        (!is_nil).then(|| Self::parse(actor)).flatten()
    }

    /// Parses an id: lower-case hexadecimal, not empty, and not one of Ray's nil forms (all `f`, or
    /// `NIL_ID`).
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let nil = text.bytes().all(|byte| byte == b'f');
        (hex && !nil && !text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the first eight digits, as people quote ids.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

impl fmt::Display for HexId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The row of an event in its recording. A death has the id of its exit event.
///
/// In a report of several recordings the upper bits hold the recording's number, which makes ids
/// unique. Only the row is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub u64);

impl EventId {
    /// Stands for an event that was not seen: events are numbered from 1.
    pub const NONE: Self = Self(0);

    /// How many bits hold the row. No recorder lives long enough to see more events.
    const ROW_BITS: u32 = 40;

    /// Returns the same row in the recording with this number.
    pub fn in_recording(self, number: u32) -> Self {
        Self(self.row() | u64::from(number) << Self::ROW_BITS)
    }

    /// Returns the recording's number in the report.
    pub fn recording(self) -> u32 {
        u32::try_from(self.0 >> Self::ROW_BITS).unwrap_or(u32::MAX)
    }

    /// Returns the row in its recording.
    pub fn row(self) -> u64 {
        self.0 & ((1 << Self::ROW_BITS) - 1)
    }
}

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// /proc truncates the start to clock ticks.
    #[test]
    fn proc_and_kernel_starts_are_the_same_process() {
        let kernel = ProcessKey::new(7, 123_456_789_012);
        let proc = ProcessKey::new(7, 123_450_000_000);
        assert!(kernel.same(proc));
        assert_eq!(kernel.truncated(), proc);
        assert!(!kernel.same(ProcessKey::new(7, 123_460_000_000)));
        assert!(!kernel.same(ProcessKey::new(8, 123_456_789_012)));
    }

    #[test]
    fn small_steps_have_two_decimals() {
        assert_eq!(Bytes(120 << 20).finer_size(), "120 MiB");
        assert_eq!(Bytes((19 << 30) / 10).finer_size(), "1.90 GiB");
    }

    #[test]
    fn nil_and_other_text_are_not_ids() {
        assert_eq!(HexId::parse("ffffffff"), None);
        assert_eq!(HexId::parse("NIL_ID"), None);
        assert_eq!(HexId::parse(""), None);
        assert_eq!(
            HexId::parse("01000000").map(|id| id.0),
            Some("01000000".into())
        );
    }

    #[test]
    fn actor_is_read_from_its_task_id() {
        let id = |text| HexId::parse(text).expect("an id");
        let actor = id("ae4bef52a28c88a8d40463d901000000");
        let task = id("beed05050684d000ae4bef52a28c88a8d40463d901000000");
        assert_eq!(task.actor_of_task(), Some(actor.clone()));
        assert_eq!(actor.actor_of_task(), None, "of no task");
        assert_eq!(actor.job_of_actor(), Some(id("01000000")));
        let plain = id("16310a0f0a45af5cffffffffffffffffffffffff01000000");
        assert_eq!(plain.actor_of_task(), None);
    }
}
