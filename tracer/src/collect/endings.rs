//! The end of a process, in one way, whoever tells it: the kernel's hook, a pidfd, or a look at /proc.

use super::Collector;
use crate::{
    event::{Event, Exit, MemorySplit, Observation, Source},
    ids::{BootTime, ProcessKey},
};

/// How an end came to be known.
#[derive(Clone, Copy)]
pub(super) enum Heard<'a> {
    /// By an event, which the recording has.
    Recorded(&'a Event),
    /// By a look: when, and where.
    Now(Source, BootTime),
}

impl Collector {
    /// The end of a process that no event tells, with what is known of it.
    pub(super) fn found_ended(
        &mut self,
        process: ProcessKey,
        status: Option<i32>,
        heard: Heard<'_>,
    ) {
        let known = self.known_as(process);
        let exit = Exit {
            process,
            ns_pid: known.and_then(|known| known.ns_pid),
            parent: known.and_then(|known| known.parent),
            comm: known.map(|known| known.comm.clone()).unwrap_or_default(),
            status,
            title: None,
            memory: MemorySplit::default(),
            mm: 0,
            uid: known.and_then(|known| known.uid),
            harvested: false,
        };
        self.ended(&exit, heard);
    }

    /// Hands an end to the judge, once what the process left is read, and forgets the process.
    pub(super) fn ended(&mut self, exit: &Exit, heard: Heard<'_>) {
        // A worker's last words must be known before its death is judged.
        self.last_words(exit.process, exit.ns_pid);
        let time = match heard {
            Heard::Recorded(event) => {
                self.observe(event);
                event.time
            }
            Heard::Now(source, time) => {
                self.emit(source, time, Observation::Exit(exit.clone()));
                time
            }
        };
        self.last_steps(exit, time);
        self.gone(exit.process);
    }

    /// Forgets a process that is gone.
    pub(super) fn gone(&mut self, process: ProcessKey) {
        // Its pid may be another's by now.
        if self.known_as(process).is_some() {
            self.known.remove(&process.pid);
            self.samples.forget(process.pid);
        }
        // After an exit that was told it has been done.
        if let Some(growth) = &mut self.growth {
            growth.forget(process);
        }
        self.identities.forget(process);
    }
}
