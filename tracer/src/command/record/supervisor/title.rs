//! Changes the command line that others see of this process. A pattern for COMMAND, as in `pkill
//! -f train.py`, then matches COMMAND alone and signals it once.

use std::ffi::CStr;

use crate::bounded;

/// The fields `arg_start` and `arg_end` of `/proc/PID/stat` (`proc_pid_stat(5)`), counted from the
/// one behind the name.
const ARGUMENTS_START: usize = 45;

/// Removes the last arguments, which are COMMAND, from the command line.
pub(super) fn hide(command: &[String]) {
    let bytes: usize = command.iter().map(|argument| argument.len() + 1).sum();
    if let Some((start, end)) = range()
        && let Some(from) = end.checked_sub(bytes).filter(|from| *from > start)
    {
        write(from, end, &[]);
    }
}

/// Replaces the command line and the name.
pub(super) fn set(name: &CStr) {
    if let Some((start, end)) = range() {
        write(start, end, name.to_bytes());
    }
    let _old_name = rustix::thread::set_name(name);
}

/// Returns where the command line is in this process's memory.
fn range() -> Option<(usize, usize)> {
    let stat = bounded::text("/proc/self/stat", bounded::SMALL).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let mut next = |count: usize| fields.nth(count)?.parse().ok();
    let (start, end) = (next(ARGUMENTS_START)?, next(0)?);
    (0 < start && start < end).then_some((start, end))
}

/// Writes a text there, and zeros up to the end.
fn write(start: usize, end: usize, text: &[u8]) {
    let room = end - start;
    let text = &text[..text.len().min(room - 1)];
    let at = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel put the arguments there, in writable memory that lives as long as the
    // process. They are read by their pointers only in `std::env::args`, of which clap has made
    // copies, and they still end with a NUL. There is one thread.
    unsafe {
        at.write_bytes(0, room);
        at.copy_from_nonoverlapping(text.as_ptr(), text.len());
    }
}
