//! Brings together the claims about one process: by worker id, by actor, by pid of one namespace.
//!
//! Claims are folded in as they come. So memory is bounded by the number of deaths and not by the
//! size of the texts.

use std::{collections::HashMap, mem::discriminant, net::IpAddr};

use super::claim::{Claim, PidNamespace, Place, Stamp, Statement, Subject};
use crate::{
    event::Role,
    ids::{HexId, MINUTE_NS, Pid},
};

/// At most this many processes are kept. Further ones are only counted.
const MAX_PROCESSES: usize = 20_000;
/// At most this many claims of one process are kept. The first of each kind always stays.
const MAX_STATEMENTS: usize = 12;
/// At most this many processes of one pid or actor are compared: the newest.
const MAX_ALIKE: usize = 64;
/// Kills of one pid by the kernel that are further apart are those of two processes.
const REUSED_NS: i64 = 2 * MINUTE_NS;
/// A daemon takes a claim back at most this many lines below it.
const TAKEN_BACK_LINES: u64 = 3;
/// A report of several lines on one process is at most this long.
const REPORT_LINES: u64 = 8;
/// A stack, and what is said of its crash, are at most this long.
const STACK_LINES: u64 = 60;
/// At most this many frames of stacks without a process are kept.
const MAX_FRAMES: usize = 50;
/// At most this many claims without a name are kept.
const MAX_NAMELESS: usize = 200;

/// What is known of one process.
#[derive(Debug, Default, Clone)]
pub struct ProcessClaims {
    /// Who it is, all claims together.
    pub subject: Subject,
    /// What was said, in the order in which it was read.
    pub statements: Vec<Statement>,
}

impl ProcessClaims {
    /// Whether anything says that the process ended.
    pub(crate) fn is_death(&self) -> bool {
        self.statements.iter().any(|one| !one.claim.is_no_end())
    }

    /// Whether the same line is known already, from a copy of the log.
    fn repeats(&self, statement: &Statement) -> bool {
        let mut known = self.statements.iter();
        !statement.stamp.is_empty()
            && known.any(|one| one.stamp == statement.stamp && one.quote == statement.quote)
    }

    /// Whether the kernel killed this process minutes before or after. Then its pid was given to
    /// another one.
    fn is_of_another(&self, statement: &Statement) -> bool {
        let kernels = |claim: &Claim| match claim {
            Claim::KernelOom(oom) => oom.reporter.is_none(),
            claim => *claim == Claim::Reaped,
        };
        let mut known = self.statements.iter().filter(|one| kernels(&one.claim));
        kernels(&statement.claim)
            && known.any(|one| between(one, statement).is_some_and(|apart| apart > REUSED_NS))
    }

    fn add(&mut self, statement: Statement) {
        self.subject.foreign |= self.statements.is_empty();
        merge_subject(&mut self.subject, &statement.subject);
        let kind = std::mem::discriminant(&statement.claim);
        let known = self
            .statements
            .iter()
            .filter(|one| std::mem::discriminant(&one.claim) == kind);
        let twice = known
            .clone()
            .any(|one| one.place == statement.place && one.quote == statement.quote);
        // Of a stack, the first function is enough.
        let twice = twice || known.clone().any(|one| is_of_stack(one, &statement));
        if !twice && (self.statements.len() < MAX_STATEMENTS || known.count() == 0) {
            self.statements.push(statement);
        }
    }
}

/// By what processes are found.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Raylet,
    Worker(HexId),
    Actor(HexId),
    Pid(PidNamespace, Pid),
}

impl Key {
    /// Returns the keys of a process. Raylets are compared with raylets only.
    fn of(subject: &Subject) -> Vec<Self> {
        if subject.role == Some(Role::Raylet) {
            return vec![Self::Raylet];
        }
        let worker = subject.worker_id.clone().map(Self::Worker);
        let actor = subject.actor_id.clone().map(Self::Actor);
        let pid = subject.pid;
        let pid = pid.map(|pid| Self::Pid(subject.pid_namespace, pid));
        [worker, actor, pid].into_iter().flatten().collect()
    }

    /// How many processes with this key are compared, the newest ones.
    fn most(&self) -> usize {
        match self {
            Self::Worker(_) => 1,
            _ => MAX_ALIKE,
        }
    }
}

/// The claims of all processes.
#[derive(Debug, Default)]
pub struct AllClaims {
    all: Vec<ProcessClaims>,
    by_key: HashMap<Key, Vec<usize>>,
    /// The process of the last claim.
    last: Option<usize>,
    /// Claims without a line that says whom they concern.
    pub nameless: Vec<Statement>,
    /// Number of claims that were dropped because there were too many.
    pub skipped: u64,
}

impl AllClaims {
    /// Adds a claim to those of its subject.
    pub fn add(&mut self, mut statement: Statement) {
        if let Claim::TakenBack { by } = &statement.claim {
            return self.take_back(by, &statement);
        }
        if let Claim::Adds { says } = &statement.claim {
            return self.add_words(says, &statement);
        }
        for name in [&mut statement.subject.class, &mut statement.subject.task] {
            *name = name.take().map(plain);
        }
        let ip = &mut statement.subject.ip;
        *ip = ip.take().and_then(|ip| of_node(&ip));
        if let Some(named) = self.named_above(&statement) {
            statement.subject = named;
        }
        if !statement.subject.is_named() {
            return self.add_nameless(statement);
        }
        self.name_above(&statement);
        let mut found = self.find(&statement);
        found.sort_unstable();
        found.dedup();
        let at = match found.split_first() {
            Some((first, rest)) => {
                for other in rest {
                    self.absorb(*first, *other);
                }
                *first
            }
            None if self.all.len() >= MAX_PROCESSES => {
                self.skipped += 1;
                return;
            }
            None => {
                self.all.push(ProcessClaims::default());
                self.all.len() - 1
            }
        };
        self.all[at].add(statement);
        self.last = Some(at);
        self.index(at);
    }

    /// Removes what a daemon claimed in the lines above, if that was the last claim of all.
    fn take_back(&mut self, by: &str, statement: &Statement) {
        let last = self.last.and_then(|at| self.all.get_mut(at));
        let Some(claims) = last.map(|process| &mut process.statements) else {
            return;
        };
        let is_meant = |one: &mut Statement| {
            let near = is_close(one.place, statement.place, TAKEN_BACK_LINES);
            near && one.subject.may_share_host(&statement.subject)
                && matches!(&one.claim, Claim::Daemon(daemon) if daemon.name == by)
        };
        claims.pop_if(is_meant);
    }

    /// Adds to what the lines above say of the same process: why it crashed, or what it is part of.
    fn add_words(&mut self, words: &str, statement: &Statement) {
        let last = self.last.and_then(|at| self.all.get_mut(at));
        let named = last.and_then(|process| process.statements.last_mut());
        let both = [named, self.nameless.last_mut()].into_iter().flatten();
        let Some(last) = both.max_by_key(|one| one.place) else {
            return;
        };
        let near = last.place < statement.place
            && is_close(last.place, statement.place, TAKEN_BACK_LINES)
            && last.subject.may_share_host(&statement.subject)
            && agree(last.subject.pid.as_ref(), statement.subject.pid.as_ref());
        if !near {
            return;
        }
        let of_host = statement.subject.pid_namespace == PidNamespace::Host;
        // Only a task of Slurm lacks its step.
        let of = last.subject.of.as_mut();
        let task = of.filter(|of| of.starts_with("Slurm task ") && !of.contains("step "));
        if let Some((known, more)) = task.zip(statement.subject.of.as_ref()) {
            *known = format!("{known}, {more}");
        }
        let says = match &mut last.claim {
            Claim::Crash { says, .. } => says,
            Claim::Daemon(daemon) if of_host => {
                let of = statement.subject.of.clone();
                last.subject.of = last.subject.of.take().or(of);
                &mut daemon.why
            }
            _ => return,
        };
        if !words.is_empty() {
            *says = format!("{says}: {words}");
        }
    }

    /// Returns the process of the host that the lines above call dead, if this line only has how it
    /// ended: `PID 9665 RUNNING AT node1`, `KILLED BY SIGNAL: 9`.
    fn named_above(&self, statement: &Statement) -> Option<Subject> {
        let how = matches!(statement.claim, Claim::Signalled(_) | Claim::Crash { .. });
        if statement.subject.is_named() || statement.subject.of.is_some() || !how {
            return None;
        }
        let above = self.all.get(self.last?)?;
        let bare = |one: &Statement| {
            one.claim == Claim::Died && is_close(one.place, statement.place, REPORT_LINES)
        };
        let of_host = above.subject.pid_namespace == PidNamespace::Host
            && above.subject.may_share_host(&statement.subject);
        let is_bare = !above.statements.is_empty() && above.statements.iter().all(bare);
        (of_host && is_bare).then(|| above.subject.clone())
    }

    /// Takes the last claim that a program killed a child of it, if this line says which child
    /// ended: `Worker exceeded 95% memory budget`, `Worker process 7 was killed`.
    fn name_above(&mut self, statement: &Statement) {
        let is_child = |one: &Statement| one.subject.role == Some(Role::Descendant);
        let is_meant = |one: &mut Statement| {
            let here = is_close(one.place, statement.place, TAKEN_BACK_LINES);
            here && is_child(one) && matches!(one.claim, Claim::Daemon(_))
        };
        let ended = matches!(statement.claim, Claim::Died | Claim::Signalled(_));
        if !ended || !is_child(statement) {
            return;
        }
        if let Some(daemon) = self.nameless.pop_if(is_meant) {
            let subject = statement.subject.clone();
            self.add(Statement { subject, ..daemon });
        }
    }

    fn add_nameless(&mut self, statement: Statement) {
        // Each error of a driver repeats that some worker died.
        let repeats = matches!(statement.claim, Claim::Died | Claim::Lost)
            && (self.nameless.iter()).any(|one| {
                discriminant(&one.claim) == discriminant(&statement.claim)
                    && one.subject.of == statement.subject.of
                    && one.subject.may_share_host(&statement.subject)
            });
        let is_frame = |one: &&Statement| matches!(one.claim, Claim::Frame { .. });
        let mut frames = self.nameless.iter().filter(is_frame);
        if repeats || frames.any(|one| is_of_stack(one, &statement)) {
            return;
        }
        let frames = self.nameless.iter().filter(is_frame).count();
        if is_frame(&&statement) && frames >= MAX_FRAMES {
            return;
        }
        if self.nameless.len() < MAX_NAMELESS {
            self.nameless.push(statement);
        } else {
            self.skipped += 1;
        }
    }

    /// Returns all processes with a claim about their end.
    pub fn deaths(&self) -> impl Iterator<Item = &ProcessClaims> {
        self.all.iter().filter(|claims| claims.is_death())
    }

    /// Returns all claims, including those of processes that only started.
    pub fn all(&self) -> &[ProcessClaims] {
        &self.all
    }

    fn find(&self, statement: &Statement) -> Vec<usize> {
        let subject = &statement.subject;
        let fits = |at: &usize| {
            let known = &self.all[*at];
            let here = together(&known.subject, subject) || known.repeats(statement);
            here && alike(&known.subject, subject) && !known.is_of_another(statement)
        };
        let keys = Key::of(subject);
        let with = |key: &Key| self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let worker = keys.iter().find(|key| matches!(key, Key::Worker(_)));
        let known = worker.and_then(|key| with(key).first());
        if let Some(at) = known.filter(|at| knows(&self.all[**at].subject, subject) && fits(at)) {
            return vec![*at];
        }
        let mut found: Vec<usize> = keys.iter().flat_map(with).copied().collect();
        found.retain(fits);
        // If several processes fit and contradict one another, a line that fits all of them does
        // not merge them.
        let agree = |this: &usize| {
            let kept = &self.all[found[0]].subject;
            let this = &self.all[*this].subject;
            alike(kept, this) && together(kept, this)
        };
        found.iter().copied().filter(agree).collect()
    }

    fn absorb(&mut self, into: usize, other: usize) {
        let absorbed = std::mem::take(&mut self.all[other]);
        merge_subject(&mut self.all[into].subject, &absorbed.subject);
        for statement in absorbed.statements {
            self.all[into].add(statement);
        }
        for key in Key::of(&absorbed.subject) {
            if let Some(list) = self.by_key.get_mut(&key) {
                list.retain(|at| *at != other);
            }
            self.put(key, into);
        }
    }

    fn index(&mut self, at: usize) {
        for key in Key::of(&self.all[at].subject) {
            self.put(key, at);
        }
    }

    fn put(&mut self, key: Key, at: usize) {
        let most = key.most();
        let list = self.by_key.entry(key).or_default();
        if !list.contains(&at) {
            if list.len() >= most {
                list.remove(0);
            }
            list.push(at);
        }
    }
}

/// Shortens `create_colocated_worker_cls.<locals>.WorkerDict` to `WorkerDict`, which is what its
/// title and the kernel call it.
pub(super) fn plain(name: String) -> String {
    match name.rsplit_once("<locals>.") {
        Some((_, plain)) if !plain.is_empty() => plain.to_owned(),
        _ => name,
    }
}

/// Returns an address if it tells nodes apart: `127.0.0.1` and `0.0.0.0` do not. Forums make a link
/// of it, `[192.0.2.7](http://192.0.2.7/)`.
fn of_node(address: &str) -> Option<String> {
    let link = address
        .strip_prefix('[')
        .and_then(|link| link.split_once("]("));
    let address = link.map_or(address, |(text, _)| text);
    let known: Option<IpAddr> = address.parse().ok();
    let vague = known.is_some_and(|known| known.is_loopback() || known.is_unspecified());
    (!vague).then(|| address.to_owned())
}

/// Whether a frame stands near a line, so that it is of the same stack, or of that crash. Where no
/// process is named it stands below: a stack above may be of a program that went on.
pub(super) fn is_of_stack(one: &Statement, frame: &Statement) -> bool {
    matches!(frame.claim, Claim::Frame { .. })
        && is_near(one.place, frame.place, STACK_LINES)
        && one.subject.may_share_host(&frame.subject)
        && (one.subject.pid.is_some() || one.place < frame.place)
        && agree(one.subject.pid.as_ref(), frame.subject.pid.as_ref())
        && between(one, frame).is_none_or(|apart| apart <= MINUTE_NS)
}

/// Whether a line stands at most so many lines above another one.
pub(super) fn is_close(above: Place, place: Place, lines: u64) -> bool {
    above.text == place.text && place.line.saturating_sub(above.line) <= lines
}

/// Whether two lines stand at most so many lines from each other.
pub(super) fn is_near(one: Place, other: Place, lines: u64) -> bool {
    is_close(one.min(other), one.max(other), lines)
}

fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Whether both may be on one node: they are not named by raylets of two nodes. A worker has the
/// same id on all nodes.
fn together(one: &Subject, other: &Subject) -> bool {
    agree(one.folder.as_ref(), other.folder.as_ref())
        || (one.worker_id.is_some() && one.worker_id == other.worker_id)
}

/// Whether a process has everything that `subject` can be found by.
fn knows(known: &Subject, subject: &Subject) -> bool {
    (subject.pid.is_none() || subject.pid == known.pid)
        && (subject.actor_id.is_none() || subject.actor_id == known.actor_id)
}

/// Returns the time between two stamps of one clock.
pub(super) fn between(one: &Statement, other: &Statement) -> Option<i64> {
    after(one, other).map(i64::saturating_abs)
}

/// Returns how much later the second of two stamps of one clock is.
pub(super) fn after(one: &Statement, other: &Statement) -> Option<i64> {
    let same_text = one.place.text == other.place.text;
    let clocks: [fn(&Stamp) -> Option<i64>; 4] = [
        |stamp| stamp.utc,
        |stamp| stamp.local,
        |stamp| stamp.boot,
        |stamp| stamp.day,
    ];
    let mut clocks = clocks.iter().enumerate();
    clocks.find_map(|(number, clock)| {
        let times = clock(&one.stamp).zip(clock(&other.stamp));
        let (one, other) = times.filter(|_| number == 0 || same_text)?;
        Some(other.saturating_sub(one))
    })
}

/// Whether two descriptions may be of one process: no field that both have differs.
fn alike(one: &Subject, other: &Subject) -> bool {
    one.pid_namespace == other.pid_namespace
        && agree(one.pid.as_ref(), other.pid.as_ref())
        && agree(one.worker_id.as_ref(), other.worker_id.as_ref())
        && agree(one.actor_id.as_ref(), other.actor_id.as_ref())
        && agree(one.node_id.as_ref(), other.node_id.as_ref())
        && agree(one.ip.as_ref(), other.ip.as_ref())
        && one.may_share_host(other)
        && agree(one.comm.as_ref(), other.comm.as_ref())
        && agree(one.role.as_ref(), other.role.as_ref())
}

fn merge_subject(into: &mut Subject, from: &Subject) {
    fn fill<T: Clone>(into: &mut Option<T>, from: Option<&T>) {
        if into.is_none() {
            *into = from.cloned();
        }
    }
    into.pid_namespace = from.pid_namespace;
    fill(&mut into.pid, from.pid.as_ref());
    fill(&mut into.worker_id, from.worker_id.as_ref());
    fill(&mut into.actor_id, from.actor_id.as_ref());
    fill(&mut into.job_id, from.job_id.as_ref());
    fill(&mut into.node_id, from.node_id.as_ref());
    fill(&mut into.ip, from.ip.as_ref());
    fill(&mut into.host, from.host.as_ref());
    fill(&mut into.folder, from.folder.as_ref());
    fill(&mut into.class, from.class.as_ref());
    fill(&mut into.task, from.task.as_ref());
    fill(&mut into.comm, from.comm.as_ref());
    fill(&mut into.role, from.role.as_ref());
    fill(&mut into.of, from.of.as_ref());
    into.foreign &= from.foreign;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(worker: u64) -> Statement {
        Statement {
            place: Place::default(),
            stamp: Stamp::default(),
            quote: String::new(),
            subject: Subject {
                pid: Some(Pid(7)),
                worker_id: HexId::parse(&format!("{worker:056x}")),
                ..Subject::default()
            },
            claim: Claim::Lost,
        }
    }

    /// Older workers are still found by their ids.
    #[test]
    fn only_newest_workers_of_a_pid_are_compared() {
        let mut claims = AllClaims::default();
        for worker in 0..1000 {
            claims.add(lost(worker));
        }
        let of_pid = &claims.by_key[&Key::Pid(PidNamespace::Ray, Pid(7))];
        assert_eq!(of_pid.len(), MAX_ALIKE);
        assert_eq!(claims.find(&lost(3)), [3]);
        assert_eq!(claims.all().len(), 1000);
        let mut nobodys = lost(0);
        nobodys.subject.worker_id = None;
        assert_eq!(claims.find(&nobodys), [1000 - MAX_ALIKE]);
    }
}
