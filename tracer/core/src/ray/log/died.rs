//! Finds the process that one of Ray's exceptions names, in the output of a driver or worker.
//!
//! `ActorDiedError` (`RayActorError` up to 2.9) has a line for each field of the actor, in this
//! order: `class_name`, `actor_id`, `pid`, `name`, `namespace`, `ip`. Unknown fields are left out
//! (`python/ray/exceptions.py`, 2.1 to 2.60). `OutOfMemoryError` up to 2.54 has `where the task
//! (actor ID: …, name=…, pid=…, memory used=…) was running` on one line, and from 2.55 on `Selected
//! to kill: (…)` for each victim.

use super::monitor_kill;
use crate::{
    ids::{HexId, Pid},
    ray::facts::{Candidate, RayFact},
};

/// The fields that were read.
#[derive(Debug, Default)]
pub(super) struct ExceptionReader {
    actor_id: Option<HexId>,
    /// How many more lines may belong to an `OutOfMemoryError`.
    of_memory: u32,
}

/// How many lines an `OutOfMemoryError` has: the object store's state and 100 candidates.
const MEMORY_LINES: u32 = 160;

impl ExceptionReader {
    /// Takes a line. Returns a process once everything that names it was read.
    pub(super) fn push(&mut self, text: &str, worker_id: Option<&HexId>) -> Option<RayFact> {
        if let Some((actor_id, pid)) = victim(text) {
            return Some(fact(actor_id, Some(pid), worker_id));
        }
        self.of_memory = if text.contains("OutOfMemoryError: ") {
            MEMORY_LINES
        } else {
            self.of_memory.saturating_sub(1)
        };
        // Outside an exception, such a line is a raylet's own record that somebody prints.
        let selected = (self.of_memory > 0).then(|| selected(text)).flatten();
        if let Some(selected) = selected {
            return Some(fact(selected.actor_id, selected.pid, worker_id));
        }
        let (field, value) = text.trim().split_once(": ")?;
        match field {
            "actor_id" => {
                self.actor_id = HexId::parse(value.trim());
                None
            }
            "pid" => {
                let pid = value.trim().parse().ok().map(Pid);
                Some(fact(Some(self.actor_id.take()?), pid, worker_id))
            }
            "name" | "namespace" | "ip" => Some(fact(Some(self.actor_id.take()?), None, worker_id)),
            _ => {
                self.actor_id = None;
                None
            }
        }
    }
}

fn fact(actor_id: Option<HexId>, pid: Option<Pid>, worker_id: Option<&HexId>) -> RayFact {
    RayFact::DiedInException {
        actor_id,
        pid,
        worker_id: worker_id.cloned(),
    }
}

/// Returns actor and pid from `where the task (actor ID: …, name=…, pid=…, memory used=…) was
/// running`.
fn victim(text: &str) -> Option<(Option<HexId>, Pid)> {
    let (_, rest) = text
        .split_once("where the task (")
        .or_else(|| text.split_once("where the lease ("))?;
    let (inside, _) = rest.split_once(", memory used=")?;
    let (before, pid) = inside.rsplit_once("pid=")?;
    let actor_id = before
        .strip_prefix("actor ID: ")
        .and_then(|rest| rest.split(',').next());
    Some((actor_id.and_then(HexId::parse), Pid(pid.parse().ok()?)))
}

/// Returns the first worker that a line of an `OutOfMemoryError` (≥ 2.55) says was killed.
fn selected(text: &str) -> Option<Candidate> {
    let listed = monitor_kill::listed(text).into_iter();
    let mut killed = listed.filter(|(_, killed)| *killed);
    killed.next().map(|(candidate, _)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<RayFact> {
        let mut died = ExceptionReader::default();
        text.lines()
            .filter_map(|line| died.push(line, None))
            .collect()
    }

    fn names(actor: Option<&str>, pid: Option<u32>) -> Vec<RayFact> {
        vec![RayFact::DiedInException {
            actor_id: actor.and_then(HexId::parse),
            pid: pid.map(Pid),
            worker_id: None,
        }]
    }

    const ACTOR: &str = "ae4bef52a28c88a8d40463d901000000";

    #[test]
    fn dead_actor_is_named_by_its_fields() {
        let text = format!(
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\
             \tclass_name: WorkerDict\n\tactor_id: {ACTOR}\n\tpid: 16336\n\tname: x\n\tnamespace: y\n\tip: 192.0.2.2\n"
        );
        assert_eq!(read(&text), names(Some(ACTOR), Some(16336)));
    }

    #[test]
    fn actor_that_never_ran_has_no_pid() {
        let text = format!("\tclass_name: A\n\tactor_id: {ACTOR}\n\tnamespace: y\n");
        assert_eq!(read(&text), names(Some(ACTOR), None));
    }

    #[test]
    fn out_of_memory_error_names_its_victim() {
        let text = format!(
            "Memory on the node (IP: 192.0.2.2, ID: c4ea) where the task (actor ID: {ACTOR}, name=a:b, pid=22124, memory used=0.71GB) was running was 3.55GB"
        );
        assert_eq!(read(&text), names(Some(ACTOR), Some(22124)));
        let text = "where the task (task ID: daf6c8a82fdee1170203c5c2935168f0ca9e593301000000, name=f, pid=20835, memory used=0.66GB) was running";
        assert_eq!(read(text), names(None, Some(20835)));
    }

    #[test]
    fn new_out_of_memory_error_names_the_selected() {
        let line = |mark: &str, pid: u32| {
            format!(
                "{mark}(Actor({ACTOR}): job ID=01000000, lease ID=03000000, task name=W.__init__, required resources={{CPU: 1}}, pid={pid}, actual memory used=2.34GB, worker ID=92afeca97c04)"
            )
        };
        let head = "ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node running low on memory.";
        let listed = [line("", 7), line("Selected to kill: ", 17971)].join("\n");
        let text = format!("{head}\n{listed}");
        assert_eq!(read(&text), names(Some(ACTOR), Some(17971)));
        assert_eq!(read(&listed), Vec::new());
    }

    #[test]
    fn fields_of_other_text_name_nobody() {
        assert_eq!(read("pid: 7\nname: x\nactor_id: no\npid: 8\n"), Vec::new());
    }
}
