//! Reads the Python stack of the running thread, as addresses.
//!
//! User space finds the names later, because code objects do not move. Nothing here faults: the
//! walk ends at memory that is not present. It reads at most 64 threads and 32 frames, which takes
//! some µs.

use aya_ebpf::helpers::{bpf_get_current_task, generated};
use raytrace_ebpf::records::{NONE, PYTHON_FRAMES, Python, PythonFrame};

use super::{
    maps::{PYTHONS, offset},
    same_start,
};
use crate::read::read;

/// The maximum number of an interpreter's threads that are read, newest first.
const THREADS: usize = 64;

/// Returns the interpreter of a process if it is known.
#[inline(always)]
pub(crate) fn of(tgid: u32, start: u64) -> Option<&'static Python> {
    let python = PYTHONS.get_ptr(tgid)?;
    // SAFETY: a map value stays readable while the program runs. User space writes it once.
    let python = unsafe { &*python };
    same_start(python.start, start).then_some(python)
}

/// Writes the frames of the running thread into `to`, a part of a reserved record.
///
/// If the running thread runs no Python, these are the frames of the main thread. Returns the
/// number of frames, and whether they are those of the running thread.
#[inline(always)]
pub(crate) fn stack(python: &Python, to: *mut [PythonFrame; PYTHON_FRAMES]) -> (u32, bool) {
    let (mut frame, own) = running(python);
    let mut count = 0;
    while count < PYTHON_FRAMES && frame != 0 {
        let taken = PythonFrame {
            code: user(frame, python.code),
            instruction: user(frame, python.instruction),
        };
        // SAFETY: `to` points into a reserved record, and `count` is within its stack.
        unsafe { (&raw mut (*to)[count]).write(taken) };
        frame = user(frame, python.previous);
        count += 1;
    }
    (count as u32, own)
}

/// Returns whether the running thread itself runs Python.
#[inline(always)]
pub(crate) fn is_own(python: &Python) -> bool {
    running(python).1
}

/// Returns the address of the innermost frame of the running thread, and `true`.
///
/// If the running thread is not in the interpreter's list, returns the frame of the main thread,
/// which is the last one in the list, and `false`. The address is 0 if the thread runs no Python.
/// Returns 0 and `true` if neither thread is among the first [`THREADS`].
#[inline(always)]
fn running(python: &Python) -> (u64, bool) {
    // SAFETY: the helper takes no arguments and cannot fail.
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

/// Reads eight bytes of the running process; returns 0 if they are not present.
#[inline(always)]
fn user(base: u64, offset: u32) -> u64 {
    let mut value = 0_u64;
    // SAFETY: the helper checks the source, never faults, and clears the destination if it fails.
    unsafe {
        generated::bpf_probe_read_user(
            (&raw mut value).cast(),
            size_of::<u64>() as u32,
            (base + u64::from(offset)) as *const _,
        );
    }
    value
}
