//! Tests of a process that is watched.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use super::{
    super::{Kernel, Watch, unnamed::UnnamedStacks},
    *,
};
use crate::read::Reader;

/// Starts a script that talks over its standard input and output; nothing without Python.
fn started(script: &str) -> Option<Child> {
    let child = Command::new("python3")
        .args(["-u", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    if child.is_err() {
        crate::skips::skipped("no python3 here");
    }
    child.ok()
}

/// What looks need besides the process.
struct Looks {
    reader: Reader,
    budget: Budget,
    unnamed: UnnamedStacks,
}

impl Looks {
    fn new(budget: Budget) -> Self {
        Self {
            reader: Reader::default(),
            budget,
            unnamed: UnnamedStacks::default(),
        }
    }

    fn look(&mut self, now: Instant) -> Look<'_> {
        Look {
            reader: &mut self.reader,
            pythons: None,
            budget: &mut self.budget,
            unnamed: &mut self.unnamed,
            time: BootTime(1),
            now,
            began: clock::cpu_time(),
        }
    }
}

#[test]
fn later_process_with_the_same_pid_is_another() {
    let child = std::process::Command::new("python3")
        .args(["-c", "import time; time.sleep(60)"])
        .spawn();
    let Ok(mut child) = child else {
        crate::skips::skipped("no python3 here");
        return;
    };
    let pid = Pid(child.id());
    // Wait until it has become Python.
    while !is_python(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let own = processes::key(pid).expect("a start");
    let now = Instant::now();
    let later = ProcessKey::new(pid.0, own.start.0 + 1_000_000_000);
    assert!(Watched::new(later, now).is_none());
    let mut watched = Watched::new(own, now).expect("a process");
    let mut looks = Looks::new(Budget::new(100));
    let mut look = looks.look(now);
    assert!(watched.look(&mut look).is_ok());
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(watched.look(&mut look).is_err());
    assert!(watched.stack(&mut look, None).is_none());
}

/// A script that waits for a line, then becomes another program, which prints where its 64 MiB are.
const REPLACED: &str = "import os, sys
print('here'); sys.stdin.readline()
second = '''import ctypes, mmap, time
held = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
held.write(b'x' * (64 << 20))
print(ctypes.addressof(ctypes.c_char.from_buffer(held))); time.sleep(60)'''
os.execv(sys.executable, [sys.executable, '-u', '-c', second])";

/// They are in a new address space.
#[test]
fn mappings_after_exec_are_measured() {
    let Some(mut child) = started(REPLACED) else {
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "here");
    let pid = Pid(child.id());
    let own = processes::key(pid).expect("a start");
    let kernel = Kernel {
        pythons: None,
        levels: None,
    };
    let mut watch = Watch::new(Box::new(|_, _| true), kernel, 100);
    watch.watch_new(own);
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(b"\n").expect("a reader");
    let address: u64 = line().parse().expect("an address");
    let recorded = |watch: &mut Watch| {
        let now = Instant::now();
        let mappings = &mut watch.watched.get_mut(&pid).expect("watched").mappings;
        mappings.add((address, 64 << 20), None, Duration::ZERO, now);
        mappings.touched(now, 0);
        (mappings.recorded() >> 20, mappings.so_far())
    };
    let before = recorded(&mut watch);
    watch.replaced(own);
    let after = recorded(&mut watch);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!((before, after), ((0, 1), (64, 2)));
}

/// A script that fills 64 MiB, prints where they are, and gives them back when it reads a line.
const GIVES_BACK: &str = "import ctypes, mmap, sys, time
held = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
held.write(b'x' * (64 << 20))
print(ctypes.addressof(ctypes.c_char.from_buffer(held))); sys.stdin.readline()
held.close(); print('gone'); time.sleep(60)";

/// Otherwise it would be told as held.
#[test]
fn given_back_memory_is_found_when_other_time_is_spent() {
    let Some(mut child) = started(GIVES_BACK) else {
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    let address: u64 = line().parse().expect("an address");
    let now = Instant::now();
    let own = processes::key(Pid(child.id())).expect("a start");
    let mut watched = Watched::new(own, now).expect("a process");
    let range = (address, 64 << 20);
    watched.mappings.add(range, None, Duration::ZERO, now);
    watched.mappings.touched(Instant::now(), 0);
    watched.recorded.private -= 64 << 20;
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(b"\n").expect("a reader");
    assert_eq!(line(), "gone");
    let mut looks = Looks::new(Budget::without_common_time());
    let mut look = looks.look(now);
    watched.reading.prepare(&mut look, 64 << 20);
    assert!(watched.reading.is_open());
    assert!(watched.look(&mut look).is_ok());
    let mut freed = Vec::new();
    watched.flush(|_, row| {
        if let Observation::Freed { mapping, bytes, .. } = row {
            freed.push((mapping, bytes.0 >> 20));
        }
        true
    });
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(freed, [(Some(0), 64)]);
}
