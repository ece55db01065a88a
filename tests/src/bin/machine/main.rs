//! Things that a process may do to whoever reads it, one act a run.
//!
//! `machine long BYTES ARGUMENT …` has a command line and an environment of that length, which
//! begin with the arguments. `machine chroot FOLDER` has that folder as its root.
//! `machine many N …` is N programs of one name. `machine hang FOLDER NAME SESSION USER …` is
//! processes that hang their readers: [`hang`]. `machine root` has root as its real, effective and
//! saved user. Each of these prints `ready` and the pids, and then waits for the end of its input.
//! `machine signals FILE` writes each signal that it gets, and ends by SIGABRT: [`signals`].
//!
//! Two acts run a command instead. With `machine refuse PREFIX COMMAND …` the kernel refuses the
//! eBPF programs of that command whose names begin with PREFIX: [`refuse`]. With
//! `machine private CGROUP RIGHTS COMMAND …` the cgroup is the root of all cgroups that the command
//! sees: [`private`].

mod fuse;
mod hang;
mod memory;
mod private;
mod refuse;
mod signals;

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
        ["signals", file] => signals::run(file.as_ref()),
        ["root", ..] => {
            // SAFETY: setresuid(2) takes three numbers, and this program has one thread.
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

/// Starts `count` programs with this one's name and arguments and a number each. They end with the
/// input.
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

/// Prints that everything is ready, with the pids.
fn say_ready(pids: &[u32]) -> Result<()> {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    println!("ready {}", pids.join(" "));
    Ok(std::io::stdout().flush()?)
}

/// Prints that it is ready, and waits for the end of its input. Its children end with it.
fn wait(pids: &[u32]) -> Result<()> {
    say_ready(pids)?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    Ok(())
}

/// Forks a child that runs `act` and ends with its parent.
fn fork(act: impl FnOnce()) -> Result<u32> {
    // SAFETY: this program has one thread where it forks, so the child may call anything.
    match unsafe { libc::fork() } {
        0 => {
            die_with_parent();
            act();
            // SAFETY: this ends the child at once.
            unsafe { libc::_exit(0) }
        }
        pid => u32::try_from(pid).context("cannot fork"),
    }
}

fn die_with_parent() {
    let kill = Some(rustix::process::Signal::KILL);
    let _ends = rustix::process::set_parent_process_death_signal(kill);
}

/// Waits until it is killed.
fn pause() {
    loop {
        std::thread::park();
    }
}
