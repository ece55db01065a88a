//! Keeps memory by owner: an actor class, a task, a driver or a part of Ray.
//!
//! For each owner it has the most that was held at one moment, and in how many processes. A worker
//! counts for what it runs or ran last: what an idle worker still holds was left by its last task.
//! An actor's worker counts for its class.

use std::collections::HashMap;

use crate::{
    event::{Call, Role},
    ids::{BootTime, ByProcess, Bytes, ProcessKey},
    judge::{report::OwnerKind, state::processes::ProcessState},
    path,
    ray::identify,
};

/// At most this many owners are told apart. A job that gives each task its own name has as many
/// owners as tasks.
const MOST: usize = 4_096;

/// The owner of workers that have run nothing yet.
pub(crate) const IDLE: &str = "idle worker";

/// The owner of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OwnerName {
    pub(crate) kind: OwnerKind,
    pub(crate) name: String,
}

impl OwnerName {
    fn new(kind: OwnerKind, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { kind, name }
    }
}

/// Who holds what now, and what each owner held at its peak.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    held: ByProcess<Held>,
    numbers: HashMap<OwnerName, usize>,
    pub(crate) sums: Vec<OwnerSum>,
    total: u64,
}

/// What one process holds, and the number of its owner.
#[derive(Debug, Clone, Copy)]
struct Held {
    owner: usize,
    private: Bytes,
}

/// An owner at one moment, and its peak so far.
#[derive(Debug, Default)]
pub(crate) struct OwnerSum {
    pub(crate) name: OwnerName,
    bytes: u64,
    processes: u32,
    pub(crate) peak: u64,
    pub(crate) processes_at_peak: u32,
    pub(crate) peaked: BootTime,
    /// The most that one process held.
    pub(crate) largest: u64,
    /// The number of complete calls.
    pub(crate) calls: u64,
}

impl Owners {
    /// Records the owner that a process works for from now on; `None` for a worker that has nothing
    /// to do.
    pub(crate) fn works_for(
        &mut self,
        process: ProcessKey,
        owner: Option<OwnerName>,
        time: BootTime,
    ) {
        let known = self.held.get(&process.truncated()).copied();
        let ran = known.filter(|held| self.sums[held.owner].name.kind == OwnerKind::Task);
        let owner = match (owner, ran) {
            (Some(name), _) => self.number(name),
            (None, Some(_)) => return,
            (None, None) => self.number(OwnerName::new(OwnerKind::Idle, IDLE)),
        };
        let private = known.map(|held| held.private).unwrap_or_default();
        self.replace(process, Some(Held { owner, private }), time);
    }

    /// Returns the class of actors that a process works for; `None` if it works for a task.
    pub(crate) fn class_of(&self, process: ProcessKey) -> Option<&OwnerName> {
        let held = self.held.get(&process.truncated())?;
        let name = &self.sums[held.owner].name;
        (name.kind == OwnerKind::Actor).then_some(name)
    }

    /// Counts a complete call.
    pub(crate) fn completed(&mut self, owner: OwnerName) {
        let number = self.number(owner);
        self.sums[number].calls += 1;
    }

    /// Records what a process holds from now on. Returns whether its owner is known.
    pub(crate) fn holds(&mut self, process: ProcessKey, private: Bytes, time: BootTime) -> bool {
        let Some(held) = self.held.get_mut(&process.truncated()) else {
            return false;
        };
        let old = std::mem::replace(&mut held.private, private);
        self.total = self.total - old.0 + private.0;
        let sum = &mut self.sums[held.owner];
        sum.less(old);
        sum.more(private, time);
        true
    }

    /// Records that a process has ended.
    pub(crate) fn ended(&mut self, process: ProcessKey) {
        self.replace(process, None, BootTime(0));
    }

    /// Returns what all processes hold together now.
    pub(crate) fn total(&self) -> Bytes {
        Bytes(self.total)
    }

    /// Returns how many processes hold some memory.
    pub(crate) fn processes(&self) -> usize {
        self.held.values().filter(|held| held.private.0 > 0).count()
    }

    fn number(&mut self, name: OwnerName) -> usize {
        let name = match self.numbers.len() {
            MOST.. if !self.numbers.contains_key(&name) => {
                OwnerName::new(OwnerKind::Other, "others")
            }
            _ => name,
        };
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.sums.push(OwnerSum::of(name.clone()));
            self.sums.len() - 1
        })
    }

    fn replace(&mut self, process: ProcessKey, new: Option<Held>, time: BootTime) {
        let old = match new {
            Some(new) => self.held.insert(process.truncated(), new),
            None => self.held.remove(&process.truncated()),
        };
        if let Some(old) = old {
            self.total -= old.private.0;
            self.sums[old.owner].less(old.private);
        }
        if let Some(new) = new {
            self.total += new.private.0;
            self.sums[new.owner].more(new.private, time);
        }
    }
}

impl OwnerSum {
    fn of(name: OwnerName) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    fn less(&mut self, private: Bytes) {
        self.bytes -= private.0;
        self.processes -= u32::from(private.0 > 0);
    }

    fn more(&mut self, private: Bytes, time: BootTime) {
        self.bytes += private.0;
        self.processes += u32::from(private.0 > 0);
        self.largest = self.largest.max(private.0);
        if self.bytes > self.peak {
            (self.peak, self.processes_at_peak) = (self.bytes, self.processes);
            self.peaked = time;
        }
    }
}

/// Returns the owner that a title names; `None` for an idle worker.
pub(crate) fn of_title(title: &str) -> Option<OwnerName> {
    let titled = identify::title(title)?;
    let class = titled
        .actor_class
        .map(|class| OwnerName::new(OwnerKind::Actor, class));
    class.or_else(|| Some(OwnerName::new(OwnerKind::Task, titled.task?)))
}

/// Returns the owner of a call of a process. The title of the process may be another one by now.
pub(crate) fn of_call(state: &ProcessState, call: &Call) -> Option<OwnerName> {
    let class = state.actor_class.clone();
    let of_class = class.map(|class| OwnerName::new(OwnerKind::Actor, class));
    of_class.or_else(|| of_title(&call.title))
}

/// Returns the name of the owner that a process works for.
pub(crate) fn called(state: &ProcessState) -> String {
    of_state(state).map_or_else(|| IDLE.to_owned(), |owner| owner.name)
}

/// Returns the owner that a process works for now.
pub(crate) fn of_state(state: &ProcessState) -> Option<OwnerName> {
    Some(match state.role {
        Role::Worker => return of_worker(state),
        Role::Driver => OwnerName::new(OwnerKind::Driver, "driver"),
        Role::Raylet => OwnerName::new(OwnerKind::Ray, "raylet"),
        Role::Gcs => OwnerName::new(OwnerKind::Ray, "gcs_server"),
        Role::Dashboard => OwnerName::new(OwnerKind::Ray, "dashboard"),
        Role::Agent => OwnerName::new(OwnerKind::Ray, program(&state.label())),
        Role::Descendant => OwnerName::new(OwnerKind::Subprocess, program(&state.label())),
        Role::Other => OwnerName::new(OwnerKind::Other, program(&state.label())),
    })
}

fn of_worker(state: &ProcessState) -> Option<OwnerName> {
    let class = state.actor_class.as_deref();
    let of_class = class.map(|class| OwnerName::new(OwnerKind::Actor, class));
    of_class.or_else(|| of_title(state.title.as_deref()?))
}

/// Returns the program of a command line, or what a title of Ray says.
fn program(label: &str) -> String {
    let name = label.trim_start_matches("ray::");
    let word = name.split_whitespace().next().unwrap_or(name);
    path::base(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str) -> Option<OwnerName> {
        of_title(&format!("ray::{name}"))
    }

    /// Returns the peak of each owner after moves (pid, owner, bytes held) in order of time. 0
    /// bytes stand for the end of a process.
    fn found(moves: &[(u32, Option<OwnerName>, u64)]) -> Vec<(String, u32, u64)> {
        let mut owners = Owners::default();
        for (time, (pid, owner, private)) in moves.iter().enumerate() {
            let (key, time) = (ProcessKey::new(*pid, 1), BootTime(time as u64));
            if *private == 0 {
                owners.ended(key);
                continue;
            }
            owners.works_for(key, owner.clone(), time);
            owners.holds(key, Bytes(*private), time);
        }
        let sums = owners.sums.into_iter().filter(|sum| sum.peak > 0);
        sums.map(|sum| (sum.name.name, sum.processes_at_peak, sum.peak))
            .collect()
    }

    #[test]
    fn memory_of_successive_workers_is_not_added() {
        let moves = [
            (7, task("hog"), 500),
            (7, task("hog"), 600),
            (7, None, 0),
            (8, task("hog"), 300),
        ];
        assert_eq!(found(&moves), [("hog".to_owned(), 1, 600)]);
    }

    /// It counts for the task that each worker ran last.
    #[test]
    fn memory_held_at_once_is_added() {
        let moves = [
            (7, task("hog"), 500),
            (8, task("hog"), 300),
            (9, None, 40),
            (8, None, 0),
            // Idle again, it holds what the task left.
            (7, None, 90),
        ];
        let expected = [
            ("hog".to_owned(), 2, 800),
            ("idle worker".to_owned(), 1, 40),
        ];
        assert_eq!(found(&moves), expected);
    }

    #[test]
    fn actor_and_its_methods_are_one_owner() {
        assert_eq!(of_title("ray::A.go"), of_title("ray::A"));
        assert_eq!(of_title("ray::IDLE"), None);
    }

    /// A job may give each task its own name.
    #[test]
    fn number_of_owners_is_bounded() {
        let moves: Vec<_> = (0..5000)
            .map(|at| (7, task(&format!("load-{at}")), 9))
            .collect();
        let found = found(&moves);
        assert_eq!(found.len(), MOST + 1);
        assert_eq!(found[MOST].0, "others");
    }
}
