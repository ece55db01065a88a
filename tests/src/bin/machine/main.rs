//! What a process may do to whoever looks at it: one act a run.
//!
//! `machine long BYTES ARGUMENT …` has a command line and an environment of that length, that begins with the arguments. `machine chroot FOLDER`
//! lives in that folder. `machine many N …` is N programs of one name. `machine hang FOLDER NAME SESSION USER …` is processes that cannot be looked at: [`hang`]. `machine refuse PREFIX COMMAND …` runs a command whose eBPF programs of such names the kernel refuses: [`refuse`].
//! `machine private CGROUP RIGHTS COMMAND …` runs one whose root of cgroups that is: [`private`]. `machine root` is root in all its users.
//! Each says `ready` and the pids, and then waits for the end of its input.

mod fuse;
mod hang;
mod memory;
mod private;
mod refuse;

use std::{
    io::{Read as _, Write as _},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, Result, bail};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let code = match words.as_slice() {
        ["refuse", prefix, command @ ..] => refuse::run(prefix, command),
        ["private", cgroup, rights, command @ ..] => private::run(cgroup.as_ref(), rights, command),
        other => act(other).map(|()| ExitCode::SUCCESS),
    };
    code.unwrap_or_else(|error| {
        eprintln!("machine {}: {error:#}", words.join(" "));
        ExitCode::FAILURE
    })
}

fn act(words: &[&str]) -> Result<()> {
    match words {
        ["long", bytes, arguments @ ..] => {
            memory::lengthen(bytes.parse()?, arguments)?;
            wait(&[])
        }
        ["chroot", folder, ..] => {
            rustix::process::chroot(*folder)?;
            std::env::set_current_dir("/")?;
            wait(&[])
        }
        ["many", count, rest @ ..] => many(count.parse()?, rest),
        ["root", ..] => {
            // SAFETY: it takes three numbers, and this program has one thread.
            let done = unsafe { libc::setresuid(0, 0, 0) };
            anyhow::ensure!(done == 0, "setresuid: {}", std::io::Error::last_os_error());
            wait(&[])
        }
        ["hang", folder, name, session, users @ ..] => {
            hang::run(folder.as_ref(), name, session, users)
        }
        _ => bail!("no such act"),
    }
}

/// So many programs with this one's name and arguments, and a number each, that end when the input does.
fn many(count: u32, arguments: &[&str]) -> Result<()> {
    let program = std::env::args_os().next().context("no name")?;
    let mut all = Vec::new();
    for number in 0..count {
        let mut one = Command::new(&program);
        one.args(["many", "0"]).args(arguments);
        one.arg(format!("--number={number}")).stdout(Stdio::null());
        all.push(one.spawn().context("cannot start it")?);
    }
    wait(&[])?;
    for mut one in all {
        one.wait()?;
    }
    Ok(())
}

/// Says that all is as it should be.
fn say_ready(pids: &[u32]) -> Result<()> {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    println!("ready {}", pids.join(" "));
    Ok(std::io::stdout().flush()?)
}

/// Says so, and waits for the end of its input; its children end with it.
fn wait(pids: &[u32]) -> Result<()> {
    say_ready(pids)?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}

/// A child that does `act` and ends with its parent.
fn fork(act: impl FnOnce()) -> Result<u32> {
    // SAFETY: this program has one thread where it forks, so that the child may do whatever it likes.
    match unsafe { libc::fork() } {
        0 => {
            die_with_parent();
            act();
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(0) }
        }
        pid => u32::try_from(pid).context("cannot fork"),
    }
}

fn die_with_parent() {
    let kill = Some(rustix::process::Signal::KILL);
    let _ends = rustix::process::set_parent_process_death_signal(kill);
}

/// Until it is killed.
fn pause() {
    loop {
        std::thread::park();
    }
}
