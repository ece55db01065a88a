//! Gives verdicts that rest on other verdicts: which death was caused by which other death.
//!
//! This is the only recursion of the judge. A verdict cannot rest on one that is still being given.
//! A chain that comes back to such a verdict, or that is longer than [`LONGEST`], is cut there, so
//! the recursion ends.
//!
//! Each verdict is given once and then kept. A verdict that depends on a cut would be different
//! without it, so it is kept only while the verdict at which it was cut is open. So a verdict is
//! the same wherever chains begin.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::{Case, Draft};
use crate::{
    ids::{BootTime, ProcessKey},
    judge::state::{timestamped::ExitSeen, world::World},
};

/// How many verdicts a chain may have. Ray's own chains are driver, raylet, agent, worker and its
/// children. Owners may have owners too.
const LONGEST: usize = 16;
/// The place that stands for no cut.
const NOWHERE: usize = usize::MAX;

/// The verdicts of one moment.
pub(crate) struct Verdicts<'a> {
    pub(crate) world: &'a World,
    /// The time of the latest event, for verdicts that must be given while events still come;
    /// `None` once all are in.
    now: Option<BootTime>,
    given: RefCell<FxHashMap<ProcessKey, Draft>>,
    /// Verdicts that depend on a cut, with the place of the cut.
    for_now: RefCell<FxHashMap<ProcessKey, (Draft, usize)>>,
    /// The processes with a verdict that is being given, each because of the one before it.
    open: RefCell<Vec<ProcessKey>>,
    /// Whether the verdict that is being given asked for one that is not settled.
    rests_on_open: Cell<bool>,
    /// The first place in `open` at which the verdict that is being given was cut.
    cut: Cell<usize>,
}

impl<'a> Verdicts<'a> {
    pub(crate) fn new(world: &'a World, now: Option<BootTime>) -> Self {
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

    /// Returns the verdict on an exit.
    pub(crate) fn of(&self, exit: &ExitSeen) -> Draft {
        self.follow(exit).unwrap_or_else(|| self.give(exit))
    }

    /// Returns the verdict on another process that has ended; `None` where a chain is cut.
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

    /// Opens a verdict and returns its place. `None` if the chain comes back to an open verdict, or
    /// is too long.
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

    /// Closes a verdict. It is kept for good if it was not cut before its own place, because the
    /// chain above it then has no effect on it.
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

    /// Gives a verdict. It is not settled while a verdict that it asked for is not.
    fn give(&self, exit: &ExitSeen) -> Draft {
        let before = self.rests_on_open.replace(false);
        let case = Case {
            world: self.world,
            exit,
            now: self.now,
            verdicts: self,
        };
        let draft = case.verdict();
        draft.open_if(self.rests_on_open.replace(before))
    }
}
