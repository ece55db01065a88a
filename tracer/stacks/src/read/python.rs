//! Reads the stacks of Python processes. A process is opened once and read many times.

use std::{collections::HashMap, time::Instant};

use py_spy::{
    Config, PythonSpy, StackTrace, config::LockingStrategy,
    python_process_info::PythonProcessLayout,
};
use raytrace_ebpf::records;
use raytrace_proc::{bounded, growth_records};

use super::{
    binary::{Binaries, FileId, keep},
    code::{LastFrames, Memory},
    frame::frame,
    layout::Layout,
    native::{Names, Unwinder},
    spy,
};
use crate::{
    event::{NativeFrame, PythonFrame},
    ids::{Pid, ProcessKey},
};

/// How many frames of one stack are kept, the innermost.
const MOST_FRAMES: usize = 64;

/// Why there is no stack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The interpreter was not found, or may not be read.
    #[error("{0}")]
    Open(String),
    /// Every try was torn, because the process moved on while it was read.
    #[error("its stack could not be read: {0}")]
    Torn(String),
}

impl From<std::io::Error> for StackError {
    fn from(error: std::io::Error) -> Self {
        Self::Open(reason(&error.to_string()))
    }
}

/// One thread's stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// The thread, as its own pid namespace numbers it.
    pub tid: Option<Pid>,
    /// Whether it was running when it was read. If not, another thread may have caused what
    /// happened before.
    pub running: bool,
    /// The frames, the running one first.
    pub frames: Vec<PythonFrame>,
    /// The frames that the running Python frame called, the innermost first; only where the kernel
    /// took the stack.
    pub native: Vec<NativeFrame>,
}

/// Where the interpreter of a process is.
pub struct Python {
    pid: Pid,
    file: FileId,
    addresses: PythonProcessLayout,
    memory: Memory,
    last: LastFrames,
    /// `None` for versions whose stacks the kernel cannot take.
    layout: Option<&'static Layout>,
    unwinder: Unwinder,
}

impl Python {
    /// Returns what the kernel must be told to take the stacks of this process.
    pub fn located(&self, process: ProcessKey) -> Option<records::Python> {
        let interpreter = self.addresses.interpreter_address as u64;
        Some(self.layout?.located(process, interpreter))
    }

    /// Names the stack of a thread of this process. The kernel took its frames.
    pub fn named(&mut self, tid: Pid, frames: &[records::PythonFrame]) -> Option<Stack> {
        let frames = self.last.read(&self.memory, self.layout?, frames);
        (!frames.is_empty()).then_some(Stack {
            tid: Some(tid),
            running: true,
            frames,
            native: Vec::new(),
        })
    }
}

/// Reads stacks. It keeps one py-spy reader for each interpreter file, and points it at the process
/// that is to be read.
#[derive(Default)]
pub struct Reader {
    binaries: Binaries,
    spies: HashMap<FileId, PythonSpy>,
    names: Names,
}

/// Whether the program that runs as `pid` is a Python interpreter, by the name of its file. Where
/// that may not be read, by the name of the process.
pub fn is_python(pid: Pid) -> bool {
    let Ok(exe) = std::fs::read_link(format!("/proc/{pid}/exe")) else {
        let name = bounded::text_of_process(pid, "comm", bounded::SMALL).unwrap_or_default();
        return name.contains("python") || name.starts_with("ray::");
    };
    let name = exe.file_name().unwrap_or_default();
    name.to_string_lossy().contains("python")
}

impl Reader {
    /// Finds the interpreter. This takes 10 ms for the first process of a program, whose symbols
    /// are parsed, and 1 ms for each further one.
    pub fn open(&mut self, pid: Pid) -> Result<Python, StackError> {
        let failed =
            |error: anyhow::Error| StackError::Open(reason(&error.root_cause().to_string()));
        let (file, mut info) = self.binaries.of(pid)?;
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            full_filenames: true,
            collect_thread_names: false,
            ..Config::default()
        };
        let number = pid.0.cast_signed();
        let addresses = if let Some(spy) = self.spies.get_mut(&file) {
            spy.process.pid = number;
            spy::locate(&mut info, spy).map_err(failed)?
        } else {
            let (spy, addresses) = spy::new(number, &mut info, config).map_err(failed)?;
            keep(&mut self.spies, file, spy);
            addresses
        };
        let version = &self.spy(file)?.version;
        let layout = Some(version.minor).filter(|_| version.major == 3);
        Ok(Python {
            pid,
            file,
            addresses,
            memory: Memory::open(pid)?,
            last: LastFrames::default(),
            layout: layout.and_then(Layout::of),
            unwinder: Unwinder::default(),
        })
    }

    /// Returns the native frames that the running Python frame of a thread had called. The kernel
    /// took them.
    pub fn native(
        &mut self,
        python: &mut Python,
        taken: &growth_records::Native,
        now: Instant,
    ) -> Vec<NativeFrame> {
        let Python {
            pid,
            memory,
            unwinder,
            ..
        } = python;
        unwinder.frames(*pid, memory, &mut self.names, taken, now)
    }

    fn spy(&mut self, file: FileId) -> Result<&mut PythonSpy, StackError> {
        let spy = self.spies.get_mut(&file);
        spy.ok_or_else(|| StackError::Open("its interpreter was not kept".into()))
    }

    /// Returns the stack of the thread `tid` if that runs Python. Otherwise returns that of the
    /// thread that holds the interpreter's lock, of one that is busy without the lock, or of the
    /// main thread. `wanted` rejects a thread that holds the lock only for a moment.
    pub fn stack(
        &mut self,
        python: &Python,
        tid: Option<Pid>,
        wanted: impl Fn(&Stack) -> bool,
    ) -> Result<Option<Stack>, StackError> {
        let spy = self.spy(python.file)?;
        spy.pid = python.pid.0.cast_signed();
        spy.process.pid = spy.pid;
        spy.addresses = python.addresses.clone();
        let is_it = |stack: &Stack| stack.tid == tid;
        let holder = threads(spy, true)?.first().map(stack);
        let holder = holder.filter(|holder| wanted(holder));
        if let Some(holder) = holder
            .as_ref()
            .filter(|holder| tid.is_none() || is_it(holder))
        {
            return Ok(Some(holder.clone()));
        }
        let threads = threads(spy, false)?;
        let its = threads
            .iter()
            .map(stack)
            .find(|one| tid.is_some() && is_it(one));
        if let Some(found) = its.or(holder) {
            return Ok(Some(found));
        }
        let busy = |found: &&StackTrace| found.active && !found.frames.is_empty();
        let mut busy = threads.iter().filter(busy).map(stack);
        // Threads are listed newest first: the last one is the main thread.
        Ok(busy
            .find(|one| wanted(one))
            .or_else(|| threads.last().map(stack)))
    }
}

/// Reads all threads, or only the one that holds the interpreter's lock, which costs a tenth.
fn threads(spy: &mut PythonSpy, holder_only: bool) -> Result<Vec<StackTrace>, StackError> {
    spy.config.gil_only = holder_only;
    spy::again(|| spy.get_stack_traces())
        .map_err(|torn| StackError::Torn(reason(&torn.root_cause().to_string())))
}

fn stack(found: &StackTrace) -> Stack {
    let frames = found.frames.iter().take(MOST_FRAMES);
    Stack {
        tid: found
            .os_thread_id
            .and_then(|tid| u32::try_from(tid).ok())
            .map(Pid),
        running: found.owns_gil || found.active,
        frames: frames
            .map(|found| {
                let line = u32::try_from(found.line).unwrap_or(0);
                frame(&found.filename, &found.name, line)
            })
            .collect(),
        native: Vec::new(),
    }
}

/// Returns the system's reason for a refusal, with what to do.
fn reason(text: &str) -> String {
    if text.contains("Operation not permitted") || text.contains("Permission denied") {
        return "reading another process's memory is refused: run as root or with CAP_SYS_PTRACE (in Docker: --cap-add SYS_PTRACE)".into();
    }
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
        time::Duration,
    };

    use super::*;

    /// Starts a Python that reports where it will stay, and then stays there.
    fn python(code: &str) -> Option<(Ended, Pid)> {
        let child = Command::new("python3")
            .args(["-u", "-c", code])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            crate::skips::skipped("no python3 here");
            return None;
        };
        let mut line = String::new();
        let output = child.stdout.take().expect("stdout");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let pid = Pid(child.id());
        Some((Ended(child), pid))
    }

    /// Calls `look` until the result is as `wanted`: a program that has printed a line may not yet
    /// be where it stays.
    fn once(
        mut look: impl FnMut() -> Result<Option<Stack>, StackError>,
        wanted: impl Fn(&Stack) -> bool,
    ) -> Stack {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let seen = look();
            match seen {
                Ok(Some(stack)) if wanted(&stack) => return stack,
                seen => assert!(Instant::now() < until, "{seen:?}"),
            }
        }
    }

    /// Returns the thread that is not the main one.
    fn other_thread(pid: Pid) -> Pid {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
        let names = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        names.map(Pid).find(|tid| *tid != pid).expect("a thread")
    }

    fn runs(stack: &Stack, function: &str) -> bool {
        stack
            .frames
            .first()
            .is_some_and(|top| top.function == function)
    }

    fn is_within(stack: &Stack, function: &str) -> bool {
        stack.frames.iter().any(|frame| frame.function == function)
    }

    /// A child process that ends with the test, in any case.
    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.kill().expect("kill");
            self.0.wait().expect("wait");
        }
    }

    #[test]
    fn running_line_is_found_without_a_stop() {
        let code = "def grow():\n  while True:\n    sum(range(1000))\nprint('there')\ngrow()";
        let Some((_child, pid)) = python(code) else {
            return;
        };
        assert!(is_python(pid));
        let mut reader = Reader::default();
        let python = reader.open(pid).expect("an interpreter");
        let look = || reader.stack(&python, None, |_| true);
        let stack = once(look, |stack| runs(stack, "grow"));
        let top = stack.frames.first().expect("a frame");
        assert_eq!((top.function.as_str(), stack.frames.len()), ("grow", 2));
        assert!((2..=3).contains(&top.line), "{top:?}");
    }

    #[test]
    fn waiting_thread_is_not_the_running_one() {
        let code = "import threading, time\ndef idle():\n  print('there', flush=True)\n  time.sleep(600)\n\
            threading.Thread(target=idle, daemon=True).start()\nwhile True:\n  sum(range(1000))";
        let Some((_child, pid)) = python(code) else {
            return;
        };
        let mut reader = Reader::default();
        let python = reader.open(pid).expect("an interpreter");
        // Once the other thread waits, it waits until the end.
        let idle = other_thread(pid);
        let look = || reader.stack(&python, Some(idle), |_| true);
        once(look, |stack| runs(stack, "idle") && !stack.running);
        let stack = reader.stack(&python, None, |_| true);
        let stack = stack.expect("a stack").expect("a thread");
        assert!(!is_within(&stack, "idle"), "{stack:?}");
        // If the thread that was asked for does not run, the main thread is found, not one that
        // waits.
        let stack = reader.stack(&python, None, |_| false);
        let stack = stack.expect("a stack").expect("a thread");
        assert!(!is_within(&stack, "idle"), "{stack:?}");
    }

    /// A thread is found by its id in each of them.
    #[test]
    fn processes_of_one_program_are_distinct() {
        let code = "import threading, time\ndef held():\n  print(threading.get_native_id(), flush=True)\n  time.sleep(600)\n\
            threading.Thread(target=held, daemon=True).start()\ndef OTHER():\n  time.sleep(600)\nOTHER()";
        let mut reader = Reader::default();
        let mut held = Vec::new();
        for name in ["first", "second"] {
            let Some((child, pid)) = python(&code.replace("OTHER", name)) else {
                return;
            };
            let opened = reader.open(pid).expect("an interpreter");
            held.push((name, child, pid, opened));
        }
        for (name, child, pid, python) in held {
            let mut held_by = |tid, function: &str| {
                let look = || reader.stack(&python, Some(tid), |_| true);
                once(look, |stack| runs(stack, function));
            };
            held_by(pid, name);
            held_by(other_thread(pid), "held");
            drop(child);
        }
    }

    #[test]
    fn starting_python_is_refused_until_readable() {
        let code = "def stay():\n  while True:\n    sum(range(1000))\nstay()";
        for _ in 0..8 {
            let child = Command::new("python3").args(["-c", code]).spawn();
            let Ok(child) = child else {
                crate::skips::skipped("no python3 here");
                return;
            };
            let child = Ended(child);
            let mut reader = Reader::default();
            let until = Instant::now() + Duration::from_secs(60);
            let stays = |stack: &Stack| stack.frames.iter().any(|frame| frame.function == "stay");
            let mut found = None;
            while !found.as_ref().is_some_and(stays) {
                assert!(Instant::now() < until, "{found:?}");
                let opened = reader.open(Pid(child.0.id())).ok();
                found = opened
                    .and_then(|python| reader.stack(&python, None, |_| true).ok())
                    .flatten();
            }
        }
    }

    #[test]
    fn other_programs_are_refused_with_a_reason() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid(child.id());
        assert!(!is_python(pid));
        let mut reader = Reader::default();
        assert!(matches!(reader.open(pid), Err(StackError::Open(reason)) if !reason.is_empty()));
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert!(reader.open(pid).is_err(), "a process that is gone");
    }

    #[test]
    fn refusal_says_what_to_do() {
        assert!(reason("Operation not permitted (os error 1)").contains("CAP_SYS_PTRACE"));
        assert_eq!(reason("No such process"), "No such process");
    }
}
