//! Decides who ended a process: one verdict for one exit, by the first act that took effect.
//!
//! The order of questions is fixed. A signal that killed is judged by its origin (`kernel`,
//! `arranged`, `limits`), then by its sender (`senders`, `raylet`, `external_signal`). A process
//! that exited by itself is judged by Ray's reasons (`self_exit`, `reasons`, `watched`). What was
//! not seen stays unknown (`unattributed_signal`).
//!
//! Who acted and why each have their own certainty. No text proves why (`measured`).

mod aftermath;
mod arranged;
mod chain;
mod draft;
mod ended_before;
mod external_signal;
mod kernel;
mod limits;
mod measured;
mod raylet;
mod reasons;
mod recorded;
mod self_exit;
mod senders;
mod slurm;
mod starter;
mod unattributed_signal;
mod watched;

pub(super) use chain::Verdicts;
pub(super) use draft::Draft;
use draft::mechanism;

use crate::{
    event::{Mode, Role, Signal},
    ids::{BootTime, MINUTE_NS, ProcessKey, SECOND_NS},
    judge::{
        fatal_act::{self, FatalAct},
        missing::{self, Missing},
        report::{Certainty, Killer},
        signal_origin::{self, Origin},
        state::{
            timestamped::{ExitSeen, Timestamped},
            world::World,
        },
    },
    ray::tree::Part,
    signals,
};

/// A process that ends this long after another is not why that one ended. A driver takes less time
/// to end after it has told Ray.
pub(super) const LATE_NS: i64 = MINUTE_NS;

/// How long Ray's logs may take: up to 60 ms, or longer on a stalled disk.
const LEARN_NS: i64 = 2 * SECOND_NS;

/// How long after an end a verdict may wait for evidence.
const WAITS_NS: [i64; 3] = [LEARN_NS, reasons::GIVE_UP_NS, LATE_NS];

/// Returns until when verdicts of `now` stay the same if nothing new is seen: the first time at
/// which one of those that wait stops waiting.
pub(super) fn waits_until(world: &World, now: BootTime) -> Option<BootTime> {
    // Exits are kept nearly in the order of their times, and for longer than any verdict waits.
    let recent = world.exits.values().rev();
    let recent = recent.take_while(|exit| now.since(exit.time) < 2 * LATE_NS);
    let ends = recent.map(|exit| exit.time);
    let waits = ends.flat_map(|end| WAITS_NS.map(|wait| end.plus(wait)));
    waits.filter(|until| now < *until).min()
}

/// The input of a verdict.
#[derive(Clone, Copy)]
struct Case<'a> {
    world: &'a World,
    exit: &'a ExitSeen,
    /// The time of the latest event, for a verdict that must be given while events still come;
    /// `None` once all are in.
    now: Option<BootTime>,
    verdicts: &'a Verdicts<'a>,
}

impl Case<'_> {
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

    /// Returns whether the recorder could see signals.
    fn saw_signals(&self) -> bool {
        let started = self.world.started.as_ref();
        started.is_none_or(|(_, started)| started.mode != Mode::Procfs)
    }

    /// Returns what is missing if its signal was not seen. `killed` is whether that was SIGKILL.
    fn sender_missing(&self, killed: bool) -> Missing {
        let state = self.world.processes.get(self.exit.exit.process);
        let from_start = state.is_some_and(|state| state.parent_key.is_some());
        missing::sender(self.saw_signals(), from_start, killed)
    }

    /// Returns whether evidence may still come.
    fn may_still_learn(&self) -> bool {
        self.is_within(LEARN_NS)
    }

    /// Returns whether more events may come and the end is less than `wait` ago, which is one of
    /// [`WAITS_NS`].
    fn is_within(&self, wait: i64) -> bool {
        self.now.is_some_and(|now| now.since(self.exit.time) < wait)
    }

    /// Returns whether another process, whose end would explain this one, may still end.
    fn may_still_end(&self, other: ProcessKey) -> bool {
        !other.same(self.key()) && self.world.exit(other).is_none() && self.is_within(LATE_NS)
    }

    /// Returns the verdict on another process that has ended, for chains of causes.
    fn verdict_on(&self, other: ProcessKey) -> Option<Draft> {
        self.verdicts.on(other)
    }

    /// Returns whether the end of `other` can have caused this one, as far as times show: it had
    /// begun when this process ended, or one sender ended both. One that has not ended may.
    fn is_before(&self, other: ProcessKey) -> bool {
        let Some(exit) = self.world.exit(other) else {
            return true;
        };
        let act = fatal_act::of(self.world, self.exit);
        fatal_act::began(self.world, exit) <= act.time(self.exit)
            || fatal_act::is_one_act(&act, &fatal_act::of(self.world, exit))
    }

    /// Returns whether `other` ended as intended: with code 0, or by Ray on purpose. `None` if it
    /// has not ended, or only later than this process: that is not why this one ended.
    fn ended_well(&self, other: ProcessKey) -> Option<bool> {
        if !self.is_before(other) {
            return None;
        }
        let draft = self.verdict_on(other)?;
        let exit = self.world.exit(other)?;
        let clean = draft.killer == Killer::Exit
            && exit.exit.code() == Some(0)
            && !draft.why.is_failed_exit();
        Some(clean || draft.killer == Killer::RayIntended)
    }

    /// Returns the verdict. It is open until the process that is its cause has ended. Each cause
    /// goes through here: one that came later than this end is none.
    fn verdict(&self) -> Draft {
        let mut draft = self.by_act();
        if draft.cause.is_some_and(|cause| !self.is_before(cause)) {
            draft = draft.caused_by(None).at_most(Certainty::Inferred);
        }
        let waits = draft.cause.is_some_and(|cause| self.may_still_end(cause));
        draft.normal = recorded::is_normal(self, &draft);
        // Ray's own record may still come.
        let guessed = draft.killer == Killer::RayIntended && !draft.normal || draft.is_by_own_log();
        draft.open_if(waits || guessed && self.may_still_learn())
    }

    fn by_act(&self) -> Draft {
        let act = fatal_act::of(self.world, self.exit);
        let draft = self.by(act);
        if fatal_act::may_come_from_tracer(self.exit, &act)
            || fatal_act::interference(self.world, self.exit, &act).is_some()
            || fatal_act::may_lack_another(self.world, self.exit, &act)
            || fatal_act::may_follow_caught(self.world, self.exit, &act)
        {
            draft.at_most(Certainty::Inferred)
        } else {
            draft
        }
    }

    fn by(&self, act: FatalAct<'_>) -> Draft {
        match act {
            FatalAct::Killed(signal)
                if fatal_act::was_pending(self.world, self.exit, signal)
                    || fatal_act::may_be_another(self.world, self.exit, signal) =>
            {
                self.killed(signal).at_most(Certainty::Inferred)
            }
            FatalAct::Killed(signal) => self.killed(signal),
            FatalAct::Exited { caught } => self_exit::exited(self, caught),
            FatalAct::Unseen { signal } => unattributed_signal::verdict(self, signal),
        }
    }

    /// Judges a signal that killed, by its origin and then by its sender.
    fn killed(&self, signal: &Timestamped<Signal>) -> Draft {
        let origin = signal_origin::of(&signal.what);
        let own = signal.what.sender.process.same(self.key());
        match origin.kind {
            Origin::Unknown => unattributed_signal::unexplained_origin(signal),
            Origin::Requested(_) | Origin::CgroupKill if own => self_exit::own_signal(self, signal),
            Origin::Requested(_) | Origin::CgroupKill => {
                let draft = match senders::raylet_of(self, &signal.what.sender) {
                    Some(raylet) => {
                        let most = senders::started_victim(self, raylet);
                        raylet::verdict(self, raylet, signal, most.unwrap_or(Certainty::Inferred))
                    }
                    None => external_signal::verdict(self, signal, Certainty::Proven),
                };
                draft.at_most(origin.certainty())
            }
            Origin::Fault => self_exit::faulted(self, signal),
            Origin::Kernel if own && signals::is_fault(signal.what.signal) => {
                self_exit::faulted(self, signal).at_most(origin.certainty())
            }
            _ => kernel::verdict(self, signal, origin),
        }
    }

    /// Returns whether the process belongs to Ray, which uses parent-death signals on purpose.
    fn is_of_ray(&self) -> bool {
        self.role() != Role::Other || self.cluster().is_some()
    }

    /// Returns the killer of a process that died because of `cause`.
    fn killer_after(&self, cause: ProcessKey) -> Killer {
        match self.ended_well(cause) {
            Some(true) => Killer::RayIntended,
            _ => Killer::RayCollapse,
        }
    }

    /// Returns the time of the act that ended another process.
    fn act_time(&self, other: ProcessKey) -> Option<BootTime> {
        let exit = self.world.exit(other)?;
        Some(match fatal_act::of(self.world, exit) {
            FatalAct::Killed(signal) => signal.time,
            act => act.time(exit),
        })
    }

    /// Returns which part of Ray the process is, if it is one.
    fn part(&self) -> Option<Part> {
        watched::part(self.world, self.key())
    }
}
