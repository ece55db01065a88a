//! Tests the eBPF programs on the real kernel: real kills of real processes, judged.
//!
//! Needs root (CAP_BPF, CAP_PERFMON). Without it, each test reports that it was skipped.
#![allow(clippy::disallowed_methods, reason = "tests read what they have made")]

#[path = "../src/tests/skips.rs"]
mod skips;

use std::{
    io::{BufRead as _, Write as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use raytrace::{
    event::{Event, MemoryPart, Observation, Probe, ProbeState, Source},
    ids::{BootTime, EventId, Pid, ProcessKey},
    judge::{
        judge,
        report::{Certainty, Death, Killer, Mechanism},
    },
    observe::kernel::{Attached, KernelError, MemoryRecord, attach},
};

/// The attached eBPF programs, with the children of this test tracked.
struct Stage {
    kernel: Attached,
    events: Vec<Event>,
}

impl Stage {
    fn new() -> Option<Self> {
        match attach(false) {
            Ok(kernel) => {
                // Some kernels refuse programs at the entry or the exit of a function.
                let may_miss = |probe: &&Probe| {
                    probe.name.starts_with("fentry/") || probe.name.starts_with("fexit/")
                };
                for probe in kernel.probes.iter().filter(|probe| !may_miss(probe)) {
                    assert_eq!(probe.state, ProbeState::Ok, "{probe:?}");
                }
                let mut stage = Self {
                    kernel,
                    events: Vec::new(),
                };
                stage
                    .kernel
                    .tracked
                    .add(ProcessKey::new(std::process::id(), 0));
                Some(stage)
            }
            Err(error @ (KernelError::NotPermitted(_) | KernelError::NoBtf { .. })) => {
                skips::skipped(&error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn drain(&mut self) {
        let events = &mut self.events;
        let mut push = |time: BootTime, what: Observation| {
            events.push(Event {
                id: EventId(events.len() as u64 + 1),
                time,
                source: Source::Kernel,
                what,
            });
        };
        self.kernel.ring.drain(|time, told| push(time, told.into()));
        self.kernel.ring.harvest(&mut push);
    }

    /// Reads records until a process has ended well, so that the buffer does not become full.
    fn drain_until_end(&mut self, process: &mut Child) {
        let ended = loop {
            self.drain();
            if let Some(ended) = process.try_wait().expect("wait") {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(ended.success());
    }

    /// Waits for the death of a process.
    fn death(&mut self, pid: u32) -> Death {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            self.drain();
            let found = judge(&self.events)
                .deaths
                .into_iter()
                .filter(|death| death.process.pid == Pid(pid))
                .collect::<Vec<_>>();
            match found.as_slice() {
                [death] => return death.clone(),
                [] if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                other => panic!("{} deaths of pid {pid}", other.len()),
            }
        }
    }

    fn deaths(&mut self) -> Vec<Death> {
        self.drain();
        judge(&self.events).deaths
    }
}

fn shell(script: &str) -> Child {
    Command::new("sh")
        .args(["-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh")
}

fn python(script: &str) -> Child {
    Command::new("python3")
        .args(["-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3")
}

fn kill(pid: u32, signal: &str) {
    // The shell ends at once, so that the sender is gone before anyone could look it up in /proc.
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {pid}")])
        .status()
        .expect("sh");
    assert!(status.success());
}

/// Waits until `condition` is true for the content of `/proc/PID/NAME`.
fn wait_for(pid: u32, name: &str, mut condition: impl FnMut(&str) -> bool) {
    let path = format!("/proc/{pid}/{name}");
    let end = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&path).is_ok_and(|text| condition(&text)) {
        assert!(Instant::now() < end, "{path} does not come to say it");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the value of a line of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut values = status.lines().filter_map(|line| line.strip_prefix(name));
    values.next().map(str::trim)
}

fn check(death: &Death, killer: Killer, certainty: Certainty) {
    let got = (death.verdict.killer, death.verdict.certainty);
    assert_eq!(
        got,
        (killer, certainty),
        "{:?}\n{:#?}",
        death.verdict.cause,
        death.verdict.evidence
    );
}

#[test]
fn kill_names_a_sender_that_has_ended() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut child = shell("exec sleep 60");
    let pid = child.id();
    wait_for(pid, "comm", |name| name.trim() == "sleep");
    kill(pid, "KILL");
    child.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::Signal, Certainty::Proven);
    assert_eq!(death.end.signal, Some(9));
    let sender = death.sender.expect("sender");
    assert_eq!(sender.mechanism, Mechanism::Kill);
    assert_eq!(sender.comm, "sh");
    assert!(
        sender.exe.expect("exe").starts_with("/usr/bin/"),
        "path of the shell"
    );
    assert_eq!(
        sender.ancestors.first().map(|parent| parent.pid),
        Some(Pid(std::process::id()))
    );
    assert_eq!(death.process.title.as_deref(), Some("sleep 60"));
}

/// The process lives for about a fifth of a second.
#[test]
fn peak_of_a_short_process_is_known() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    // Freed before any sample could be taken, and before the end.
    let script = "import mmap; m = mmap.mmap(-1, 500 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_POPULATE | mmap.MAP_ANONYMOUS); m.close()";
    let mut child = python(script);
    let (pid, began) = (child.id(), Instant::now());
    assert!(child.wait().expect("wait").success());
    let death = stage.death(pid);
    let memory = death.memory.own;
    println!("lived {:?}: {memory:?}", began.elapsed());
    let (peak, left) = (
        memory.peak_bytes.expect("peak").0,
        memory.anon_bytes.expect("anon").0,
    );
    assert!((500 << 20..525 << 20).contains(&peak), "{peak}");
    assert!(left < 100 << 20, "{left}");
}

/// Starts a Python that waits for a line and then, in a thread, maps 64 MiB and touches `megabytes`
/// in steps of 4 MiB. It keeps running for some ms between steps, and then waits to be killed.
fn grower(megabytes: u32) -> Child {
    let script = format!(
        "import mmap, sys, threading, time\nkept = []\ndef grow():\n  print(threading.get_native_id(), flush=True)\n  kept.append(mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n  for _ in range({megabytes} // 4):\n    kept.append(bytearray(4 << 20))\n    end = time.monotonic() + 0.01\n    while time.monotonic() < end: pass\n  print('grown', flush=True)\nsys.stdin.readline()\nthreading.Thread(target=grow).start()\ntime.sleep(60)"
    );
    Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3")
}

#[test]
fn mappings_and_last_steps_before_death_are_seen() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let growth = stage.kernel.growth.as_mut().expect("the object memory");
    let mut child = grower(200);
    let process = ProcessKey::new(child.id(), 7);
    growth.watch(process);
    let mut output = std::io::BufReader::new(child.stdout.take().expect("stdout")).lines();
    writeln!(child.stdin.take().expect("stdin")).expect("a line");
    let thread: u32 = output
        .next()
        .expect("a line")
        .expect("text")
        .parse()
        .expect("a thread id");
    assert_eq!(output.next().expect("a line").expect("text"), "grown");
    let mut mapped = Vec::new();
    growth.drain(|told| {
        if let MemoryRecord::Mapped(new) = told {
            mapped.push(new.mapped);
        }
    });
    child.kill().expect("kill");
    child.wait().expect("wait");
    let steps = growth.forget(process);
    let ledger = growth.ledger();
    println!("{mapped:?}\n{steps:?}\n{ledger:?}");

    let large = mapped
        .iter()
        .find(|one| (64 << 20..=66 << 20).contains(&one.bytes.0))
        .expect("the mapping of 64 MiB");
    assert_eq!((large.process, large.tid), (process, Pid(thread)));
    let all: u64 = mapped.iter().map(|one| one.all_bytes.0).sum();
    assert!(
        all >= (64 + 20) << 20,
        "what has no event of its own is in the next one: {all}"
    );
    let anon: Vec<u64> = steps
        .iter()
        .filter(|step| step.part == MemoryPart::Anon)
        .map(|step| step.bytes.0 >> 20)
        .collect();
    assert!(anon.len() > 20 && anon.is_sorted(), "{anon:?}");
    let last = anon.last().copied().expect("a step");
    assert!((195..225).contains(&last), "{last} MiB");
    assert!(
        ledger
            .iter()
            .all(|row| row.lost() == 0 && row.seen == row.submitted + row.filtered),
        "{ledger:?}"
    );
}

/// Waits until a process has a handler for a signal, as /proc/PID/status shows.
fn wait_for_handler(pid: u32, signal: u32) {
    wait_for(pid, "status", |status| {
        let mask = field(status, "SigCgt:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    });
}

#[test]
fn only_a_default_sigterm_is_proven() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut plain = shell("exec sleep 60");
    let mut handled = python(
        "import signal,sys,time\nsignal.signal(15, lambda *a: sys.exit(0))\nwhile True: time.sleep(1)",
    );
    let (first, second) = (plain.id(), handled.id());
    wait_for_handler(second, 15);
    kill(first, "TERM");
    kill(second, "TERM");
    plain.wait().expect("wait");
    handled.wait().expect("wait");
    check(&stage.death(first), Killer::Signal, Certainty::Proven);
    let death = stage.death(second);
    check(&death, Killer::Signal, Certainty::Inferred);
    assert_eq!(death.end.exit_code, Some(0));
}

#[test]
fn faults_aborts_and_self_kills_are_crashes() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    for (script, signal) in [
        ("import ctypes; ctypes.string_at(0)", 11),
        ("import os; os.abort()", 6),
        ("import os; os.kill(os.getpid(), 9)", 9),
        (
            "import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)",
            11,
        ),
    ] {
        let mut child = python(script);
        let pid = child.id();
        child.wait().expect("wait");
        let death = stage.death(pid);
        check(&death, Killer::Crash, Certainty::Proven);
        assert_eq!(death.end.signal, Some(signal), "{script}");
    }
}

#[test]
fn exit_code_is_right_with_threads_too() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    for (script, code) in [
        ("import os; os._exit(3)", 3),
        ("import sys; sys.exit(7)", 7),
        (
            "import os,threading,time\nfor _ in range(8): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nos._exit(4)",
            4,
        ),
        (
            "import os,threading\nt=threading.Thread(target=os._exit, args=(5,)); t.start(); t.join()",
            5,
        ),
        // The leader ends first, and the process lives on in its other thread.
        (
            "import ctypes,os,threading\ndef last():\n while ') Z ' not in open(f'/proc/self/task/{os.getpid()}/stat').read(): pass\n os._exit(6)\nthreading.Thread(target=last).start()\nctypes.CDLL(None).pthread_exit(None)",
            6,
        ),
    ] {
        let mut child = python(script);
        let pid = child.id();
        child.wait().expect("wait");
        let death = stage.death(pid);
        check(&death, Killer::Exit, Certainty::Proven);
        assert_eq!(death.end.exit_code, Some(code), "{script}");
    }
}

#[test]
fn exec_by_another_thread_is_no_death() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut child = python(
        "import os,threading\nthreading.Thread(target=os.execv, args=('/bin/sleep', ['sleep', '0.3'])).start()\nimport time; time.sleep(9)",
    );
    let pid = child.id();
    child.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::Exit, Certainty::Proven);
    assert_eq!(death.process.title.as_deref(), Some("sleep 0.3"));
}

/// System call numbers and ptrace helpers, for Python.
const CALLS: &str = "import ctypes, os, platform, signal, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
TKILL, TGSIGQUEUE, CLONE = (130, 240, 220) if arm else (200, 297, 56)
TRACE_CONT, TRACE_KILL, TRACE_ATTACH, TRACE_DETACH = 7, 8, 16, 17
def ptrace(request, pid, data=0):
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, ctypes.c_long(data)) != 0:
        raise OSError(ctypes.get_errno(), 'ptrace')
def attach(pid):
    ptrace(TRACE_ATTACH, pid)
    os.waitpid(pid, 0x40000000)
";

/// Runs a Python script that acts on the process `victim`, and returns its pid once it has
/// succeeded.
fn does_to(victim: u32, script: &str) -> u32 {
    let mut sender = python(&format!("{CALLS}victim = {victim}\n{script}"));
    let pid = sender.id();
    assert!(sender.wait().expect("wait").success(), "{script}");
    pid
}

#[test]
fn every_signalling_call_names_its_sender() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    for (script, mechanism) in [
        ("libc.syscall(TKILL, victim, 9)", Mechanism::Tgkill),
        (
            "info = (ctypes.c_int * 32)(9, 0, -1)\nlibc.syscall(TGSIGQUEUE, victim, victim, 9, ctypes.byref(info))",
            Mechanism::Sigqueue,
        ),
        (
            "signal.pidfd_send_signal(os.pidfd_open(victim), 9)",
            Mechanism::Pidfd,
        ),
        // PTRACE_KILL sends SIGKILL since Linux 5.19. Older kernels inject it instead.
        (
            "attach(victim)\nptrace(TRACE_KILL, victim)",
            Mechanism::Unknown,
        ),
    ] {
        let mut victim = shell("exec sleep 60");
        let pid = victim.id();
        let sender = does_to(pid, script);
        victim.wait().expect("wait");
        let death = stage.death(pid);
        if mechanism == Mechanism::Unknown && death.verdict.killer == Killer::Unknown {
            continue;
        }
        check(&death, Killer::Signal, Certainty::Proven);
        let told = death.sender.expect("sender");
        assert_eq!((told.pid, told.mechanism), (Pid(sender), mechanism));
    }
}

/// Checks the verdict on a traced process, which names the tracer.
fn check_traced(
    stage: &mut Stage,
    victim: &mut Child,
    tracer: u32,
    (killer, certainty): (Killer, Certainty),
) {
    victim.wait().expect("wait");
    let death = stage.death(victim.id());
    check(&death, killer, certainty);
    let text = format!("was being traced by pid {tracer} (");
    let mut evidence = death.verdict.evidence.iter();
    let names_it = evidence.any(|piece| piece.what.starts_with(&text));
    assert!(names_it, "{:?}", death.verdict);
}

/// The tracer held the sender's signal back and injected it later.
#[test]
fn signal_injected_by_tracer_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut victim = shell("exec sleep 60");
    let pid = victim.id();
    let tracer = does_to(
        pid,
        "attach(victim)
ptrace(TRACE_CONT, victim)
subprocess.check_call(['sh', '-c', f'kill -SEGV {victim}; exit 0'])
os.waitpid(victim, 0x40000000)
ptrace(TRACE_CONT, victim)
os.kill(victim, signal.SIGSTOP)
os.waitpid(victim, 0x40000000)
ptrace(TRACE_DETACH, victim, signal.SIGSEGV)",
    );
    check_traced(
        &mut stage,
        &mut victim,
        tracer,
        (Killer::Signal, Certainty::Inferred),
    );
}

#[test]
fn end_of_traced_process_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    for (act, killer) in [
        ("os._exit(3)", Killer::Exit),
        ("os.kill(os.getpid(), 9)", Killer::Crash),
        ("os.abort()", Killer::Crash),
    ] {
        let mut victim = python(&format!(
            "import os\nwhile '\\nTracerPid:\\t0\\n' in open('/proc/self/status').read(): pass\n{act}"
        ));
        let pid = victim.id();
        let tracer = does_to(
            pid,
            "attach(victim)
ptrace(TRACE_CONT, victim)
status = os.waitpid(victim, 0x40000000)[1]
while os.WIFSTOPPED(status):
    stopped_by = os.WSTOPSIG(status)
    # A `python3` that is a script of pyenv runs another program first: the stop at that exec is no signal to pass on.
    ptrace(TRACE_CONT, victim, 0 if stopped_by == signal.SIGTRAP else stopped_by)
    status = os.waitpid(victim, 0x40000000)[1]",
        );
        check_traced(
            &mut stage,
            &mut victim,
            tracer,
            (killer, Certainty::Inferred),
        );
    }
}

#[test]
fn sigkill_by_another_stays_proven_under_tracer() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut victim = shell("exec sleep 60");
    let pid = victim.id();
    let tracer = does_to(
        pid,
        "attach(victim)\nptrace(TRACE_CONT, victim)\nsubprocess.check_call(['sh', '-c', f'kill -9 {victim}; exit 0'])\nos.waitpid(victim, 0x40000000)",
    );
    check_traced(
        &mut stage,
        &mut victim,
        tracer,
        (Killer::Signal, Certainty::Proven),
    );
}

/// A process that runs a script in Python, and the first line that it prints.
fn prints_a_line(script: &str) -> (Child, String) {
    let mut victim = Command::new("python3")
        .args(["-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut line = String::new();
    let output = victim.stdout.take().expect("a pipe");
    let mut output = std::io::BufReader::new(output);
    output.read_line(&mut line).expect("a line");
    (victim, line)
}

/// A process that exits when its memory says so, and the address of that word.
fn waits_for_a_word() -> (Child, u64) {
    let script = "import ctypes, os, time
word = ctypes.c_long(0)
print(ctypes.addressof(word), flush=True)
while not word.value: time.sleep(0.001)
os._exit(3)";
    let (victim, line) = prints_a_line(script);
    (victim, line.trim().parse().expect("an address"))
}

/// Has another process write into the memory of one, which then exits. Returns the death and the
/// other process.
fn exits_after(stage: &mut Stage, act: &str) -> (Death, u32) {
    let (mut victim, word) = waits_for_a_word();
    let pid = victim.id();
    let other = does_to(pid, &format!("word = {word}\n{MEMORY}{act}"));
    victim.wait().expect("wait");
    (stage.death(pid), other)
}

/// Ways to reach the memory of another process, for Python.
const MEMORY: &str = "class iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
one = ctypes.c_long(1)
def vm(call):
    own, its = iovec(ctypes.addressof(one), 8), iovec(word, 8)
    assert call(victim, ctypes.byref(own), 1, ctypes.byref(its), 1, 0) == 8
def mem(mode):
    file = os.open(f'/proc/{victim}/mem', mode)
    if mode == os.O_RDONLY:
        assert len(os.pread(file, 8, word)) == 8
    else:
        assert os.pwrite(file, bytes(one), word) == 8
";

/// Who traced a process and has detached, or wrote into its memory, may have made it exit. The
/// report says who that was. Reading is no such act.
#[test]
fn exit_after_interference_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let works = |stage: &Stage, hook: &str| {
        let mut probes = stage.kernel.probes.iter();
        probes.any(|probe| probe.name == hook && probe.state == ProbeState::Ok)
    };
    let poke = "libc.ptrace(ctypes.c_long(5), ctypes.c_long(victim), ctypes.c_void_p(word), ctypes.c_void_p(1))";
    let detach = "ptrace(TRACE_DETACH, victim)";
    let attach = format!("attach(victim)\n{poke}\n{detach}");
    // PTRACE_SEIZE and PTRACE_INTERRUPT.
    let seize = format!(
        "ptrace(0x4206, victim)\nptrace(0x4207, victim)\nos.waitpid(victim, 0x40000000)\n{poke}\n{detach}"
    );
    let hidden = format!("signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{seize}");
    for (act, hook, words) in [
        (&*attach, "signal/signal_generate", "traced it (ptrace)"),
        (&seize, "signal/signal_generate", "traced it (ptrace)"),
        (&hidden, "fexit/ptrace_attach", "traced it (ptrace)"),
        (
            "mem(os.O_RDWR)",
            "fentry/mem_write",
            "wrote into its memory, or tried to (/proc/PID/mem)",
        ),
        (
            "vm(libc.process_vm_writev)",
            "fexit/mm_access",
            "opened its memory in order to write (process_vm_writev)",
        ),
    ] {
        let (death, other) = exits_after(&mut stage, act);
        let certainty = if works(&stage, hook) {
            Certainty::Inferred
        } else {
            Certainty::Proven
        };
        check(&death, Killer::Exit, certainty);
        let mut evidence = death.verdict.evidence.iter();
        let names_it = evidence.any(|piece| {
            piece.what.contains(&format!("(pid {other}, ")) && piece.what.contains(words)
        });
        assert_eq!(names_it, works(&stage, hook), "{act}: {:?}", death.verdict);
    }
    // Nobody has changed this one.
    let mut victim = python("import os, time\ntime.sleep(1.5)\nos._exit(3)");
    let pid = victim.id();
    wait_for(pid, "comm", |name| name.starts_with("python"));
    let read = "word = int(open(f'/proc/{victim}/maps').read().split('-')[0], 16)\n";
    does_to(
        pid,
        &format!("{read}{MEMORY}mem(os.O_RDONLY)\nvm(libc.process_vm_readv)"),
    );
    victim.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::Exit, Certainty::Proven);
}

/// A signal with a handler may be agreed on as the one at which a process ends. The last one is
/// kept.
#[test]
fn exit_after_a_caught_signal_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let handler = "import os, signal
signal.signal(signal.SIGUSR2, lambda *_: None)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
print('ready', flush=True)
while True: signal.pause()";
    let (mut victim, _) = prints_a_line(handler);
    let pid = victim.id();
    let other = does_to(
        pid,
        "os.kill(victim, signal.SIGUSR2)\nos.kill(victim, signal.SIGUSR1)",
    );
    victim.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::Exit, Certainty::Inferred);
    let sent = |name: &str| {
        let evidence = death.verdict.evidence.iter();
        let mut sent = evidence.filter(|piece| piece.what.starts_with(name));
        sent.any(|piece| piece.what.contains(&format!("(pid {other}), si_code 0")))
    };
    assert_eq!((sent("SIGUSR1"), sent("SIGUSR2")), (true, false));
}

/// The last one still waits at the end. The one before it was caught.
#[test]
fn exit_after_the_first_of_two_signals_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let handler = "import os, signal, time
def ends(*_):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    time.sleep(1)
    os._exit(7)
signal.signal(signal.SIGUSR1, ends)
print('ready', flush=True)
while True: signal.pause()";
    let (mut victim, _) = prints_a_line(handler);
    let twice = "import time
os.kill(victim, signal.SIGUSR1)
time.sleep(0.3)
os.kill(victim, signal.SIGUSR1)";
    let other = does_to(victim.id(), twice);
    check_caught(&mut stage, &mut victim, "SIGUSR1", other);
}

/// Checks an exit with code 7 after a signal that `other` has caused.
fn check_caught(stage: &mut Stage, victim: &mut Child, signal: &str, other: u32) {
    victim.wait().expect("wait");
    let death = stage.death(victim.id());
    check(&death, Killer::Exit, Certainty::Inferred);
    assert_eq!(death.end.exit_code, Some(7));
    let mut evidence = death.verdict.evidence.iter();
    let from = format!("(pid {other})");
    let sent = evidence.any(|piece| piece.what.starts_with(signal) && piece.what.contains(&from));
    assert!(sent, "{signal} {from}: {:?}", death.verdict.evidence);
}

/// Signals that do nothing by default may have a handler too. Apache ends at SIGWINCH.
#[test]
fn exit_after_a_harmless_signal_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    for signal in ["SIGWINCH", "SIGCONT", "SIGURG", "SIGCHLD", "SIGTSTP"] {
        let handler = format!(
            "import os, signal
signal.signal(signal.{signal}, lambda *_: os._exit(7))
print('ready', flush=True)
while True: signal.pause()"
        );
        let (mut victim, _) = prints_a_line(&handler);
        let other = does_to(victim.id(), &format!("os.kill(victim, signal.{signal})"));
        check_caught(&mut stage, &mut victim, signal, other);
    }
    // A stop makes calls fail without a handler.
    let (mut victim, _) =
        prints_a_line("import os, time; print('ready', flush=True); time.sleep(1); os._exit(7)");
    let stops = "os.kill(victim, signal.SIGSTOP)\nos.kill(victim, signal.SIGCONT)";
    let other = does_to(victim.id(), stops);
    check_caught(&mut stage, &mut victim, "SIGSTOP", other);
    // The end of a child, and what a process sends to itself, are its own.
    for act in [
        "subprocess.Popen(['true'])",
        "signal.raise_signal(signal.SIGCHLD)",
    ] {
        let script = format!(
            "import os, signal, subprocess
signal.signal(signal.SIGCHLD, lambda *_: os._exit(7))
{act}
while True: signal.pause()"
        );
        let mut victim = python(&script);
        let pid = victim.id();
        victim.wait().expect("wait");
        check(&stage.death(pid), Killer::Exit, Certainty::Proven);
    }
}

/// A signal that the kernel sends when a file becomes ready, as another process has arranged. It
/// has a code of the kernel. Where the process itself makes the file ready, it seems to send it.
#[test]
fn exit_after_a_signal_of_a_ready_file_is_only_inferred() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    let fifo = fifo.display();
    let arrange = |signal: &str| {
        format!(
            "import fcntl
if not os.path.exists('{fifo}'): os.mkfifo('{fifo}')
end = os.open('{fifo}', os.O_RDWR | os.O_NONBLOCK)
fcntl.fcntl(end, fcntl.F_SETOWN, victim)
fcntl.fcntl(end, 10, {signal})
fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\n"
        )
    };
    let handler = |signal: &str, then: &str| {
        format!(
            "import os, signal
signal.signal(signal.{signal}, lambda *_: os._exit(7))
print('ready', flush=True)
{then}
while True: signal.pause()"
        )
    };
    for (signal, chosen) in [("SIGUSR1", "signal.SIGUSR1"), ("SIGIO", "0")] {
        let (mut victim, _) = prints_a_line(&handler(signal, ""));
        let act = format!("{}os.write(end, b'x')", arrange(chosen));
        let other = does_to(victim.id(), &act);
        check_caught(&mut stage, &mut victim, signal, other);
    }
    // It writes as many bytes as the number of the signal.
    let (mut victim, _) = prints_a_line(&handler(
        "SIGUSR1",
        &format!(
            "import time
while not os.path.exists('{fifo}.set'): time.sleep(0.001)
os.write(os.open('{fifo}', os.O_RDWR), bytes(10))"
        ),
    ));
    let pid = victim.id();
    let act = format!(
        "{}open('{fifo}.set', 'w').close()
while os.path.exists(f'/proc/{{victim}}/exe'): time.sleep(0.001)",
        arrange("signal.SIGUSR1")
    );
    does_to(pid, &act);
    check_caught(&mut stage, &mut victim, "SIGUSR1", pid);
}

/// Many processes have caught a signal. The kernel keeps those of 4,096, and notes at the others
/// that it did not. That costs processes that have caught none no proof.
#[test]
fn flood_of_caught_signals_costs_others_no_proof() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let flood = "import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
children = []
for _ in range(4200):
    child = os.fork()
    if child == 0:
        while True: signal.pause()
    os.kill(child, signal.SIGUSR1)
    children.append(child)
print('full', flush=True)
sys.stdin.read()
for child in children: os.kill(child, 9)
for child in children: os.waitpid(child, 0)";
    let mut flood = Command::new("python3")
        .args(["-c", flood])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let output = flood.stdout.take().expect("a pipe");
    let mut line = String::new();
    std::io::BufReader::new(output)
        .read_line(&mut line)
        .expect("a line");
    let handler = "import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
print('ready', flush=True)
while True: signal.pause()";
    let (mut caught, _) = prints_a_line(handler);
    does_to(caught.id(), "os.kill(victim, signal.SIGUSR1)");
    let mut plain = python("import os; os._exit(3)");
    caught.wait().expect("wait");
    plain.wait().expect("wait");
    let ends = (stage.death(caught.id()), stage.death(plain.id()));
    drop(flood.stdin.take());
    stage.drain_until_end(&mut flood);
    check(&ends.0, Killer::Exit, Certainty::Inferred);
    let mut evidence = ends.0.verdict.evidence.iter();
    assert!(
        evidence.any(|piece| piece.what.starts_with("not every signal")),
        "{:?}",
        ends.0.verdict.evidence
    );
    check(&ends.1, Killer::Exit, Certainty::Proven);
}

/// Two users send signals that wait, as fast as they can. The buffer loses nothing, and a signal of a
/// third user is recorded, though the two have used up the budget of all.
#[test]
fn floods_of_blocked_signals_cost_others_no_record() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let flood = "import os, signal, sys
os.setuid(USER)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
child = os.fork()
if child == 0:
    while True: signal.pause()
for _ in range(10000): os.kill(child, signal.SIGTERM)
os.kill(child, 9)
os.waitpid(child, 0)";
    let handler = "import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
print('ready', flush=True)
while True: signal.pause()";
    let (mut caught, _) = prints_a_line(handler);
    for user in ["65533", "65534"] {
        let mut flood = python(&flood.replace("USER", user));
        stage.drain_until_end(&mut flood);
    }
    kill(caught.id(), "TERM");
    caught.wait().expect("wait");
    let death = stage.death(caught.id());
    check(&death, Killer::Signal, Certainty::Inferred);
    let mut evidence = death.verdict.evidence.iter();
    assert!(!evidence.any(|piece| piece.what.starts_with("not every signal")));
    let signals = stage.events.iter();
    let signals = signals.filter(|event| matches!(event.what, Observation::Signal(_)));
    let signals = signals.count();
    assert!((4_000..9_000).contains(&signals), "{signals}");
    let lost = stage.kernel.ledgers.read();
    assert!(lost.iter().all(|row| row.missed == 0), "{lost:?}");
}

/// Traces children that ask for it, or that the kernel attaches to their parent's tracer, and lets
/// no SIGCHLD tell that. The children exit with 3 once their memory says so.
#[test]
fn hidden_tracer_of_a_child_is_seen() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let child = "word = ctypes.c_long(0)
place = ctypes.c_void_p(ctypes.addressof(word))
def waits():
    while not word.value: time.sleep(0.001)
    os._exit(3)
def changes(child):
    libc.ptrace(ctypes.c_long(5), ctypes.c_long(child), place, ctypes.c_void_p(1))
    ptrace(TRACE_DETACH, child)
    print(child, flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
";
    let asks = "child = os.fork()
if child == 0:
    signal.signal(signal.SIGUSR1, lambda *_: None)
    ptrace(0, 0)
    ACT
    waits()
os.waitpid(child, 0x40000000)
changes(child)
while os.path.exists(f'/proc/{child}'): time.sleep(0.001)";
    // PTRACE_SEIZE with PTRACE_O_TRACEFORK.
    let forked = "parent = os.fork()
if parent == 0:
    time.sleep(0.3)
    if os.fork() == 0: waits()
    time.sleep(0.3)
    os._exit(0)
ptrace(0x4206, parent, 2)
while True:
    stopped, status = os.waitpid(-1, 0x40000000)
    if stopped == parent:
        if os.WIFSTOPPED(status): ptrace(TRACE_CONT, parent)
    else:
        child = stopped
        changes(child)
        break
ptrace(0x4207, parent)
os.waitpid(parent, 0x40000000)
ptrace(TRACE_DETACH, parent)
while os.path.exists(f'/proc/{child}'): time.sleep(0.001)";
    for act in [
        asks.replace("ACT", "signal.raise_signal(signal.SIGSTOP)"),
        asks.replace("ACT", "signal.raise_signal(signal.SIGUSR1)"),
        asks.replace("ACT", "signal.raise_signal(signal.SIGWINCH)"),
        forked.to_owned(),
    ] {
        let (mut tracer, line) = prints_a_line(&format!("{CALLS}{child}{act}"));
        let pid = line.trim().parse().expect("a pid");
        tracer.wait().expect("wait");
        let death = stage.death(pid);
        check(&death, Killer::Exit, Certainty::Inferred);
        assert_eq!(death.end.exit_code, Some(3));
        let by = format!("(pid {}, uid", tracer.id());
        let mut evidence = death.verdict.evidence.iter();
        let names_it = evidence
            .any(|piece| piece.what.contains(&by) && piece.what.contains("traced it (ptrace)"));
        assert!(names_it, "{act}: {:?}", death.verdict.evidence);
    }
}

/// A user's tracers have a budget of records. What is over is marked at the process, and counted
/// for the user.
#[test]
fn flood_of_tracers_is_bounded_and_hides_nothing() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let script = format!(
        "{CALLS}signal.signal(signal.SIGUSR1, lambda *_: None)
children = []
for _ in range(300):
    child = os.fork()
    if child == 0:
        ptrace(0, 0)
        signal.pause()
        os._exit(3)
    children.append(child)
time.sleep(0.5)
for child in children: os.kill(child, signal.SIGUSR1)
for child in children:
    os.waitpid(child, 0x40000000)
    ptrace(TRACE_DETACH, child, signal.SIGUSR1)
for child in children: os.waitpid(child, 0)"
    );
    let mut tracer = python(&script);
    let parent = Some(Pid(tracer.id()));
    assert!(tracer.wait().expect("wait").success());
    stage.death(tracer.id());
    let deaths = stage.deaths();
    let children = deaths.iter().filter(|death| death.process.ppid == parent);
    let children: Vec<&Death> = children
        .filter(|death| death.end.exit_code == Some(3))
        .collect();
    assert_eq!(children.len(), 300);
    for death in &children {
        check(death, Killer::Exit, Certainty::Inferred);
    }
    let acts = stage.events.iter();
    let acts = acts.filter(|event| matches!(event.what, Observation::Interference(_)));
    let acts = acts.count();
    assert!(acts < 290, "{acts}");
    let over = stage.kernel.ledgers.over();
    let of_user = over
        .iter()
        .find(|row| row.hook == "tracers and writers of user 0");
    assert!(of_user.is_some_and(|row| row.missed > 0), "{over:?}");
}

/// The exit signal given to `clone` is not taken for a signal of file I/O.
#[test]
fn clone_exit_signal_is_a_child_exit() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut parent = python(&format!(
        "{CALLS}if libc.syscall(CLONE, 9, 0, 0, 0, 0) == 0: os._exit(0)\ntime.sleep(60)"
    ));
    let pid = parent.id();
    parent.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::KernelOther, Certainty::Inferred);
    assert!(format!("{:?}", death.verdict.cause).contains("ChildExit"));
}

#[test]
fn parent_death_signal_is_no_parents_kill() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut parent = python(
        "import ctypes, os, time\nif os.fork() == 0:\n libc = ctypes.CDLL(None)\n libc.prctl(1, 9)\n libc.prctl(15, b'mourns')\ntime.sleep(60)",
    );
    let mut child = 0;
    let children = format!("task/{}/children", parent.id());
    // The child changes its name after it has asked for the signal. A python3 that is a wrapper
    // script starts other processes before.
    let mourns = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "mourns")
    };
    wait_for(parent.id(), &children, |pids| {
        let mut pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
        child = pids.find(mourns).unwrap_or(0);
        child != 0
    });
    kill(parent.id(), "KILL");
    parent.wait().expect("wait");
    let death = stage.death(child);
    check(&death, Killer::Signal, Certainty::Proven);
    assert_eq!(
        death.sender.expect("sender").mechanism,
        Mechanism::ParentDeath
    );
    let cause = stage.death(parent.id());
    assert_eq!(stage.death(child).verdict.cause_death_id, Some(cause.id));
}

/// The kernel ends every other process of the pid namespace.
#[test]
fn end_of_namespace_init_is_no_oom() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut unshare = Command::new("unshare")
        .args([
            "-pf",
            "--mount-proc",
            "sh",
            "-c",
            "sleep 60 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; exit 3",
        ])
        .spawn()
        .expect("unshare");
    // The namespace's init has ended before `unshare` does, and everything else in it before that.
    unshare.wait().expect("wait");
    let deaths = stage.deaths();
    let sleeper = deaths
        .iter()
        .find(|death| death.process.title.as_deref() == Some("sleep 60"))
        .expect("the sleeper");
    check(sleeper, Killer::KernelOther, Certainty::Proven);
    assert!(sleeper.process.ns_pid.is_some(), "its pid inside is known");
    let init = deaths
        .iter()
        .find(|death| death.end.exit_code == Some(3))
        .expect("the init");
    assert_eq!(sleeper.verdict.cause_death_id, Some(init.id));
}

/// A memory cgroup for a test, removed at the end.
struct Cgroup(std::path::PathBuf);

/// Returns the folder of all memory cgroups, and the name of the file that sets a limit.
fn memory_cgroups() -> (std::path::PathBuf, &'static str) {
    let root = std::path::Path::new("/sys/fs/cgroup");
    match root.join("memory") {
        first if first.is_dir() => (first, "memory.limit_in_bytes"),
        _ => (root.to_owned(), "memory.max"),
    }
}

impl Cgroup {
    fn new(name: &str, limit: u64) -> Option<Self> {
        let (root, file) = memory_cgroups();
        let path = root.join(format!("raytrace-{name}-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&path) {
            skips::skipped(format!(
                "no memory cgroup can be made at {}: {error}",
                path.display()
            ));
            return None;
        }
        std::fs::write(path.join(file), limit.to_string()).expect("limit");
        Some(Self(path))
    }

    /// Makes a cgroup in this one, with a limit if there is to be one.
    fn child(&self, name: &str, limit: Option<u64>) -> Self {
        // Version 2 has limits only where the parent hands the controller on.
        let _version_1 = std::fs::write(self.0.join("cgroup.subtree_control"), "+memory");
        let path = self.0.join(name);
        std::fs::create_dir(&path).expect("a cgroup");
        if let Some(limit) = limit {
            std::fs::write(path.join(memory_cgroups().1), limit.to_string()).expect("limit");
        }
        Self(path)
    }

    /// Returns the path that the kernel calls it by.
    fn name(&self) -> String {
        let below = self.0.strip_prefix(memory_cgroups().0).expect("a cgroup");
        format!("/{}", below.display())
    }

    /// Lets a process grow until the kernel kills it here. Returns its death.
    fn kills(&self, stage: &mut Stage) -> Death {
        let mut child = self.spawn("b=bytearray(200<<20)");
        let pid = child.id();
        child.wait().expect("wait");
        let death = stage.death(pid);
        check(&death, Killer::KernelOomMemcg, Certainty::Proven);
        death
    }

    /// Starts a Python that enters the cgroup by itself. Its own files are then not charged to the
    /// cgroup; a full one would read them from the disk over and over.
    fn spawn(&self, script: &str) -> Child {
        let procs = self.0.join("cgroup.procs");
        python(&format!(
            "with open('{}', 'w') as procs: procs.write('0')\n{script}",
            procs.display()
        ))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn cgroup_oom_kill_names_limit_and_charge() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(cgroup) = Cgroup::new("anon", 64 << 20) else {
        return;
    };
    let mut child = cgroup.spawn("b=bytearray(200<<20)");
    let pid = child.id();
    child.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::KernelOomMemcg, Certainty::Proven);
    let oom = death.memory.oom.expect("context");
    let name = cgroup
        .0
        .file_name()
        .expect("name")
        .to_string_lossy()
        .into_owned();
    assert_eq!(oom.cgroup, Some(format!("/{name}")));
    assert_eq!(oom.limit_bytes.map(|limit| limit.0), Some(64 << 20));
    assert_eq!(oom.charging.as_deref(), Some("anonymous memory"));
    let anon = death.memory.own.anon_bytes.expect("anon").0;
    assert!((60 << 20..80 << 20).contains(&anon), "{anon}");
}

/// Checks which cgroup was at its limit, without the kernel log. Some kernels refuse the program
/// that proves it.
fn check_limit(stage: &Stage, death: &Death, full: &Cgroup, mib: u64) {
    let mut probes = stage.kernel.probes.iter();
    let at_entry = probes.find(|probe| probe.name == "fentry/out_of_memory");
    let reason = match at_entry.map(|probe| probe.state) {
        Some(ProbeState::Ok) => Certainty::Proven,
        _ => Certainty::Inferred,
    };
    let oom = death.memory.oom.as_ref().expect("context");
    let limit = oom.limit_bytes.map(|limit| limit.0 >> 20);
    assert_eq!((oom.cgroup.clone(), limit), (Some(full.name()), Some(mib)));
    assert_eq!(death.verdict.reason_certainty, reason);
}

/// The child is within 2 % of its limit when the parent is full.
#[test]
fn full_parent_is_told_from_its_nearly_full_child() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(parent) = Cgroup::new("parent", 64 << 20) else {
        return;
    };
    let child = parent.child("child", Some(65 << 20));
    let death = child.kills(&mut stage);
    check_limit(&stage, &death, &parent, 64);
}

/// As a batch system limits a job and its step. The kernel charges a cgroup's own structures to its
/// parent, so the parent is full first.
#[test]
fn parent_with_an_equal_limit_was_hit() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(job) = Cgroup::new("job", 64 << 20) else {
        return;
    };
    let step = job.child("step", Some(64 << 20));
    let death = step.kills(&mut stage);
    check_limit(&stage, &death, &job, 64);
}

/// Makes `count` cgroups in each other; the one at `limited` has a limit of 64 MiB.
fn nested(outer: &Cgroup, count: usize, limited: usize) -> Vec<Cgroup> {
    let name = |at: usize| format!("{at}-{}", "n".repeat(140));
    let limit = |at: usize| (at == limited).then_some(64 << 20);
    let mut levels = vec![outer.child(&name(1), limit(1))];
    for at in 2..=count {
        let inner = levels.last().expect("one").child(&name(at), limit(at));
        levels.push(inner);
    }
    levels
}

#[test]
fn limit_at_level_14_of_20_has_its_whole_path() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(outer) = Cgroup::new("deep", 1 << 30) else {
        return;
    };
    let mut levels = nested(&outer, 20, 14);
    let death = levels[19].kills(&mut stage);
    check_limit(&stage, &death, &levels[13], 64);
    while levels.pop().is_some() {}
}

/// There are more levels than the hook reads.
#[test]
fn path_that_is_too_long_is_not_told() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(outer) = Cgroup::new("deeper", 1 << 30) else {
        return;
    };
    let mut levels = Vec::new();
    for at in 1..=40 {
        let limit = (at == 40).then_some(64 << 20);
        let inner = levels.last().unwrap_or(&outer).child("n", limit);
        levels.push(inner);
    }
    let death = levels[39].kills(&mut stage);
    let oom = death.memory.oom.as_ref().expect("context");
    assert_eq!((&oom.cgroup, &oom.task_cgroup), (&None, &None));
    assert_eq!(death.memory.at_death, None);
    while levels.pop().is_some() {}
}

#[test]
fn oom_kill_names_shared_memory_as_charge() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(cgroup) = Cgroup::new("shmem", 64 << 20) else {
        return;
    };
    let mut child = cgroup
        .spawn("import os\nf=os.memfd_create('x')\nfor _ in range(200): os.write(f, bytes(1<<20))");
    let pid = child.id();
    child.wait().expect("wait");
    let death = stage.death(pid);
    check(&death, Killer::KernelOomMemcg, Certainty::Proven);
    assert_eq!(
        death.memory.oom.expect("context").charging.as_deref(),
        Some("shared memory")
    );
}

#[test]
fn largest_process_dies_for_a_small_invoker() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(cgroup) = Cgroup::new("other", 64 << 20) else {
        return;
    };
    let mut big = cgroup.spawn("import time; b=bytearray(44<<20); time.sleep(600)");
    wait_for(big.id(), "status", |status| {
        let held = field(status, "RssAnon:").and_then(|text| text.strip_suffix(" kB"));
        held.and_then(|held| held.parse().ok())
            .is_some_and(|held: u64| held >= 44 << 10)
    });
    let mut small = cgroup.spawn("import time; b=bytearray(24<<20); time.sleep(5)");
    let (victim, invoker) = (big.id(), small.id());
    big.wait().expect("wait");
    let death = stage.death(victim);
    check(&death, Killer::KernelOomMemcg, Certainty::Proven);
    assert_eq!(
        death.memory.oom.expect("context").invoker_pid,
        Some(Pid(invoker))
    );
    small.wait().expect("wait");
}

#[test]
fn thirty_oom_kills_at_once_are_each_proven() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let Some(cgroup) = Cgroup::new("storm", 48 << 20) else {
        return;
    };
    let mut children: Vec<Child> = (0..30)
        .map(|_| cgroup.spawn("b=bytearray(200<<20)"))
        .collect();
    let pids: Vec<u32> = children.iter().map(Child::id).collect();
    for child in &mut children {
        child.wait().expect("wait");
    }
    for pid in pids {
        let death = stage.death(pid);
        check(&death, Killer::KernelOomMemcg, Certainty::Proven);
        assert_eq!(
            death
                .memory
                .oom
                .expect("context")
                .limit_bytes
                .map(|limit| limit.0),
            Some(48 << 20)
        );
    }
}

/// 2,000 short processes and 200 kills; the ledger must balance.
#[test]
fn all_deaths_of_a_storm_are_seen() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut sleepers: Vec<Child> = (0..200).map(|_| shell("exec sleep 60")).collect();
    let mut storm = python(
        "import os\nfor _ in range(2000):\n p=os.fork()\n if p==0: os._exit(0)\n os.waitpid(p,0)",
    );
    for sleeper in &mut sleepers {
        sleeper.kill().expect("kill");
    }
    for sleeper in &mut sleepers {
        sleeper.wait().expect("wait");
        stage.drain();
    }
    while storm.try_wait().expect("wait").is_none() {
        stage.drain();
        std::thread::sleep(Duration::from_millis(5));
    }
    let own = storm.id();
    stage.death(own);
    let deaths = stage.deaths();
    let killed = sleepers.iter().filter(|sleeper| {
        deaths
            .iter()
            .any(|death| death.process.pid == Pid(sleeper.id()) && death.end.signal == Some(9))
    });
    assert_eq!(killed.count(), 200);
    // A python3 that is a wrapper script starts a few children of its own before it runs Python.
    let short = deaths
        .iter()
        .filter(|death| death.process.ppid == Some(Pid(own)))
        .count();
    assert!((2000..2020).contains(&short), "{short}");
    for row in stage.kernel.ledgers.read() {
        assert_eq!(
            row.seen,
            row.submitted + row.filtered + row.ring_full + row.map_full,
            "{row:?}"
        );
        assert_eq!(row.lost(), 0, "{row:?}");
    }
}
