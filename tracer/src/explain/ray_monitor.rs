//! Reads kills by Ray's memory monitor, as raylets, drivers and the GCS print them.
//!
//! Records are read line by line. A text may be cut anywhere, shuffled or mixed with another one,
//! so a kill is believed only if its own line names the killed process. The grammar of the lines is
//! in [`monitor_kill`].

use super::{HexIds as _, line::LogLine};
use crate::{
    ids::HexId,
    judge::from_text::claim::{Claim, Place, RayMemory, Statement, Subject},
    ray::{facts::Candidate, log::monitor_kill},
};

/// The most lines of one record: 100 candidates, the object store's state and ten users.
const MAX_LINES: u32 = 160;
/// The most of the largest processes that are kept.
const MAX_TOP: usize = 10;

/// The record that is being read.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    open: Option<Block>,
}

#[derive(Debug, Default)]
struct Block {
    lines: u32,
    first: LogLine,
    node: Option<HexId>,
    ip: Option<String>,
    /// The worker whose exit the GCS reports with this record.
    worker_id: Option<HexId>,
    /// The actor whose block ends with this record.
    actor: Subject,
    figures: RayMemory,
    found: Vec<Statement>,
    /// Whether the record says that Ray killed for memory, even if its list is lost.
    claims: bool,
    /// Whether the record says that Ray kills.
    kills: bool,
    /// Whether the record has the table of the largest processes.
    table: bool,
}

impl Monitor {
    /// Returns whether the next lines belong to a record.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: &LogLine, out: &mut Vec<Statement>) {
        let text = line.text.as_str();
        let opens = monitor_kill::opens(text) || super::ray_exit::killed_for_memory(text);
        let table = monitor_kill::has_table_head(text);
        let done = self.open.as_ref().is_some_and(|open| {
            line.component.is_some()
                || open.lines >= MAX_LINES
                || (opens && open.node.is_some())
                || (open.is_table() && !opens && monitor_kill::row(text).is_none())
                || monitor_kill::is_advice(text)
        });
        if done {
            self.flush(out);
        }
        if let Some(killed) = newest(line) {
            self.flush(out);
            out.push(killed);
            return;
        }
        let listed = || {
            let mut listed = monitor_kill::listed(text).into_iter();
            listed.any(|(one, _)| has_whole_ids(&one))
        };
        if self.open.is_none() && !opens && !table && !listed() {
            return;
        }
        let block = self.open.get_or_insert_with(|| Block {
            first: line.clone(),
            worker_id: reported_exit(text),
            ..Block::default()
        });
        block.lines += 1;
        block.table |= table;
        block.read(line);
    }

    /// Names the actor whose block ends at the line that opened the record. Ray 2.1 names only the
    /// worker in it.
    pub(super) fn of_actor(&mut self, place: Place, actor: &Subject) {
        let open = self.open.as_mut();
        if let Some(block) = open.filter(|block| block.first.place == place) {
            block.actor = actor.clone();
        }
    }

    /// Ends the record that is being read.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        let Some(block) = self.open.take() else {
            return;
        };
        block.finish(out);
    }
}

impl Block {
    /// Returns whether only the table has been read.
    fn is_table(&self) -> bool {
        self.table && !self.claims && !self.kills && self.found.is_empty() && self.node.is_none()
    }

    fn read(&mut self, line: &LogLine) {
        let text = line.text.as_str();
        self.claims |= super::ray_exit::killed_for_memory(text);
        self.kills |= monitor_kill::has_kill_details(text);
        if let Some((ip, id)) = monitor_kill::node(text) {
            self.ip = Some(ip);
            self.node = Some(id);
        }
        self.figures(text);
        if monitor_kill::is_node_line(text)
            && let Some(one) = monitor_kill::one(text).and_then(uncut)
        {
            self.add(one, line);
        }
        for (one, killed) in monitor_kill::listed(text) {
            if killed && has_whole_ids(&one) {
                self.add(one, line);
            }
        }
        let room = MAX_TOP.saturating_sub(self.figures.top.len());
        let mut top = monitor_kill::top(text);
        if top.is_empty() && self.table {
            top.extend(monitor_kill::row(text));
        }
        self.figures.top.extend(top.into_iter().take(room));
    }

    /// Keeps the figures of the first line that has any, or exact ones from a later line.
    fn figures(&mut self, text: &str) {
        let found = monitor_kill::figures(text);
        if monitor_kill::is_exact(text) {
            self.figures.used = found.used.or(self.figures.used);
            self.figures.threshold = found.threshold.or(self.figures.threshold);
            self.figures.total = found.total.or(self.figures.total);
        } else {
            self.figures.used = self.figures.used.or(found.used);
            self.figures.threshold = self.figures.threshold.or(found.threshold);
            self.figures.total = self.figures.total.or(found.total);
        }
    }

    fn add(&mut self, one: Candidate, line: &LogLine) {
        let memory = RayMemory {
            own: one.used,
            ..RayMemory::default()
        };
        let subject = Subject {
            node_id: self.node.clone(),
            ip: self.ip.clone(),
            ..subject(one)
        };
        let mut killed = line.states(subject, Claim::RayMemory(Box::new(memory)));
        if killed.stamp.is_empty() {
            killed.stamp = self.first.stamp;
        }
        self.found.push(killed);
    }

    fn finish(self, out: &mut Vec<Statement>) {
        if self.found.is_empty() && (self.claims || self.kills) {
            // The monitor's figures, or words about memory, show that memory was the reason.
            let for_memory = self.claims || self.figures.used.is_some();
            let claim = if for_memory {
                Claim::RayMemory(Box::new(self.figures))
            } else {
                Claim::UnparsedKill
            };
            let subject = Subject {
                node_id: self.node.filter(|_| self.worker_id.is_some()),
                ip: self.ip,
                worker_id: self.worker_id,
                ..self.actor
            };
            out.push(self.first.states(subject, claim));
            return;
        }
        if self.found.is_empty() && self.table && !self.figures.top.is_empty() {
            let claim = Claim::MemoryTable(Box::new(self.figures));
            out.push(self.first.states(Subject::default(), claim));
            return;
        }
        let is_only = self.found.len() == 1;
        for mut statement in self.found {
            let subject = &mut statement.subject;
            if is_only && subject.pid.is_none() && subject.actor_id.is_none() {
                *subject = Subject {
                    node_id: subject.node_id.take(),
                    ip: subject.ip.take(),
                    worker_id: subject.worker_id.take(),
                    ..self.actor.clone()
                };
            }
            if let Claim::RayMemory(memory) = &mut statement.claim {
                let own = memory.own;
                **memory = RayMemory {
                    own,
                    ..self.figures.clone()
                };
            }
            out.push(statement);
        }
    }
}

/// Reads the record of Ray 2.0 and 2.1, which is one line.
fn newest(line: &LogLine) -> Option<Statement> {
    let (ip, one, figures) = monitor_kill::newest(&line.text)?;
    let memory = RayMemory {
        used: figures.used,
        threshold: figures.threshold,
        total: figures.total,
        ..RayMemory::default()
    };
    let subject = Subject {
        ip: Some(ip),
        ..subject(one)
    };
    Some(line.states(subject, Claim::RayMemory(Box::new(memory))))
}

/// Returns the worker of a GCS line `Reporting worker exit, worker id = …, exit_detail = 3
/// worker(s) were killed …` (`gcs_worker_manager.cc`).
fn reported_exit(text: &str) -> Option<HexId> {
    let (_, report) = text.split_once("Reporting worker exit")?;
    report.hex_after("worker id = ", HexId::WORKER_DIGITS)
}

fn is_whole(id: Option<&HexId>, digits: usize) -> bool {
    id.is_none_or(|id| id.has_digits(digits))
}

/// Returns whether all ids have their full length. A cut id would be another one.
fn has_whole_ids(one: &Candidate) -> bool {
    is_whole(one.worker_id.as_ref(), HexId::WORKER_DIGITS)
        && is_whole(one.actor_id.as_ref(), HexId::ACTOR_DIGITS)
}

/// Removes ids that were cut. Returns nothing if neither a pid nor a worker id is left.
fn uncut(one: Candidate) -> Option<Candidate> {
    let worker = is_whole(one.worker_id.as_ref(), HexId::WORKER_DIGITS);
    let actor = is_whole(one.actor_id.as_ref(), HexId::ACTOR_DIGITS);
    let left = Candidate {
        worker_id: one.worker_id.filter(|_| worker),
        actor_id: one.actor_id.filter(|_| actor),
        ..one
    };
    (left.pid.is_some() || left.worker_id.is_some()).then_some(left)
}

fn subject(one: Candidate) -> Subject {
    let class = one.task_name.as_deref().and_then(class_of);
    Subject {
        pid: one.pid,
        worker_id: one.worker_id,
        actor_id: one.actor_id,
        job_id: one.job_id,
        // The creation task is over once the actor runs.
        task: one.task_name.filter(|_| class.is_none()),
        class,
        ..Subject::default()
    }
}

/// Returns the actor class of a creation task: `name:WorkerDict.__init__` is class `WorkerDict`.
fn class_of(task: &str) -> Option<String> {
    let class = task.strip_suffix(".__init__")?;
    Some(class.rsplit(':').next().unwrap_or(class).to_owned())
}
