//! Writes each signal that this process gets into a file: number, `si_code`, sender, value.

use std::{fs::File, io::Write as _, path::Path};

use anyhow::{Result, ensure};

/// Bytes of a signal set of the kernel. glibc's sets lack the signals 32 and 33.
const SET_BYTES: usize = 8;

/// Blocks all signals and writes a line for each, until SIGABRT.
pub(crate) fn run(file: &Path) -> Result<()> {
    let all = u64::MAX;
    // SAFETY: the pointer is to a set of the size that is given.
    let signals = unsafe {
        let none = std::ptr::null::<u64>();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all,
            none,
            SET_BYTES,
        );
        libc::syscall(libc::SYS_signalfd4, -1, &raw const all, SET_BYTES, 0)
    };
    let signals = i32::try_from(signals)?;
    ensure!(
        signals >= 0,
        "signalfd: {}",
        std::io::Error::last_os_error()
    );
    let mut file = File::create(file)?;
    writeln!(file, "ready {}", std::process::id())?;
    loop {
        // SAFETY: all bytes of it may be 0, and the buffer has its size.
        let (info, read) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of_val(&info);
            let read = libc::read(signals, (&raw mut info).cast(), size);
            (info, read)
        };
        ensure!(read > 0, "read: {}", std::io::Error::last_os_error());
        let number = info.ssi_signo.cast_signed();
        writeln!(
            file,
            "{number} {} {} {}",
            info.ssi_code, info.ssi_pid, info.ssi_int
        )?;
        if number == libc::SIGABRT {
            return Ok(());
        }
    }
}
