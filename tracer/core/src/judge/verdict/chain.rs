//! Verdicts that rest on other verdicts: who died because of whose death. The one recursion of the judge.
//!
//! No verdict rests on one that is being given: there a chain is cut, and where it is longer than [`LONGEST`], so that it ends. Each verdict
//! is given once. One that a cut bears on is kept no longer than the verdict is open that it was cut at, because it would be another
//! without the cut: so a verdict is the same wherever chains begin.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::{Case, Draft};
use crate::{
    ids::{BootTime, ProcessKey},
    judge::state::{timestamped::ExitSeen, world::World},
};

/// How far a chain is followed. Ray's own are driver, raylet, agent, worker and its children; owners may own owners.
const LONGEST: usize = 16;
/// The place of no cut.
const NOWHERE: usize = usize::MAX;

/// The verdicts of one moment.
pub(in crate::judge) struct Verdicts<'a> {
    pub(in crate::judge) world: &'a World,
    /// The latest event time for verdicts that must be given while events still come; `None` when all are in.
    now: Option<BootTime>,
    given: RefCell<FxHashMap<ProcessKey, Draft>>,
    /// Those that a cut bears on, with its place.
    for_now: RefCell<FxHashMap<ProcessKey, (Draft, usize)>>,
    /// Whose verdicts are being given, each because of the one before.
    open: RefCell<Vec<ProcessKey>>,
    /// Whether the verdict that is being given has asked for one that is not settled.
    rests_on_open: Cell<bool>,
    /// The first place in `open` that the verdict that is being given was cut at.
    cut: Cell<usize>,
}

impl<'a> Verdicts<'a> {
    pub(in crate::judge) fn new(world: &'a World, now: Option<BootTime>) -> Self {
        Self {
            world,
            now,
            given: RefCell::default(),
            for_now: RefCell::default(),
            open: RefCell::default(),
            rests_on_open: Cell::new(false),
            cut: Cell::new(NOWHERE),
        }
    }

    /// The verdict on an exit.
    pub(in crate::judge) fn of(&self, exit: &ExitSeen) -> Draft {
        self.follow(exit).unwrap_or_else(|| self.give(exit))
    }

    /// The verdict on another process that has ended; `None` where a chain is cut.
    pub(super) fn on(&self, process: ProcessKey) -> Option<Draft> {
        let draft = self.follow(self.world.exit(process)?)?;
        if !draft.settled {
            self.rests_on_open.set(true);
        }
        Some(draft)
    }

    fn follow(&self, exit: &ExitSeen) -> Option<Draft> {
        let key = exit.exit.process.truncated();
        if let Some(draft) = self.known(key) {
            return Some(draft);
        }
        let place = self.begin(key)?;
        let before = self.cut.replace(NOWHERE);
        let draft = self.give(exit);
        self.end(key, place, &draft);
        self.cut.set(self.cut.get().min(before));
        Some(draft)
    }

    fn known(&self, key: ProcessKey) -> Option<Draft> {
        if let Some(draft) = self.given.borrow().get(&key) {
            return Some(draft.clone());
        }
        let for_now = self.for_now.borrow();
        let (draft, cut) = for_now.get(&key)?;
        self.cut.set(self.cut.get().min(*cut));
        Some(draft.clone())
    }

    /// Opens a verdict, at the place that is returned; none where the chain comes back to one that is open, or is too long.
    fn begin(&self, key: ProcessKey) -> Option<usize> {
        let mut open = self.open.borrow_mut();
        let place = open.len();
        let back = open.iter().position(|one| *one == key);
        let cut = back.or_else(|| (place >= LONGEST).then_some(0));
        if let Some(cut) = cut {
            self.cut.set(self.cut.get().min(cut));
            return None;
        }
        open.push(key);
        Some(place)
    }

    /// Closes it. What was cut at it, and not before it, is as it would be without the chain above.
    fn end(&self, key: ProcessKey, place: usize, draft: &Draft) {
        self.open.borrow_mut().pop();
        let mut for_now = self.for_now.borrow_mut();
        for_now.retain(|_, (_, cut)| *cut < place);
        let cut = self.cut.get();
        if cut < place {
            for_now.insert(key, (draft.clone(), cut));
        } else {
            self.cut.set(NOWHERE);
            self.given.borrow_mut().insert(key, draft.clone());
        }
    }

    /// It is not settled while one that it has asked for is not.
    fn give(&self, exit: &ExitSeen) -> Draft {
        let before = self.rests_on_open.replace(false);
        let case = Case {
            world: self.world,
            exit,
            now: self.now,
            verdicts: self,
        };
        let draft = case.verdict();
        draft.waiting(self.rests_on_open.replace(before))
    }
}
