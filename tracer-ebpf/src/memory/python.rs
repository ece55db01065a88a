//! The Python stack of the running thread, as addresses: user space finds the names later, for code objects stay where they are.
//!
//! Nothing here faults: memory that is not there ends the walk. At most 64 threads and 32 frames are looked at, some µs.

use aya_ebpf::helpers::{bpf_get_current_task, generated};
use raytrace_ebpf::records::{NONE, PYTHON_FRAMES, Python, PythonFrame};

use super::{
    maps::{PYTHONS, offset},
    same_start,
};
use crate::read::read;

/// Threads of an interpreter that are looked at, the newest first.
const THREADS: usize = 64;

/// The interpreter of a process, where that is known.
#[inline(always)]
pub(crate) fn of(tgid: u32, start: u64) -> Option<&'static Python> {
    let python = PYTHONS.get_ptr(tgid)?;
    // SAFETY: a map value stays readable during the program; user space writes it once.
    let python = unsafe { &*python };
    same_start(python.start, start).then_some(python)
}

/// The frames of the running thread into `to`, a part of a reserved record, or of the main thread where that one runs no Python; how many there are,
/// and whether they are its own.
#[inline(always)]
pub(crate) fn stack(python: &Python, to: *mut [PythonFrame; PYTHON_FRAMES]) -> (u32, bool) {
    let (mut frame, own) = running(python);
    let mut count = 0;
    while count < PYTHON_FRAMES && frame != 0 {
        let taken = PythonFrame {
            code: user(frame, python.code),
            instruction: user(frame, python.instruction),
        };
        // SAFETY: the record is reserved and `count` is within its stack.
        unsafe { (&raw mut (*to)[count]).write(taken) };
        frame = user(frame, python.previous);
        count += 1;
    }
    (count as u32, own)
}

/// Whether the running thread runs Python of its own.
#[inline(always)]
pub(crate) fn is_own(python: &Python) -> bool {
    running(python).1
}

/// The address of the innermost frame of the running thread, or of the main thread, which is the last; 0 where that runs no Python.
#[inline(always)]
fn running(python: &Python) -> (u64, bool) {
    // SAFETY: the helper takes nothing and always answers.
    let task = unsafe { bpf_get_current_task() };
    let own: u64 = read(task, offset!(task_thread_pointer));
    let mut state = user(python.threads, 0);
    let mut looked_at = 0;
    while looked_at < THREADS && state != 0 {
        let is_own = user(state, python.thread) == own;
        let next = user(state, python.next);
        if is_own || next == 0 {
            let frame = user(state, python.frame);
            let frame = match python.inner {
                NONE => frame,
                _ if frame == 0 => 0,
                inner => user(frame, inner),
            };
            return (frame, is_own);
        }
        state = next;
        looked_at += 1;
    }
    (0, true)
}

/// Eight bytes of the running process; 0 when they are not there.
#[inline(always)]
fn user(base: u64, offset: u32) -> u64 {
    let mut value = 0_u64;
    // SAFETY: the helper checks the source, never faults, and clears the destination when it fails.
    unsafe {
        generated::bpf_probe_read_user(
            (&raw mut value).cast(),
            size_of::<u64>() as u32,
            (base + u64::from(offset)) as *const _,
        );
    }
    value
}
