//! Deaths of a long recording that are judged before its end, so that less is kept for each.

use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashSet;

use super::{
    death,
    report::{Death, LastMinute},
    state::{
        snapshot::{LiveProcesses, Snapshot},
        timestamped::ExitSeen,
        world::World,
    },
    verdict::{LATE_NS, Verdicts},
};
use crate::ids::EventId;

/// A death is judged this long after it. By then nearly all verdicts have settled; the others are
/// given at the end.
const AFTER_NS: i64 = 3 * LATE_NS;
/// The processes around at most this many memory kills are kept: 10 MB.
const MOST_AROUND: usize = 1_024;

/// Which deaths keep all that a report can say of them.
#[derive(Debug, Clone, Default)]
pub enum Details {
    /// All of them.
    #[default]
    All,
    /// Those with these ids. The others of a long recording keep what is printed of a death among
    /// many. Findings are the same.
    Of(FxHashSet<EventId>),
}

impl Details {
    /// No death.
    pub fn none() -> Self {
        Self::Of(FxHashSet::default())
    }

    fn has(&self, id: EventId) -> bool {
        match self {
            Self::All => true,
            Self::Of(ids) => ids.contains(&id),
        }
    }
}

/// Deaths that are judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Settled {
    details: Details,
    pub(super) deaths: Vec<Death>,
    known: FxHashSet<EventId>,
    /// The last exit that was looked at.
    through: Option<EventId>,
    /// Memory kills whose surroundings are kept.
    around: usize,
}

impl Settled {
    pub(super) fn with_details(details: Details) -> Self {
        Self {
            details,
            ..Self::default()
        }
    }

    /// Whether this exit is judged.
    pub(super) fn has(&self, exit: &ExitSeen) -> bool {
        self.known.contains(&exit.id)
    }

    /// Judges the exits that are long past, and drops what is kept of each for its verdict.
    pub(super) fn judge(&mut self, world: &mut World) {
        let now = world.last_time;
        let verdicts = Verdicts::new(world, Some(now));
        let from = self.through.map_or(Unbounded, Excluded);
        let exits = world.exits.range((from, Unbounded));
        let past = exits.take_while(|(_, exit)| now.since(exit.time) > AFTER_NS);
        let mut judged: Vec<(Death, bool)> = Vec::new();
        for (id, exit) in past {
            self.through = Some(*id);
            let mut death = death::of(&verdicts, exit);
            if death.verdict.settled {
                let asked = is_asked_about(&verdicts, &death);
                if !self.details.has(*id) {
                    shorten(&mut death, asked);
                }
                judged.push((death, asked));
            }
        }
        for (death, asked) in judged {
            self.take(world, death, asked);
        }
    }

    fn take(&mut self, world: &mut World, death: Death, asked: bool) {
        let id = death.id;
        self.known.insert(id);
        self.deaths.push(death);
        let Some(seen) = world.exits.get_mut(&id) else {
            return;
        };
        world.recent_samples.forget(seen.exit.process);
        let whole = std::mem::take(&mut *seen.around);
        *seen.around = Snapshot {
            memory: whole.memory,
            monitor: whole.monitor,
            ..Snapshot::default()
        };
        if !asked {
            return;
        }
        if self.around < MOST_AROUND {
            self.around += 1;
            seen.around.live_processes = whole.live_processes;
        } else {
            seen.around.live_processes = Some(LiveProcesses::dropped());
        }
    }
}

/// Drops what is printed of a death only when it is shown alone. Findings ask for some of it.
fn shorten(death: &mut Death, asked: bool) {
    let alone = !asked && !death.is_memory_kill();
    let memory = &mut death.memory;
    if alone {
        death.verdict.evidence = Vec::new();
        memory.last_minute = None;
        memory.top = Vec::new();
        // A full /dev/shm ends a process by this signal.
        if death.end.signal != Some(libc::SIGBUS) {
            memory.shared = Vec::new();
        }
        return;
    }
    if let Some(minute) = &mut memory.last_minute {
        **minute = LastMinute {
            seconds: std::mem::take(&mut minute.seconds),
            victim_bytes: std::mem::take(&mut minute.victim_bytes),
            ..LastMinute::default()
        };
    }
}

/// Whether findings ask for the processes around a death: at a memory kill, and where the victim of
/// one ends with its subprocesses.
fn is_asked_about(verdicts: &Verdicts<'_>, death: &Death) -> bool {
    let cause = death.verdict.cause_death_id;
    let cause = cause.and_then(|cause| verdicts.world.exits.get(&cause));
    let killed = |exit: &ExitSeen| verdicts.of(exit).killer.is_memory_kill();
    death.verdict.killer.is_memory_kill() || cause.is_some_and(|cause| killed(cause))
}
