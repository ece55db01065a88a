//! One recording that is followed: its judge, and which of its deaths wait for their verdict.
//!
//! What explains a death may be in the next file of the same recorder: a log is read up to some seconds later. So the judge of a file
//! that was rotated goes on reading in the next one until no verdict waits.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
};

use super::state::FileState;
use crate::{
    deaths::{self, Deaths},
    event::{Mode, Observation, Part, RecordingStarted},
    ids::{BootTime, EventId, MINUTE_NS, SECOND_NS},
    judge::{Judge, report::Utc},
    observe::host,
    recording::{Follower, RecordingError, carried},
};

/// A recorder writes what the machine holds at least each minute.
pub(super) const STALE_NS: i64 = 130 * SECOND_NS;
/// What logs said long ago is given up this often.
const FORGET_NS: i64 = MINUTE_NS;

/// See above.
pub(super) struct Tail {
    follower: Follower,
    pub(super) judge: Judge,
    deaths: Deaths,
    waiting: BTreeSet<EventId>,
    newest: EventId,
    pub(super) started: Option<RecordingStarted>,
    /// Whether it is of this boot of this machine.
    pub(super) ours: bool,
    /// Whether it has ended as asked, or was rotated.
    pub(super) ended: bool,
    /// Looks at the folder since its end was read: the next file was there before that end was written.
    looks: u32,
    next: Option<Next>,
    pub(super) last: BootTime,
    forgot: BootTime,
}

/// The file that goes on where a rotated one ended.
struct Next {
    follower: Follower,
    /// Rows that stand in the file before too.
    carried: HashSet<EventId>,
    ended: bool,
}

impl Tail {
    pub(super) fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self {
            follower: Follower::open(path)?,
            judge: Judge::default(),
            deaths: Deaths::default(),
            waiting: BTreeSet::new(),
            newest: EventId(0),
            started: None,
            ours: false,
            ended: false,
            looks: 0,
            next: None,
            last: BootTime(0),
            forgot: BootTime(0),
        })
    }

    /// Reads all that is new.
    pub(super) fn read(&mut self, state: &FileState) -> Result<(), RecordingError> {
        self.follower.each_new(|event| {
            self.judge.observe(&event);
            self.last = self.last.max(event.time);
            self.newest = self.newest.max(event.id);
            match event.what {
                Observation::RecordingStarted(started) => {
                    self.ours = started.boot_id == host::started(Mode::Procfs).boot_id;
                    self.started = Some(started);
                }
                Observation::RecordingEnded => self.ended = true,
                Observation::Exit(exit) => {
                    self.deaths.add(event.id, exit.process, event.time);
                    if !state.knows(event.id) {
                        self.waiting.insert(event.id);
                    }
                }
                _ => {}
            }
        })?;
        self.looks += u32::from(self.ended);
        Ok(())
    }

    /// Whether it waits for the file that goes on where it ended.
    pub(super) fn wants_next(&self) -> bool {
        self.ended && self.next.is_none() && !self.is_settled()
    }

    /// Which file of its recorder it is; `None` in the first.
    pub(super) fn part(&self) -> Option<&Part> {
        self.started.as_ref()?.part.as_ref()
    }

    /// The file at `path` goes on where this one ended.
    pub(super) fn goes_on_in(&mut self, path: &Path) -> Result<(), RecordingError> {
        self.next = Some(Next {
            follower: Follower::open(path)?,
            carried: carried(path)?,
            ended: false,
        });
        Ok(())
    }

    /// Reads what the next file says of the deaths of this one.
    pub(super) fn read_next(&mut self) -> Result<(), RecordingError> {
        let Some(next) = &mut self.next else {
            return Ok(());
        };
        next.follower.each_new(|event| {
            let ended = matches!(event.what, Observation::RecordingEnded);
            next.ended |= ended;
            if !ended && !next.carried.contains(&event.id) {
                self.judge.observe(&event);
                self.last = self.last.max(event.time);
            }
        })
    }

    /// The deaths that have settled and were not handed on before.
    pub(super) fn settled(
        &mut self,
        state: &mut FileState,
        now: BootTime,
    ) -> Vec<crate::judge::report::Death> {
        if self.ended && self.next.is_none() && self.looks < 2 {
            return Vec::new();
        }
        let now = self.now(now);
        let (told, done) = self.deaths.take_due(&self.judge, now);
        let told = told.into_iter().map(|told| told.death);
        let mut settled = Vec::new();
        for death in told.filter(|death| death.verdict.settled) {
            if self.waiting.remove(&death.id) {
                state.mark_handed_on(death.id);
                settled.push(death);
            }
        }
        // Deaths arrive late by at most what the follower looks back.
        let waits = self.waiting.first().copied();
        state.settle(waits.unwrap_or(EventId(self.newest.0.saturating_sub(4096))));
        for process in done {
            self.judge.forget(process);
        }
        if now.since(self.forgot) > FORGET_NS {
            self.judge.forget_words();
            self.forgot = now;
        }
        settled
    }

    /// The moment up to which its verdicts are known.
    fn now(&self, now: BootTime) -> BootTime {
        let goes_on = self.next.as_ref().map_or(!self.ended, |next| !next.ended);
        if self.ours && goes_on {
            now
        } else {
            deaths::over(self.last)
        }
    }

    /// Whether its recorder writes now.
    pub(super) fn is_live(&self, now: BootTime) -> bool {
        self.ours && !self.ended && now.since(self.last) < STALE_NS
    }

    /// Whether its recorder has it open, however long it has seen nothing.
    pub(super) fn is_written(&self) -> bool {
        !self.ended && self.follower.is_written()
    }

    /// The machine that it is of.
    pub(super) fn host(&self) -> Option<&str> {
        Some(&self.started.as_ref()?.host)
    }

    /// Whether no verdict waits any more.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether it has ended and all of it was handed on.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.is_settled() && (self.looks > 1 || self.next.is_some())
    }

    /// What names its recorder: when that began.
    pub(super) fn recorder(&self) -> i64 {
        self.started.as_ref().map_or(0, |started| {
            let part = started.part.as_ref();
            part.map_or(started.wall, |part| part.began).0
        })
    }

    /// When it began, by the wall clock.
    pub(super) fn began(&self) -> Option<Utc> {
        Some(Utc(self.started.as_ref()?.wall))
    }
}
