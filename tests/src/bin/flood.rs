//! A hostile job: `flood forks N`, `flood deaths N` (all at the same moment, with code 3), `flood kills N` (by
//! one signal to a process group), `flood renames N`, and `flood lines N FILE LINE`, with a hundred deaths among them.

use std::{
    fs::File,
    io::{BufWriter, Write as _, pipe},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = flood(&words) {
        eprintln!("flood {}: {error:#}", words.join(" "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn flood(words: &[&str]) -> Result<()> {
    let number = words.get(1).context("how many?")?.parse()?;
    match words {
        ["forks", _] => (0..number).try_for_each(|_| {
            fork(|| 0)?;
            reap()
        }),
        ["kills", _] => kills(number),
        ["deaths", _] => deaths(number),
        ["renames", _] => rename(number),
        ["lines", _, file, line] => lines(number, file, line),
        _ => bail!("no such flood"),
    }
}

/// A child that does `act` and exits with what that gives.
fn fork(act: impl FnOnce() -> i32) -> Result<i32> {
    // SAFETY: this program has one thread, so that the child may do whatever it likes.
    match unsafe { libc::fork() } {
        0 => {
            let code = act();
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(code) }
        }
        pid @ 1.. => Ok(pid),
        _ => Err(std::io::Error::last_os_error()).context("cannot fork"),
    }
}

fn reap() -> Result<()> {
    // SAFETY: without a place for the status nothing is written.
    if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 {
        return Err(std::io::Error::last_os_error()).context("no child ended");
    }
    Ok(())
}

/// They all wait for one pipe to be closed.
fn deaths(number: u64) -> Result<()> {
    let (mut reader, writer) = pipe()?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&writer);
    for _ in 0..number {
        fork(|| {
            // SAFETY: the child's own copy of the descriptor; nothing of the child uses it after.
            unsafe { libc::close(descriptor) };
            let _closed = std::io::Read::read(&mut reader, &mut [0]);
            3
        })?;
    }
    drop(writer);
    (0..number).try_for_each(|_| reap())
}

/// A group of its own, whose first process leads it.
fn kills(number: u64) -> Result<()> {
    let mut group = 0;
    for _ in 0..number {
        let pid = fork(|| {
            loop {
                std::thread::park();
            }
        })?;
        // SAFETY: it takes two numbers; 0 makes the process the leader of a group.
        if unsafe { libc::setpgid(pid, group) } != 0 {
            return Err(std::io::Error::last_os_error()).context("setpgid");
        }
        group = if group == 0 { pid } else { group };
    }
    // SAFETY: kill(2) takes two numbers.
    if unsafe { libc::kill(-group, libc::SIGKILL) } != 0 {
        return Err(std::io::Error::last_os_error()).context("kill");
    }
    (0..number).try_for_each(|_| reap())
}

fn rename(number: u64) -> Result<()> {
    for round in 0..number {
        let name = std::ffi::CString::new(format!("ray::x.{round}"))?;
        // SAFETY: the name ends with a NUL and lives through the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
    Ok(())
}

/// Among them a hundred children end with code 3, so that it can be seen whether their deaths are lost.
fn lines(number: u64, file: &str, line: &str) -> Result<()> {
    let file = File::options().append(true).open(file)?;
    let mut file = BufWriter::new(file);
    let part = (number / 100).max(1);
    for round in 0..number {
        if round % part == 0 {
            // What the child inherits must not be written twice.
            file.flush()?;
            fork(|| 3)?;
            reap()?;
        }
        writeln!(file, "{line}")?;
    }
    Ok(file.flush()?)
}
