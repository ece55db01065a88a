//! A hostile job that forks, dies, renames itself or writes log lines in great numbers.
//!
//! `flood forks N` forks one after the other. In `flood deaths N` all exit at the same moment, with
//! code 3. In `flood kills N` one signal to a process group kills all. `flood renames N` changes
//! its name. `flood lines N FILE LINE` writes lines, with a hundred deaths among them.
//!
//! Two go on until they are killed: in `flood names N`, so many processes rename themselves 200
//! times a second, and `flood log MB FILE LINE` writes so many MB a second.

use std::{
    fs::File,
    io::{BufWriter, Write as _, pipe},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
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
        ["names", _] => names(number),
        ["log", _, file, line] => log(number, file, line),
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

/// Forks processes that change their name and their title without end.
fn names(number: u64) -> Result<()> {
    let title = own_title()?;
    for _ in 0..number {
        fork(|| {
            for round in 0u64.. {
                let name = format!("ray::X{:08x}.f{round:04x}", std::process::id());
                // SAFETY: these are the bytes of this process's own arguments, which nothing reads
                // any more.
                unsafe {
                    std::ptr::write_bytes(title.0 as *mut u8, 0, title.1);
                    let length = name.len().min(title.1);
                    std::ptr::copy_nonoverlapping(name.as_ptr(), title.0 as *mut u8, length);
                    libc::prctl(libc::PR_SET_NAME, title.0 as *const libc::c_char);
                }
                thread::sleep(Duration::from_millis(5));
            }
            0
        })?;
    }
    reap()
}

/// Returns where the kernel reads the command line of this process, and how long that may be. The
/// last byte stays a NUL.
fn own_title() -> Result<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').context("a name")?.1;
    // proc(5): `arg_start` and `arg_end` are the fields 48 and 49.
    let mut fields = after_name.split_whitespace().skip(45);
    let mut next = || {
        fields
            .next()
            .context("a field")?
            .parse()
            .context("a number")
    };
    let (start, end): (usize, usize) = (next()?, next()?);
    Ok((start, (end - start).saturating_sub(1)))
}

/// The most that `log` writes, because the disk has an end too.
const MOST: u64 = 2 << 30;

/// Writes so many MB a second of this line.
fn log(mb: u64, file: &str, line: &str) -> Result<()> {
    let mut file = File::options().append(true).open(file)?;
    let piece = format!("{line}\n").repeat(8_192);
    let (began, mut written) = (Instant::now(), 0);
    while written < MOST {
        let due = u64::try_from(began.elapsed().as_millis())? * mb * 1000;
        while written < due {
            file.write_all(piece.as_bytes())?;
            written += piece.len() as u64;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
