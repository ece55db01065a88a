//! Claims about one process, brought together: by worker id, by actor, by pid of one namespace.
//!
//! Claims are folded as they come, so that memory is bounded by the number of deaths and not by the size of the texts.

use std::collections::HashMap;

use super::claim::{Claim, Domain, Statement, Subject};
use crate::{
    event::Role,
    ids::{HexId, Pid},
};

/// Processes of which something is known; more are counted, not kept.
const MAX_DOSSIERS: usize = 20_000;
/// Claims kept of one process: the first of each kind always stays.
const MAX_STATEMENTS: usize = 12;
/// Claims without a name that are kept.
const MAX_NAMELESS: usize = 200;

/// What is known of one process.
#[derive(Debug, Default, Clone)]
pub struct Dossier {
    /// Who it is, all claims together.
    pub subject: Subject,
    /// What was said, in the order in which it was read.
    pub statements: Vec<Statement>,
}

impl Dossier {
    /// Whether anything says that it ended.
    #[must_use]
    pub fn is_death(&self) -> bool {
        self.statements
            .iter()
            .any(|one| !matches!(one.claim, Claim::Identity))
    }

    fn add(&mut self, statement: Statement) {
        merge_subject(&mut self.subject, &statement.subject);
        let kind = std::mem::discriminant(&statement.claim);
        let known = self
            .statements
            .iter()
            .filter(|one| std::mem::discriminant(&one.claim) == kind);
        let twice = known
            .clone()
            .any(|one| one.place == statement.place && one.quote == statement.quote);
        if !twice && (self.statements.len() < MAX_STATEMENTS || known.count() == 0) {
            self.statements.push(statement);
        }
    }
}

/// All dossiers.
#[derive(Debug, Default)]
pub struct Dossiers {
    all: Vec<Dossier>,
    by_worker: HashMap<HexId, usize>,
    by_actor: HashMap<HexId, Vec<usize>>,
    by_pid: HashMap<(bool, Pid), Vec<usize>>,
    raylets: Vec<usize>,
    /// Claims of which no line says whom they concern.
    pub nameless: Vec<Statement>,
    /// Claims that were not kept: too many.
    pub skipped: u64,
}

impl Dossiers {
    /// Adds a claim to the dossier of its subject.
    pub fn add(&mut self, statement: Statement) {
        if !statement.subject.is_named() {
            return self.add_nameless(statement);
        }
        let mut found = self.find(&statement.subject);
        found.sort_unstable();
        found.dedup();
        let at = match found.split_first() {
            Some((first, rest)) => {
                for other in rest {
                    self.absorb(*first, *other);
                }
                *first
            }
            None if self.all.len() >= MAX_DOSSIERS => {
                self.skipped += 1;
                return;
            }
            None => {
                self.all.push(Dossier::default());
                self.all.len() - 1
            }
        };
        self.all[at].add(statement);
        self.index(at);
    }

    fn add_nameless(&mut self, statement: Statement) {
        if self.nameless.len() < MAX_NAMELESS {
            self.nameless.push(statement);
        } else {
            self.skipped += 1;
        }
    }

    /// All of whose end something is said.
    pub fn deaths(&self) -> impl Iterator<Item = &Dossier> {
        self.all.iter().filter(|dossier| dossier.is_death())
    }

    /// All dossiers, also those of processes that only started.
    #[must_use]
    pub fn all(&self) -> &[Dossier] {
        &self.all
    }

    fn find(&self, subject: &Subject) -> Vec<usize> {
        let mut found = Vec::new();
        if subject.role == Some(Role::Raylet) {
            found.extend(self.raylets.iter().copied());
        } else {
            if let Some(worker) = &subject.worker_id {
                found.extend(self.by_worker.get(worker));
            }
            if let Some(actor) = &subject.actor_id {
                found.extend(self.by_actor.get(actor).into_iter().flatten());
            }
            if let Some(pid) = subject.pid {
                let key = (subject.domain == Domain::Host, pid);
                found.extend(self.by_pid.get(&key).into_iter().flatten());
            }
        }
        found.retain(|at| compatible(&self.all[*at].subject, subject));
        // Several that fit and contradict one another are not merged by a line that fits all.
        let agree = |this: &usize| {
            let kept = &self.all[found[0]].subject;
            compatible(kept, &self.all[*this].subject)
        };
        let found_all: Vec<usize> = found.iter().copied().filter(|at| agree(at)).collect();
        found_all
    }

    fn absorb(&mut self, into: usize, other: usize) {
        let absorbed = std::mem::take(&mut self.all[other]);
        merge_subject(&mut self.all[into].subject, &absorbed.subject);
        for statement in absorbed.statements {
            self.all[into].add(statement);
        }
        let moved = |list: &mut Vec<usize>| {
            list.retain(|at| *at != other);
            if !list.contains(&into) {
                list.push(into);
            }
        };
        if let Some(worker) = absorbed.subject.worker_id {
            self.by_worker.insert(worker, into);
        }
        if let Some(actor) = absorbed.subject.actor_id {
            self.by_actor.entry(actor).and_modify(moved);
        }
        if let Some(pid) = absorbed.subject.pid {
            let key = (absorbed.subject.domain == Domain::Host, pid);
            self.by_pid.entry(key).and_modify(moved);
        }
        self.raylets.retain(|at| *at != other);
    }

    fn index(&mut self, at: usize) {
        let subject = &self.all[at].subject;
        let note = |list: &mut Vec<usize>| {
            if !list.contains(&at) {
                list.push(at);
            }
        };
        if subject.role == Some(Role::Raylet) {
            return note(&mut self.raylets);
        }
        if let Some(worker) = &subject.worker_id {
            self.by_worker.insert(worker.clone(), at);
        }
        if let Some(actor) = &subject.actor_id {
            note(self.by_actor.entry(actor.clone()).or_default());
        }
        if let Some(pid) = subject.pid {
            let key = (subject.domain == Domain::Host, pid);
            note(self.by_pid.entry(key).or_default());
        }
    }
}

/// Whether two descriptions can be of one process: nothing that both name differs.
fn compatible(one: &Subject, other: &Subject) -> bool {
    fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.zip(other).is_none_or(|(one, other)| one == other)
    }
    one.domain == other.domain
        && agree(one.pid.as_ref(), other.pid.as_ref())
        && agree(one.worker_id.as_ref(), other.worker_id.as_ref())
        && agree(one.actor_id.as_ref(), other.actor_id.as_ref())
        && agree(one.node_id.as_ref(), other.node_id.as_ref())
        && agree(one.comm.as_ref(), other.comm.as_ref())
        && agree(one.role.as_ref(), other.role.as_ref())
}

fn merge_subject(into: &mut Subject, from: &Subject) {
    fn fill<T: Clone>(into: &mut Option<T>, from: Option<&T>) {
        if into.is_none() {
            *into = from.cloned();
        }
    }
    into.domain = from.domain;
    fill(&mut into.pid, from.pid.as_ref());
    fill(&mut into.worker_id, from.worker_id.as_ref());
    fill(&mut into.actor_id, from.actor_id.as_ref());
    fill(&mut into.job_id, from.job_id.as_ref());
    fill(&mut into.node_id, from.node_id.as_ref());
    fill(&mut into.ip, from.ip.as_ref());
    fill(&mut into.class, from.class.as_ref());
    fill(&mut into.task, from.task.as_ref());
    fill(&mut into.comm, from.comm.as_ref());
    fill(&mut into.role, from.role.as_ref());
}
