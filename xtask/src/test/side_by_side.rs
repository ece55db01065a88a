//! Runs tests of several programs side by side, each in a process of its own.
//!
//! So no core waits for the end of a file of tests.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::programs::Program;
use crate::{
    layout,
    process::{duration, output},
};

/// One test of a program.
struct Test<'a> {
    program: &'a Program,
    name: String,
}

/// Tests at a time. With a third one, Ray and the recorders wait for each other longer than their
/// timeouts allow.
const AT_ONCE: usize = 2;
/// A test that runs longer than this hangs. The longest takes ten minutes on an otherwise idle
/// machine.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Runs all tests of `programs`. A failure does not stop the others. `busy` are tests that keep the
/// processor busy, the longest first.
pub(super) fn run(programs: &[&Program], busy: &[&str]) -> Result<()> {
    let mut tests = Vec::new();
    for program in programs {
        tests.extend(listed(program)?);
    }
    let mut ordered = VecDeque::new();
    for name in busy {
        let found = tests.iter().position(|test| test.name == *name);
        let found = found.with_context(|| format!("no test is called {name}"))?;
        ordered.push_back(tests.remove(found));
    }
    ordered.extend(tests);
    let (left, failed) = (Mutex::new(ordered), Mutex::new(Vec::new()));
    let work = || loop {
        // The lock is held only to take a test from the list, not while the test runs.
        let test = locked(&left).pop_front();
        let Some(test) = test else { return };
        if !passes(&test) {
            locked(&failed).push(format!("{}: {}", test.program.suite, test.name));
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("failed:\n    {}", failed.join("\n    "));
    }
    Ok(())
}

/// Locks a value, even if another thread has panicked with the lock held.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listed(program: &Program) -> Result<Vec<Test<'_>>> {
    let text = output(program.command().args(["--list", "--format", "terse"]))?;
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let test = |name: &str| Test {
        program,
        name: name.to_owned(),
    };
    Ok(names.map(test).collect())
}

/// Runs one test, and prints its output in one piece.
fn passes(test: &Test) -> bool {
    let (suite, name) = (&test.program.suite, &test.name);
    eprintln!("    begun: {suite}: {name}");
    let began = Instant::now();
    let log = layout::target()
        .join("tests")
        .join(format!("{suite}-{name}.log"));
    let done = run_into(&log, test, began + LONGEST);
    // The output of a program may not be text.
    let mut said = fs::read(&log).unwrap_or_default();
    let passed = done.as_ref().is_ok_and(ExitStatus::success);
    if let Err(error) = done {
        said.extend(format!("{error:#}\n").into_bytes());
    }
    let outcome = if passed { "passed" } else { "FAILED" };
    let took = duration(began.elapsed());
    said.extend(format!("    {outcome} in {took}: {suite}: {name}\n").into_bytes());
    // If nobody reads the output any more, the tests run all the same.
    let _told = std::io::stderr().lock().write_all(&said);
    passed
}

/// Runs a test to its end or to `deadline`, with its output in a file. With a pipe, a process that
/// the test left behind could hold it open for ever.
fn run_into(log: &Path, test: &Test, deadline: Instant) -> Result<ExitStatus> {
    fs::create_dir_all(log.parent().unwrap_or(log))?;
    let file = File::create(log)?;
    let mut command = test.program.command();
    command.args(["--exact", &test.name, "--nocapture"]);
    command.stdin(Stdio::null()).stdout(file.try_clone()?);
    let mut child = command.stderr(file).spawn().context("cannot start it")?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("it was ended after {}", duration(LONGEST));
        }
        thread::sleep(Duration::from_millis(50));
    }
}
