//! Tells the kernel where each Python interpreter is, so that it can take Python stacks.
//!
//! From then on the kernel takes the stack of a process that makes a large mapping or grows.

use aya::maps::{HashMap, MapData};
use raytrace_ebpf::records::Python;

use crate::ids::Pid;

pub(super) const WORDS: usize = size_of::<Python>() / 8;

/// The map of the interpreters.
pub struct InterpreterMap(pub(super) HashMap<MapData, u32, [u64; WORDS]>);

impl InterpreterMap {
    /// Adds an interpreter. The kernel takes its stacks from now on.
    pub fn add(&mut self, pid: Pid, python: &Python) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [
            python.start,
            python.threads,
            pair(python.next, python.thread),
            pair(python.frame, python.inner),
            pair(python.code, python.previous),
            pair(python.instruction, python.reserved),
        ];
        // If the map is full, its stacks are read from outside, and later.
        let _full = self.0.insert(pid.0, words, 0);
    }

    /// Removes an interpreter.
    pub fn remove(&mut self, pid: Pid) {
        let _was_not = self.0.remove(&pid.0);
    }
}
