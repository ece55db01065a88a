//! Runs tests of several programs side by side, each in a process of its own: no core waits for the end of a file of tests.

use std::{
    collections::VecDeque,
    io::Write as _,
    process::Output,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::programs::Program;
use crate::process::{duration, output};

/// One test of a program.
struct Test<'a> {
    program: &'a Program,
    name: String,
}

/// Tests at a time: a third one makes Ray and the recorders wait for each other longer than their time-outs allow.
const AT_ONCE: usize = 2;

/// Runs all tests of `programs`, to the end of all; `busy` are those that keep the processor busy, the longest first.
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
        // The other one waits for the list alone, not for this test.
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

/// What a panic left is as good.
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

/// Runs one, and prints in one piece what it said.
fn passes(test: &Test) -> bool {
    let mut command = test.program.command();
    command.args(["--exact", &test.name, "--nocapture"]);
    let began = Instant::now();
    let done = command.output().context("cannot start it");
    told(test, done, began.elapsed())
}

fn told(test: &Test, done: Result<Output>, took: Duration) -> bool {
    let (passed, mut said) = match done {
        Ok(done) => (done.status.success(), [done.stdout, done.stderr].concat()),
        Err(error) => (false, format!("{error:#}\n").into_bytes()),
    };
    let outcome = if passed { "passed" } else { "FAILED" };
    let (suite, name, took) = (&test.program.suite, &test.name, duration(took));
    said.extend(format!("    {outcome} in {took}: {suite}: {name}\n").into_bytes());
    // Who reads no output any more wants the tests all the same.
    let _told = std::io::stderr().lock().write_all(&said);
    passed
}
