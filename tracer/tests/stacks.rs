//! Tests the Python stacks that the kernel takes of real processes.
//!
//! Each Python that is installed is tested: `python3.9` to `python3.14`, and `python3`. Needs root
//! (CAP_BPF, CAP_PERFMON). Without it, the test reports that it was skipped.

#[path = "../src/tests/skips.rs"]
mod skips;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use raytrace::{
    event::NativeFrame,
    ids::{Pid, ProcessKey},
    observe::{
        clock,
        kernel::{Growth, KernelError, MemoryRecord, attach},
        stacks::{Reader, Stack},
    },
};

/// A program with a sleeping main thread and one that waits for a line. That thread then takes 64
/// MiB in its fifth line, and 117 MiB of small objects in its sixteenth.
const GROWER: &str = "import sys, threading, time
def grow(size):
    global kept
    kept = [
        bytearray(b'x') * size]
class Outer:
    def run(self):
        sys.stdin.readline()
        grow(64 << 20)
        small()
        print('grown', flush=True)
        time.sleep(60)
def small():
    global more
    more = [
        bytes(2000) for _ in range(60_000)]
threading.Thread(target=Outer().run, daemon=True).start()
print('there', sys.version_info[1], flush=True)
time.sleep(60)";

/// Starts the program. Returns it, its output, and the minor number of its Python version.
fn grower(python: &str) -> Option<(Child, BufReader<std::process::ChildStdout>, String)> {
    let mut child = Command::new(python)
        .args(["-c", GROWER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut output = BufReader::new(child.stdout.take().expect("stdout"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    if let Some(minor) = line.strip_prefix("there ") {
        return Some((child, output, minor.trim().to_owned()));
    }
    child.wait().expect("wait");
    None
}

/// The stacks that the kernel took.
struct Taken {
    /// The minor number of the Python version.
    minor: String,
    /// The stack when the program asked for the 64 MiB.
    asked: Stack,
    /// What Python had called then, and how long it took to find that out, the first and the second
    /// time. `None` if the kernel gives no registers.
    called: Option<(Vec<NativeFrame>, [Duration; 2])>,
    /// The stack at each step of its memory, with the growth since the last step.
    steps: Vec<(u64, Stack)>,
}

fn taken(growth: &mut Growth, python: &str) -> Option<Taken> {
    let (mut child, mut output, minor) = grower(python)?;
    let process = ProcessKey::new(child.id(), 7);
    growth.watch(process);
    let mut interpreters = growth.take_interpreters().expect("a map of interpreters");
    let mut reader = Reader::default();
    let mut opened = reader.open(process.pid).expect("an interpreter");
    // The kernel's events have the start in nanoseconds, but /proc only in clock ticks.
    let exact = ProcessKey::new(child.id(), 9_999_999);
    assert!(exact.same(process), "within a tick");
    let located = opened.located(exact).expect("a layout");
    interpreters.add(process.pid, &located);
    writeln!(child.stdin.take().expect("stdin")).expect("a line");
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    let (mut found, mut grew) = (Vec::new(), Vec::new());
    growth.drain(|told| match told {
        MemoryRecord::Mapped(new) if new.mapped.process == process && !new.stack.is_empty() => {
            found.push(new);
        }
        MemoryRecord::Growth(new) if new.process == process => grew.push(new),
        MemoryRecord::Mapped(_) | MemoryRecord::Growth(_) => {}
    });
    let asked = found.iter().find(|new| new.mapped.bytes.0 >= 64 << 20);
    let called = asked.and_then(|new| new.native.as_ref());
    let called = called.map(|native| {
        let mut native_again = || {
            let began = clock::cpu_time();
            let frames = reader.native(&mut opened, native, Instant::now());
            (frames, clock::cpu_time().saturating_sub(began))
        };
        let ((first, took), (again, took_again)) = (native_again(), native_again());
        assert_eq!(first, again);
        (first, [took, took_again])
    });
    let asked = asked.and_then(|new| opened.named(new.mapped.tid, &new.stack));
    let steps = grew.iter().filter_map(|new| {
        let stack = opened.named(new.tid, &new.stack)?;
        Some((new.private.0, stack))
    });
    let steps = steps.collect();
    child.kill().expect("kill");
    child.wait().expect("wait");
    // Nothing is reported about a process that has ended, whoever has its pid now.
    assert!(
        found
            .iter()
            .all(|new| opened.named(Pid(1), &new.stack).is_none())
    );
    Some(Taken {
        minor,
        asked: asked.expect("a stack"),
        called,
        steps,
    })
}

/// Returns how many MiB grew through a function.
fn through(taken: &Taken, function: &str) -> u64 {
    let its = taken.steps.iter().filter(|(_, stack)| {
        let mut innermost = stack.frames.iter().take(2);
        innermost.any(|frame| frame.function == function)
    });
    its.map(|(bytes, _)| bytes >> 20).sum()
}

/// The stacks are read only after the growth.
#[test]
fn growing_lines_are_found_in_every_python() {
    let names = ["", ".9", ".10", ".11", ".12", ".13", ".14"];
    for name in names.map(|minor| format!("python3{minor}")) {
        let mut kernel = match attach(false) {
            Ok(kernel) => kernel,
            Err(error @ (KernelError::NotPermitted(_) | KernelError::NoBtf { .. })) => {
                return skips::skipped(&error);
            }
            Err(error) => panic!("{error}"),
        };
        let growth = kernel.growth.as_mut().expect("the object memory");
        let Some(taken) = taken(growth, &name) else {
            skips::skipped(format!("no {name} here"));
            continue;
        };
        let (minor, stack) = (&taken.minor, &taken.asked);
        let (small, large) = (through(&taken, "small"), through(&taken, "grow"));
        println!(
            "{name} is 3.{minor}: {:?}, by steps {large} and {small} MiB",
            stack.frames
        );
        // What remains of a line is less than a step, and counts for the next line here; the
        // collector takes another sample then. Nothing is counted twice.
        assert!(small >= 88, "{small} MiB");
        assert!((32..=80).contains(&large), "{large} MiB");
        assert!(large + small <= 64 + 118, "{large} and {small} MiB");
        let frames: Vec<(&str, u32)> = stack
            .frames
            .iter()
            .map(|frame| (frame.function.as_str(), frame.line))
            .collect();
        // Qualified names from 3.11 on.
        let whole = minor.parse::<u32>().expect("a number") >= 11;
        let run = if whole { "Outer.run" } else { "run" };
        assert_eq!(frames[..2], [("grow", 5), (run, 9)]);
        assert_eq!(stack.frames[0].file, "<string>");
        match &taken.called {
            Some((called, took)) => {
                println!("{name} called {called:#?}, found in {took:?}");
                let mut frames = called.iter();
                let malloc = frames.find(|frame| frame.function.as_deref() == Some("malloc"));
                assert!(malloc.expect("malloc").library.starts_with("libc"));
                let python = |frame: &NativeFrame| frame.library.contains("python");
                assert!(called.iter().any(python), "{called:?}");
            }
            None => skips::skipped("this kernel gives no registers"),
        }
        assert!(
            frames[2..].iter().any(|frame| frame.0.ends_with("run")),
            "the thread's own frames: {frames:?}"
        );
    }
}
