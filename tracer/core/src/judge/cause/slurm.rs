//! Why Slurm ended a process, as far as its signals and the ends of its tasks show.

use serde::Serialize;

use super::ProcessRef;
use crate::ids::{Bytes, Pid};

/// A signal that slurmstepd sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlurmEnd {
    /// Its number.
    pub signal: i32,
    /// The slurmstepd that sent it.
    pub stepd: ProcessRef,
    /// The job.
    pub job_id: Option<String>,
    /// The step.
    pub step_id: Option<String>,
    /// How long before it the tasks were asked to end (SIGTERM); `None` if they were not, or if
    /// this signal asks.
    pub asked_ms: Option<u64>,
    /// Why.
    pub reason: SlurmReason,
}

/// Why Slurm ended a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum SlurmReason {
    /// Its batch script, or its task, had ended. Slurm ends what these leave.
    TaskEnded {
        /// That process.
        pid: Pid,
        /// Whether it was the batch script.
        batch: bool,
        /// Its exit code.
        code: Option<i32>,
    },
    /// Another task failed. `srun --kill-on-bad-exit` ends the step then.
    OtherTaskFailed {
        /// That process.
        pid: Pid,
        /// The number of the task in its step.
        task: Option<u32>,
        /// Its exit code.
        code: i32,
    },
    /// Its processes held more memory than it had requested (`OverMemoryKill`).
    OverMemory {
        /// What they held.
        used_bytes: Bytes,
        /// What it had requested.
        requested_bytes: Bytes,
    },
    /// Its time limit was reached.
    TimeLimit,
    /// The signal is not one by which Slurm ends a step: `scancel --signal`, `#SBATCH --signal`.
    Requested,
    /// By `scancel`, a time limit, preemption or a failed node: the node does not show which.
    NotShown,
}
