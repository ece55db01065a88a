//! Runs other programs, and prints what is done and how long it took.

use std::{
    fmt::Write as _,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::layout;

/// Runs `work`, and prints its `name` before and its duration after it.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("==> {name}");
    let started = Instant::now();
    let result = work();
    let outcome = if result.is_ok() { "done" } else { "FAILED" };
    // The name is repeated, because another step may have begun meanwhile.
    eprintln!("    {outcome} in {}: {name}", duration(started.elapsed()));
    result
}

/// Makes a command of cargo on this workspace.
pub(crate) fn cargo(command: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(layout::root()).arg(command);
    cargo
}

/// Makes the command of a program of `tests`, built for release.
pub(crate) fn program_of_tests(name: &str) -> Command {
    let mut program = cargo("run");
    program.args(["--quiet", "--release", "--package", "raytrace-tests"]);
    program.args(["--bin", name, "--"]);
    program
}

/// Prints that a step is not needed.
pub(crate) fn print_not_needed(name: &str) {
    eprintln!("    already there: {name}");
}

/// Runs `command` to its end. Anything but success is an error that shows the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs `command` without showing its output, unless it fails.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    let output = capture(command)?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        bail!("`{line}` ended with {}", output.status);
    }
    Ok(())
}

fn capture(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", command_line(command)))
}

/// Returns the standard output of `command`.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = capture(command)?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        bail!("`{line}` ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns whether `command` can be run and succeeds. Its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Ends a recorder with SIGINT, as Ctrl-C does.
pub(crate) fn interrupt(recorder: &mut Child) -> Result<ExitStatus> {
    if let Some(status) = recorder.try_wait()? {
        bail!("the recorder had ended by itself, with {status}");
    }
    let pid = rustix::process::Pid::from_child(recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    Ok(recorder.wait()?)
}

/// Formats a duration, such as `2 min 4 s` or `3.2 s`.
pub(crate) fn duration(time: Duration) -> String {
    if time.as_secs() >= 60 {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        // Writing to a String cannot fail.
        let _ = write!(line, " {}", argument.to_string_lossy());
    }
    line
}
