//! Who ended a process: one verdict for one exit, by the first act that took effect.
//!
//! The order of questions is fixed: a signal that killed is judged by the way it took (`kernel`, `arranged`, `limits`), then by its sender
//! (`senders`, `raylet`, `other`); a process that exited by itself by Ray's reasons (`itself`, `reasons`, `watched`); what was not seen
//! stays unknown (`unseen`). Who acted and why each have a certainty of their own: why is proven by no text (`measured`).

mod aftermath;
mod arranged;
mod draft;
mod external_signal;
mod kernel;
mod limits;
mod measured;
mod raylet;
mod reasons;
mod self_exit;
mod senders;
mod unseen;
mod watched;

pub(super) use draft::Draft;

use crate::{
    event::{Mode, Role, Signal},
    ids::{BootTime, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        act::{self, FatalAct},
        report::Killer,
        route::{self, Route},
        state::{
            seen::{ExitSeen, Seen},
            world::World,
        },
    },
    ray::tree::Part,
};

/// What ends so long after another process is not why that one ended; a driver needs less to end after it has told Ray.
pub(super) const LATE_NS: i64 = MINUTE_NS;

/// How far a chain of causes is followed.
const MAX_CAUSES: u8 = 6;

/// What a verdict is made from.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) world: &'a World,
    pub(super) exit: &'a ExitSeen,
    /// The latest event time for a verdict that must be given while events still come; `None` when all are in.
    pub(super) now: Option<BootTime>,
    depth: u8,
}

impl<'a> Case<'a> {
    /// The case of one exit.
    pub(super) fn new(world: &'a World, exit: &'a ExitSeen, now: Option<BootTime>) -> Self {
        Self {
            world,
            exit,
            now,
            depth: 0,
        }
    }

    fn key(&self) -> ProcessKey {
        self.exit.exit.process
    }

    fn role(&self) -> Role {
        self.world
            .processes
            .get(self.key())
            .map_or(Role::Other, |state| state.role)
    }

    fn cluster(&self) -> Option<ProcessKey> {
        self.world
            .processes
            .get(self.key())
            .and_then(|state| state.cluster)
    }

    /// Whether the recorder could see signals.
    fn saw_signals(&self) -> bool {
        let started = self.world.started.as_ref();
        started.is_none_or(|(_, started)| started.mode != Mode::Procfs)
    }

    /// Whether evidence may still come: Ray's logs need up to 60 ms, the files of a stalled disk longer.
    fn may_still_learn(&self) -> bool {
        self.now
            .is_some_and(|now| now.since(self.exit.time) < 2 * SECOND_NS)
    }

    /// The verdict on another process that has ended, for chains of causes.
    fn verdict_on(&self, other: ProcessKey) -> Option<Draft> {
        if self.depth >= MAX_CAUSES || other.same(self.key()) {
            return None;
        }
        let exit = self.world.exit(other)?;
        Some(
            Case {
                exit,
                depth: self.depth + 1,
                ..*self
            }
            .verdict(),
        )
    }

    /// Whether `other` ended as somebody wanted: with code 0, or by Ray on purpose.
    fn ended_well(&self, other: ProcessKey) -> Option<bool> {
        let draft = self.verdict_on(other)?;
        let exit = self.world.exit(other)?;
        let clean = draft.killer == Killer::Exit && exit.exit.code() == Some(0);
        Some(clean || draft.killer == Killer::RayIntended)
    }

    /// The verdict.
    pub(super) fn verdict(&self) -> Draft {
        match act::of(self.world, self.exit) {
            FatalAct::Killed(signal) => self.killed(signal),
            FatalAct::Exited { caught } => self_exit::exited(self, caught),
            FatalAct::Unseen { signal } => unseen::verdict(self, signal),
        }
    }

    /// By the way that the signal took, and then by who sent it.
    fn killed(&self, signal: &Seen<Signal>) -> Draft {
        let way = route::of(&signal.what);
        let own = signal.what.sender.process.same(self.key());
        match way.route {
            Route::Unknown => unseen::unasked(signal),
            Route::Asked(_) | Route::CgroupKill if own => self_exit::own_signal(self, signal),
            Route::Asked(_) | Route::CgroupKill => external_signal::verdict(self, signal),
            _ => kernel::verdict(self, signal, way),
        }
    }

    /// Which part of Ray the process is, if it is one.
    fn part(&self) -> Option<Part> {
        watched::part(self.world, self.key())
    }
}
