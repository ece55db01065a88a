//! Words why Slurm ended a process.

use libc::SIGTERM;

use super::{ClauseContext, fatal};
use crate::{
    judge::cause::{Cause, SlurmEnd, SlurmReason, slurm::NOT_SHOWN},
    signals,
    size::size,
};

impl ClauseContext {
    pub(super) fn by_slurm(&self, cause: &Cause) -> Option<String> {
        let Cause::Slurm(end) = cause else {
            return None;
        };
        let name = signals::name(end.signal);
        let (was, killed) = (self.number.was, fatal(end.signal));
        if end.reason == SlurmReason::Requested {
            return Some(format!(
                "{was} {killed} by {name} from Slurm (slurmstepd {}): by scancel --signal or #SBATCH --signal",
                end.stepd.pid
            ));
        }
        Some(format!(
            "{was} {killed} by {name} when {}: {}",
            end.act(),
            reason(end)
        ))
    }
}

/// Returns why Slurm ended a step, as far as it shows, and whether it asked first.
pub fn reason(end: &SlurmEnd) -> String {
    let asked = match end.asked_ms {
        _ if end.signal == SIGTERM => String::new(),
        Some(ms) if ms >= 1000 => {
            #[expect(clippy::cast_precision_loss, reason = "a day has 86,400,000 ms")]
            let seconds = ms as f64 / 1000.0;
            format!("; it had asked {seconds:.1} s before (SIGTERM)")
        }
        Some(_) | None => "; at once".to_owned(),
    };
    match &end.reason {
        SlurmReason::TaskEnded { batch, code, .. } => {
            let what = if *batch {
                "the batch script"
            } else {
                "its task"
            };
            let code = code.map_or_else(String::new, |code| format!(" with code {code}"));
            format!("{what} had ended{code}")
        }
        SlurmReason::OtherTaskFailed { pid, task, code } => {
            let task =
                task.map_or_else(|| "another task".to_owned(), |task| format!("task {task}"));
            format!("{task} (pid {pid}) had exited with code {code} (--kill-on-bad-exit)")
        }
        SlurmReason::OverMemory {
            used_bytes,
            requested_bytes,
        } => format!(
            "its processes held {} and it had requested {}, which OverMemoryKill of slurm.conf ends{asked}",
            size(*used_bytes),
            size(*requested_bytes)
        ),
        SlurmReason::TimeLimit => format!("its time limit was reached{asked}"),
        SlurmReason::Requested => "a signal that somebody requested".to_owned(),
        SlurmReason::NotShown => format!("{NOT_SHOWN}{asked}"),
    }
}
