//! Measures the recorder beside many processes of many threads.
//!
//! Some of the processes grow and shrink all the time.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use super::idle;

const PROCESSES: u32 = 200;
const THREADS: u32 = 80;
/// How many processes change at each tick.
const CHANGING: u32 = 20;
const TICK: Duration = Duration::from_millis(100);
/// How much a process grows or shrinks.
const STEP: usize = 4 << 20;

/// Returns the CPU share of one core over a minute, the peak memory, and what was written.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("many-processes.raytrace");
    let mut recorder = Command::new(raytrace)
        .args(["record", "--require-ebpf", "-o"])
        .arg(&file)
        .arg("--")
        .arg(std::env::current_exe()?)
        .arg("bench-many-processes")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    thread::sleep(Duration::from_secs(15));
    let name = format!(
        "{PROCESSES} processes of {THREADS} threads, {CHANGING} of which change ten times a second"
    );
    let result = idle::observe(&name, &recorder, &file);
    drop(recorder.stdin.take());
    let status = recorder.wait()?;
    ensure!(status.success(), "the recorder ended with {status}");
    result
}

/// Runs the processes themselves until standard input ends.
pub(crate) fn run(member: Option<u32>) -> Result<()> {
    match member {
        None => lead(),
        Some(number) => live(number),
    }
}

fn lead() -> Result<()> {
    let program = std::env::current_exe()?;
    let member = |number: u32| {
        Command::new(&program)
            .args(["bench-many-processes", "--member", &number.to_string()])
            .stdin(Stdio::piped())
            .spawn()
    };
    let mut members = (0..PROCESSES)
        .map(member)
        .collect::<std::io::Result<Vec<_>>>()?;
    let _end = std::io::read_to_string(std::io::stdin())?;
    for one in &mut members {
        drop(one.stdin.take());
        one.wait()?;
    }
    Ok(())
}

fn live(number: u32) -> Result<()> {
    for _ in 1..THREADS {
        let idle = thread::Builder::new().stack_size(64 << 10);
        idle.spawn(|| {
            loop {
                thread::park();
            }
        })
        .context("cannot start a thread")?;
    }
    if number < CHANGING {
        thread::spawn(move || change(number));
    }
    let _end = std::io::read_to_string(std::io::stdin())?;
    Ok(())
}

/// Grows by a step, and shrinks by it at the next tick, for ever.
fn change(number: u32) -> Result<()> {
    // This name makes the process easy to find in the recording.
    fs::write("/proc/self/comm", format!("changing {number}"))?;
    // SAFETY: this is a new mapping that only this function uses.
    unsafe {
        let memory = mmap_anonymous(
            std::ptr::null_mut(),
            STEP,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?;
        loop {
            memory.write_bytes(1, STEP);
            thread::sleep(TICK);
            madvise(memory, STEP, Advice::LinuxDontNeed)?;
            thread::sleep(TICK);
        }
    }
}
