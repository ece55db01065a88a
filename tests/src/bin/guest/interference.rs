//! Acts of a process that makes another one exit, and is gone before it does.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    sync::atomic::{AtomicI64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

/// What the other process writes. Every process of this program has it at the same distance from
/// the program's first mapping.
static WORD: AtomicI64 = AtomicI64::new(0);

/// Exits with 3 once another process has written the word.
pub(crate) fn wait_for_word() -> Result<()> {
    while WORD.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    std::process::exit(3)
}

/// Writes the word of another process: by ptrace, `/proc/PID/mem` or `process_vm_writev`.
pub(crate) fn write_word(pid: i32, way: &str) -> Result<()> {
    let own = &raw const WORD as u64;
    let word = own - program(std::process::id().try_into()?)? + program(pid)?;
    match way {
        "attach" => poke(pid, word, libc::PTRACE_ATTACH),
        "seize" => {
            // Without SIGCHLD, no stop of the other process is reported.
            // SAFETY: no handler is set.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            poke(pid, word, libc::PTRACE_SEIZE)
        }
        "mem" => {
            let mem = File::options()
                .write(true)
                .open(format!("/proc/{pid}/mem"))?;
            Ok(mem.write_all_at(&1_i64.to_ne_bytes(), word)?)
        }
        _ => vm_write(pid, word),
    }
}

/// Returns where the first mapping of a process begins, that of its program.
fn program(pid: i32) -> Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let start = maps.split('-').next().context("no mapping")?;
    Ok(u64::from_str_radix(start, 16)?)
}

fn trace(request: libc::c_uint, pid: i32, place: u64, data: u64) -> Result<()> {
    // SAFETY: these requests take numbers, and write nothing in this process.
    let failed = unsafe { libc::ptrace(request, pid, place, data) } != 0;
    ensure!(!failed, "ptrace: {}", std::io::Error::last_os_error());
    Ok(())
}

fn poke(pid: i32, word: u64, attach: libc::c_uint) -> Result<()> {
    trace(attach, pid, 0, 0)?;
    if attach == libc::PTRACE_SEIZE {
        trace(libc::PTRACE_INTERRUPT, pid, 0, 0)?;
    }
    let mut status = 0;
    // SAFETY: the status outlives the call.
    let got = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    ensure!(got == pid, "waitpid: {}", std::io::Error::last_os_error());
    trace(libc::PTRACE_POKEDATA, pid, word, 1)?;
    trace(libc::PTRACE_DETACH, pid, 0, 0)
}

fn vm_write(pid: i32, word: u64) -> Result<()> {
    let mut one = 1_i64;
    let range = |base: u64| libc::iovec {
        iov_base: base as *mut libc::c_void,
        iov_len: size_of::<i64>(),
    };
    let (own, its) = (range(&raw mut one as u64), range(word));
    // SAFETY: `one` outlives the call, which reads it.
    let written = unsafe { libc::process_vm_writev(pid, &raw const own, 1, &raw const its, 1, 0) };
    ensure!(
        written == 8,
        "process_vm_writev: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}
