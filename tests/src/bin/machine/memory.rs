//! Moves the command line and the environment of this process: `prctl(PR_SET_MM_MAP)`.
//!
//! That needs no privilege.

use std::fs;

use anyhow::{Context as _, Result, bail};

/// `struct prctl_mm_map` of linux/prctl.h.
#[repr(C)]
struct Map {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

const PR_SET_MM: i32 = 35;
const PR_SET_MM_MAP: u64 = 14;

/// Makes both `bytes` long. They begin with these arguments, and the rest is zeros.
pub(crate) fn lengthen(bytes: usize, arguments: &[&str]) -> Result<()> {
    // SAFETY: a new private mapping at an address of the kernel's choice.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::NORESERVE,
        )
    };
    let start: *mut u8 = start.context("cannot map so much")?.cast();
    let text = arguments.join("\0");
    if text.len() >= bytes {
        bail!("no room for the arguments");
    }
    // SAFETY: the mapping is longer than the text, and nothing else uses it.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), start, text.len()) };
    move_to(start as u64, start as u64 + bytes as u64)
}

/// Makes this range of memory the command line and the environment.
fn move_to(start: u64, end: u64) -> Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').context("no name")?.1;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    // proc_pid_stat(5) counts from 1 and has two fields before these.
    let field = |number: usize| -> Result<u64> { Ok(fields[number - 3].parse()?) };
    // SAFETY: sbrk(0) returns the end of the heap and changes nothing.
    let brk = unsafe { libc::sbrk(0) } as u64;
    let map = Map {
        start_code: field(26)?,
        end_code: field(27)?,
        start_data: field(45)?,
        end_data: field(46)?,
        start_brk: field(47)?,
        brk,
        start_stack: field(28)?,
        arg_start: start,
        arg_end: end,
        env_start: start,
        env_end: end,
        auxv: 0,
        auxv_size: 0,
        exe_fd: u32::MAX,
    };
    // SAFETY: the kernel reads a map of this size, which outlives the call.
    let done = unsafe {
        libc::prctl(
            PR_SET_MM,
            PR_SET_MM_MAP,
            &raw const map,
            size_of::<Map>(),
            0,
        )
    };
    if done != 0 {
        return Err(std::io::Error::last_os_error()).context("prctl(PR_SET_MM_MAP)");
    }
    Ok(())
}
