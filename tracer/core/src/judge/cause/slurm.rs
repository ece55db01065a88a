//! Why Slurm ended a process, as far as its signals and the ends of its tasks show.

use serde::Serialize;

use super::{Cause, ProcessRef};
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

impl SlurmEnd {
    /// `Slurm ended job 12, step 0 (slurmstepd 7851)`.
    pub fn act(&self) -> String {
        let job = self.job_id.as_deref();
        let job = job.map_or_else(|| "its step".to_owned(), |job| format!("job {job}"));
        let step = self.step_id.as_deref();
        let step = step.map_or_else(String::new, |step| format!(", step {step}"));
        format!("Slurm ended {job}{step} (slurmstepd {})", self.stepd.pid)
    }
}

impl Cause {
    /// Returns Slurm's act, also where the process caught its signal.
    pub fn by_slurm(&self) -> Option<&SlurmEnd> {
        match self {
            Self::Slurm(end) => Some(end),
            Self::CaughtSignalThenExit { cause, .. }
            | Self::CaughtSignalThenReraise { cause, .. }
            | Self::CaughtSignalThenAbort { cause, .. }
            | Self::CaughtSignalThenSignal { cause, .. }
            | Self::CaughtSignalThenRaylet { cause } => cause.by_slurm(),
            _ => None,
        }
    }
}

/// Why Slurm may end a step where its node does not show which it was.
pub const NOT_SHOWN: &str =
    "by scancel, a time limit, preemption, a failed node or the end of its srun";

/// Returns the command that says why Slurm ended a job.
pub fn sacct(job: &str) -> String {
    format!("sacct -j {job} -o JobID,State,ExitCode,Reason")
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
    /// By `scancel`, a time limit, preemption, a failed node or the end of its `srun`: the node does
    /// not show which.
    NotShown,
}
