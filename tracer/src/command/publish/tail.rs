//! Follows one recording: its judge, and the deaths that wait for their verdict.
//!
//! The explanation of a death may be in the next file of the same recorder, because a log is read
//! up to some seconds later. So the judge of a rotated file continues to read the next one until no
//! verdict waits.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
};

use super::{
    recent::{Recent, Settled},
    state::FileState,
};
use crate::{
    deaths::{self, Deaths},
    event::{Mode, Observation, Part, RecordingStarted},
    ids::{BootTime, EventId, MINUTE_NS, SECOND_NS, WallTime},
    judge::{Judge, report::Utc},
    observe::host,
    recording::{Begin, Follower, RecordingError, carried},
};

/// A recording is stale after this time: a recorder writes the machine's memory at least each
/// minute.
pub(super) const STALE_NS: i64 = 130 * SECOND_NS;
/// How often old words from logs are forgotten.
const FORGET_NS: i64 = MINUTE_NS;

/// A followed recording.
pub(super) struct Tail {
    follower: Follower,
    pub(super) judge: Judge,
    deaths: Deaths,
    waiting: BTreeSet<EventId>,
    /// The latest deaths whose verdict has settled. A report of new ones finds their causes and the
    /// acts that they belong to among these.
    recent: Recent,
    newest: EventId,
    pub(super) started: Option<RecordingStarted>,
    /// Whether it was made on this machine since its last boot.
    pub(super) ours: bool,
    /// Whether it was ended on request, or rotated.
    pub(super) ended: bool,
    /// Whether it has more events than were read so far.
    pub(super) behind: bool,
    /// Number of looks at the folder since the end of this file was read. The next file exists
    /// before that end is written.
    looks: u32,
    next: Option<Next>,
    pub(super) last: BootTime,
    forgot: BootTime,
    /// When its recorder was found to be gone without having ended it.
    pub(super) over: Option<BootTime>,
}

/// The file that continues a rotated one.
struct Next {
    follower: Follower,
    /// Rows that were carried over from the file before.
    carried: HashSet<EventId>,
    ended: bool,
    behind: bool,
}

impl Tail {
    /// Opens a recording of which this much was published. A file that was not read yet is read
    /// from `since` on.
    pub(super) fn open(
        path: &Path,
        state: &mut FileState,
        since: Option<WallTime>,
    ) -> Result<Self, RecordingError> {
        let begin = match state.through {
            0 => since.map_or(Begin::First, Begin::At),
            through => Begin::Near(EventId(through)),
        };
        let follower = Follower::open_at(path, begin)?;
        state.through = state.through.max(follower.after().0);
        Ok(Self {
            follower,
            judge: Judge::default(),
            deaths: Deaths::default(),
            waiting: BTreeSet::new(),
            recent: Recent::default(),
            newest: EventId(0),
            started: None,
            ours: false,
            ended: false,
            over: None,
            behind: false,
            looks: 0,
            next: None,
            last: BootTime(0),
            forgot: BootTime(0),
        })
    }

    /// Reads some of the new events.
    pub(super) fn read(&mut self, state: &FileState) -> Result<(), RecordingError> {
        self.behind = self.follower.each_next(|event| {
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
                    if !state.is_published(event.id) {
                        self.waiting.insert(event.id);
                    }
                }
                _ => {}
            }
        })?;
        self.looks += u32::from(self.ended);
        Ok(())
    }

    /// Returns whether the next file of its recorder is still needed.
    pub(super) fn wants_next(&self) -> bool {
        self.ended && self.next.is_none() && !self.is_settled()
    }

    /// Returns which file of its recorder this is, or `None` for the first.
    pub(super) fn part(&self) -> Option<&Part> {
        self.started.as_ref()?.part.as_ref()
    }

    /// Opens the file at `path` as the continuation of this one.
    pub(super) fn continue_in(&mut self, path: &Path) -> Result<(), RecordingError> {
        self.next = Some(Next {
            follower: Follower::open(path)?,
            carried: carried(path)?,
            ended: false,
            behind: false,
        });
        Ok(())
    }

    /// Reads some of what the next file says about the deaths in this one.
    pub(super) fn read_next(&mut self) -> Result<(), RecordingError> {
        let Some(next) = &mut self.next else {
            return Ok(());
        };
        next.behind = next.follower.each_next(|event| {
            let ended = matches!(event.what, Observation::RecordingEnded);
            next.ended |= ended;
            if !ended && !next.carried.contains(&event.id) {
                self.judge.observe(&event);
                self.last = self.last.max(event.time);
            }
        })?;
        Ok(())
    }

    /// Returns the deaths that have settled and have not been published before.
    pub(super) fn settled(&mut self, state: &mut FileState, now: BootTime) -> Settled {
        if self.ended && self.next.is_none() && self.looks < 2 {
            return Settled::default();
        }
        let now = self.now(now);
        let (told, done) = self.deaths.take_due(&self.judge, now);
        let told = told.into_iter().map(|told| told.death);
        for death in told.filter(|death| death.verdict.settled) {
            let is_new = self.waiting.contains(&death.id);
            self.recent.add(death, is_new);
        }
        let settled = self.recent.take_ready(now, self.deaths.first_waiting());
        for id in &settled.new {
            self.waiting.remove(id);
            state.mark_handed_on(*id);
        }
        // Deaths arrive late by at most as many rows as the follower looks back.
        let waits = self.waiting.first().copied();
        state.settle(waits.unwrap_or(EventId(self.newest.0.saturating_sub(4096))));
        for process in done {
            self.judge.forget(process);
        }
        if now.since(self.forgot) > FORGET_NS {
            self.judge.drop_old_log_records();
            self.forgot = now;
        }
        settled
    }

    /// Returns the moment up to which verdicts can be given.
    fn now(&self, now: BootTime) -> BootTime {
        if self.behind || self.next.as_ref().is_some_and(|next| next.behind) {
            return self.last;
        }
        let goes_on = self.next.as_ref().map_or(!self.ended, |next| !next.ended);
        if self.ours && goes_on && self.over.is_none() {
            now
        } else {
            deaths::time_when_all_settled(self.last)
        }
    }

    /// Returns whether its recorder is running.
    pub(super) fn is_live(&self, now: BootTime) -> bool {
        self.ours && !self.ended && now.since(self.last) < STALE_NS
    }

    /// Returns whether its recorder has the file open, even if it has seen nothing for long.
    pub(super) fn is_written(&self) -> bool {
        !self.ended && self.follower.is_written()
    }

    /// Returns the name of the recorded host.
    pub(super) fn host(&self) -> Option<&str> {
        Some(&self.started.as_ref()?.host)
    }

    /// Returns whether no verdict waits any more.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether it has ended and all of it has been published.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.is_settled() && (self.looks > 1 || self.next.is_some())
    }

    /// Returns what identifies its recorder: the time at which that began.
    pub(super) fn recorder(&self) -> i64 {
        self.started.as_ref().map_or(0, |started| {
            let part = started.part.as_ref();
            part.map_or(started.wall, |part| part.began).0
        })
    }

    /// Returns when it began, by the wall clock.
    pub(super) fn began(&self) -> Option<Utc> {
        Some(Utc(self.started.as_ref()?.wall))
    }
}
