//! Starts the thread that reads the stacks of processes that grow.
//!
//! It gives the thread what it needs of the kernel, and sends its rows to the recording.

pub(super) use raytrace_stacks::Stacks;
use raytrace_stacks::{Interpreters, Kernel};

use super::Ids;
use crate::{
    event::{Event, Source},
    ids::Pid,
    observe::kernel::{Growth, InterpreterMap},
    recording,
};

impl Interpreters for InterpreterMap {
    fn add(&mut self, pid: Pid, python: &raytrace_ebpf::records::Python) {
        self.add(pid, python);
    }

    fn remove(&mut self, pid: Pid) {
        self.remove(pid);
    }
}

/// Starts the thread, with `percent` of its usual time.
pub(super) fn start(
    ids: Ids,
    recording: recording::Sender,
    growth: Option<&mut Growth>,
    percent: u32,
) -> std::io::Result<Stacks> {
    let (pythons, levels) = growth.map_or((None, None), |growth| {
        (growth.take_interpreters(), growth.levels())
    });
    let pythons = pythons.map(|pythons| Box::new(pythons) as Box<dyn Interpreters>);
    let rows = move |time, what| {
        recording.send(Event {
            id: ids.next(),
            time,
            source: Source::Proc,
            what,
        })
    };
    Stacks::start(rows, Kernel { pythons, levels }, percent)
}
