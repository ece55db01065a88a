//! A hostile job that forks, dies, renames itself or writes log lines in great numbers.
//!
//! `flood forks N` forks one after the other. In `flood deaths N` all exit at the same moment, with
//! code 3. In `flood kills N` one signal to a process group kills all. `flood renames N` changes
//! its name. `flood lines N FILE LINE` writes lines, with a hundred deaths among them.

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

/// Forks a child that runs `act` and exits with its result.
fn fork(act: impl FnOnce() -> i32) -> Result<i32> {
    // SAFETY: this program has one thread, so the child may call anything.
    match unsafe { libc::fork() } {
        0 => {
            let code = act();
            // SAFETY: this ends the child at once.
            unsafe { libc::_exit(code) }
        }
        pid @ 1.. => Ok(pid),
        _ => Err(std::io::Error::last_os_error()).context("cannot fork"),
    }
}

fn reap() -> Result<()> {
    // SAFETY: the status pointer is null, so nothing is written.
    if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 {
        return Err(std::io::Error::last_os_error()).context("no child ended");
    }
    Ok(())
}

/// Forks children that all wait for one pipe to be closed, and then exit.
fn deaths(number: u64) -> Result<()> {
    let (mut reader, writer) = pipe()?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&writer);
    for _ in 0..number {
        fork(|| {
            // SAFETY: this is the child's own copy of the descriptor, and the child does not use it
            // later.
            unsafe { libc::close(descriptor) };
            let _closed = std::io::Read::read(&mut reader, &mut [0]);
            3
        })?;
    }
    drop(writer);
    (0..number).try_for_each(|_| reap())
}

/// Kills a process group of this many children. The first child leads the group.
fn kills(number: u64) -> Result<()> {
    let mut group = 0;
    for _ in 0..number {
        let pid = fork(|| {
            loop {
                std::thread::park();
            }
        })?;
        // SAFETY: setpgid(2) takes two numbers. A group of 0 makes the process the leader of a new
        // one.
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
        // SAFETY: the name ends with a NUL and outlives the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
    Ok(())
}

/// Writes lines. A hundred children end with code 3 among them, to show whether deaths are lost.
fn lines(number: u64, file: &str, line: &str) -> Result<()> {
    let file = File::options().append(true).open(file)?;
    let mut file = BufWriter::new(file);
    let part = (number / 100).max(1);
    for round in 0..number {
        if round % part == 0 {
            // Otherwise the child would write the inherited buffer a second time.
            file.flush()?;
            fork(|| 3)?;
            reap()?;
        }
        writeln!(file, "{line}")?;
    }
    Ok(file.flush()?)
}
