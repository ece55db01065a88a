//! Keeps who traced each process, or wrote into its memory.

use crate::{
    event::Interference,
    ids::{BootTime, ByProcess, ProcessKey},
    judge::state::timestamped::Timestamped,
};

/// At most this many acts on one process are kept: the first ones and the last ones.
const MAX_ACTS: usize = 32;
/// Of those, a child has so many of its parent.
const INHERITED: usize = 2;

/// An act of another process on a process, or on the parent from which it has its memory.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) interference: Interference,
    /// Whether the act was on the parent, before the process was started.
    pub(crate) on_parent: bool,
}

/// The acts on all processes.
#[derive(Debug, Default)]
pub(crate) struct Interferences(ByProcess<Vec<Timestamped<Act>>>);

impl Interferences {
    pub(crate) fn seen(&mut self, time: BootTime, interference: &Interference) {
        let acts = self.0.entry(interference.process.truncated()).or_default();
        if acts.len() >= MAX_ACTS {
            acts.remove(MAX_ACTS / 2);
        }
        let what = Act {
            interference: interference.clone(),
            on_parent: false,
        };
        acts.push(Timestamped { time, what });
    }

    /// Notes a child: it has the memory of its parent, with what was written into it.
    pub(crate) fn forked(&mut self, parent: ProcessKey, child: ProcessKey) {
        let Some(acts) = self.0.get(&parent.truncated()) else {
            return;
        };
        let last = acts.iter().rev().take(INHERITED).rev();
        let inherited = last.cloned().map(|mut act| {
            act.what.on_parent = true;
            act
        });
        let inherited = inherited.collect();
        self.0.insert(child.truncated(), inherited);
    }

    /// Notes a new program, which has a memory of its own. Acts on the process itself stay: they
    /// may have made it run this program.
    pub(crate) fn executed(&mut self, process: ProcessKey) {
        if let Some(acts) = self.0.get_mut(&process.truncated()) {
            acts.retain(|act| !act.what.on_parent);
        }
    }

    pub(crate) fn forget(&mut self, process: ProcessKey) {
        self.0.remove(&process.truncated());
    }

    /// Returns the acts on a process, in the order of their times.
    pub(crate) fn on(&self, process: ProcessKey) -> &[Timestamped<Act>] {
        self.0.get(&process.truncated()).map_or(&[], Vec::as_slice)
    }
}
