//! Stages deaths: each act waits for its cue on standard input, then ends as its name says.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{interference, threads};

/// Runs the act `name`.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Result<()> {
    match name {
        // The kernel pipes a core dump to this act, which does not read it before the process is
        // killed.
        "slow-core" => {
            thread::sleep(Duration::from_secs(2));
            return Ok(());
        }
        "idle" => return sleep(),
        _ => cue()?,
    }
    let number = |at: usize| -> Result<i32> {
        let word = arguments.get(at).context("an argument is missing")?;
        Ok(word.parse()?)
    };
    match name {
        "sleep" => sleep(),
        "exit" => std::process::exit(number(0)?),
        "kill" => send(number(0)?, number(1)?),
        "inject" => threads::inject(number(0)?, number(1)?),
        "end-with-me" => threads::end_with_me(number(0)?),
        "eat" => eat(),
        "eat-with-a-sharer" => {
            threads::share_memory()?;
            cue()?;
            eat()
        }
        "hold" => {
            let _held = taken(usize::try_from(number(0)?)? << 20);
            sleep()
        }
        "wait-for-word" => interference::wait_for_word(),
        "write-word" => interference::write_word(number(0)?, arguments[1]),
        "fault" => {
            threads::fault();
            Ok(())
        }
        "abort" => std::process::abort(),
        "bus-error" => threads::bus_error(),
        "address-space" => address_space(),
        "seccomp" => threads::seccomp(),
        "alarm" => {
            // SAFETY: alarm(2) takes a number.
            unsafe { libc::alarm(1) };
            sleep()
        }
        "hard-cpu-limit" => hard_cpu_limit(),
        "threads" => {
            for _ in 0..number(0)? {
                thread::spawn(sleep);
            }
            sleep()
        }
        "leader-exits" => {
            threads::leader_exits(number(0)?);
            Ok(())
        }
        "thread-execs" => threads::thread_execs(arguments[0]),
        "namespace" => namespace(),
        "namespace-init" => {
            let mut members = Vec::new();
            for _ in 0..2 {
                members.push(Command::new("/init").args(["act", "idle"]).spawn()?);
            }
            sleep()
        }
        other => bail!("no act {other}"),
    }
}

fn cue() -> Result<()> {
    Ok(std::io::stdin().read_exact(&mut [0])?)
}

fn sleep() -> Result<()> {
    loop {
        thread::sleep(Duration::from_secs(600));
    }
}

fn taken(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

/// Takes memory until it is killed.
fn eat() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(taken(1 << 20));
    }
}

fn send(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: kill(2) takes two numbers.
    let failed = unsafe { libc::kill(pid, signal) } != 0;
    ensure!(!failed, "kill: {}", std::io::Error::last_os_error());
    Ok(())
}

fn limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the struct outlives the call.
    let failed = unsafe { libc::setrlimit(resource, &raw const limit) } != 0;
    ensure!(!failed, "setrlimit: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Lowers the limit on address space until the allocator finds no memory and aborts.
fn address_space() -> Result<()> {
    limit(libc::RLIMIT_AS, 64 << 20, 64 << 20)?;
    eat()
}

fn hard_cpu_limit() -> Result<()> {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGXCPU, libc::SIG_IGN) };
    limit(libc::RLIMIT_CPU, 1, 1)?;
    loop {
        std::hint::spin_loop();
    }
}

/// Starts the init of a new pid namespace and waits until it ends.
fn namespace() -> Result<()> {
    // SAFETY: unshare(2) takes a number. Only future children are affected.
    let failed = unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0;
    ensure!(!failed, "unshare: {}", std::io::Error::last_os_error());
    let mut init = Command::new("/init")
        .args(["act", "namespace-init"])
        .stdin(std::process::Stdio::piped())
        .spawn()?;
    init.stdin.as_mut().context("no stdin")?.write_all(b"\n")?;
    init.wait()?;
    Ok(())
}

/// Makes a swap area on a device and turns it on.
pub(crate) fn swap_on(device: &str) -> Result<()> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(device)
        .with_context(|| device.to_owned())?;
    let size = file.seek(SeekFrom::End(0))?;
    // `union swap_header` of linux/swap.h: version 1, the last page, no bad pages, and the magic at
    // the end of the first page.
    let mut head = vec![0; 4096];
    head[1024..1028].copy_from_slice(&1u32.to_le_bytes());
    head[1028..1032].copy_from_slice(&u32::try_from(size / 4096 - 1)?.to_le_bytes());
    head[4086..].copy_from_slice(b"SWAPSPACE2");
    file.rewind()?;
    file.write_all(&head)?;
    file.sync_all()?;
    let path = CString::new(device)?;
    // SAFETY: the string outlives the call.
    let failed = unsafe { libc::swapon(path.as_ptr(), 0) } != 0;
    ensure!(
        !failed,
        "swapon {device}: {}",
        std::io::Error::last_os_error()
    );
    let swaps = fs::read_to_string("/proc/swaps")?;
    ensure!(swaps.contains(device), "swap is not on: {swaps}");
    Ok(())
}
