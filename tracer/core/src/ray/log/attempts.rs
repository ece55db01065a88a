//! Reads the fate of a task as its owner (driver or worker) logs it, over several lines.
//!
//! The lines are the same from 2.9 to 2.60: `Task attempt T failed with error WORKER_DIED Fail
//! immediately? 0, …`, `task T retries left: 1, oom retries left: -1, task failed due to oom: 0`,
//! then `Will resubmit task after a 0ms delay: … task_name=f, job_id=…` or `Task failed: …: Type=…,
//! task_name=f, …`.

use std::collections::VecDeque;

use super::line::{id_field, number_field, text_field};
use crate::{ids::HexId, ray::facts::RayFact};

/// How many attempts are kept until their fate is logged. Thousands of tasks can fail at once, with
/// interleaved lines.
const MAX_WAITING: usize = 1024;

/// What earlier lines said about tasks.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    waiting: VecDeque<Attempt>,
}

#[derive(Debug)]
struct Attempt {
    task_id: HexId,
    error: String,
    retries_left: Option<i64>,
}

impl Attempts {
    /// Takes a line; returns the task's fate when the line tells it.
    pub(super) fn observe(&mut self, message: &str) -> Option<RayFact> {
        if let Some(rest) = message.strip_prefix("Task attempt ") {
            self.failed(rest);
        } else if let Some(rest) = message.strip_prefix("task ") {
            self.retries(rest);
        } else if message.starts_with("Will resubmit task after") {
            return Some(self.fate(message, true));
        } else if message.starts_with("Task failed: ") {
            return Some(self.fate(message, false));
        }
        None
    }

    fn failed(&mut self, rest: &str) {
        let (Some(task_id), Some(error)) = (
            id_field(rest, ""),
            text_field(rest, "failed with error ", " "),
        ) else {
            return;
        };
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Attempt {
            task_id,
            error: error.to_owned(),
            retries_left: None,
        });
    }

    fn retries(&mut self, rest: &str) {
        // A task killed for memory has a budget of its own.
        let key = if rest.contains("task failed due to oom: 1") {
            "oom retries left: "
        } else {
            "retries left: "
        };
        let Some(task_id) = id_field(rest, "") else {
            return;
        };
        let of = self.waiting.iter_mut().rev();
        if let Some(attempt) = of.into_iter().find(|attempt| attempt.task_id == task_id) {
            attempt.retries_left = number_field(rest, key);
        }
    }

    fn fate(&mut self, message: &str, will_retry: bool) -> RayFact {
        let task_id = id_field(message, "task_id=");
        let known = self
            .waiting
            .iter()
            .rposition(|attempt| Some(&attempt.task_id) == task_id.as_ref())
            .and_then(|at| self.waiting.remove(at));
        let status = || {
            let text = text_field(message, "Task failed: ", ": Type=").unwrap_or("");
            text.chars().take(120).collect()
        };
        RayFact::TaskFailed {
            retries_left: known.as_ref().and_then(|attempt| attempt.retries_left),
            error: known.map_or_else(status, |attempt| attempt.error),
            task_id,
            will_retry: Some(will_retry),
            task_name: text_field(message, "task_name=", ", job_id=").map(str::to_owned),
            job_id: id_field(message, "job_id="),
        }
    }
}
