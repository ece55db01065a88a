//! Reads the stacks of one process: their cost, errors, and when to try again.

use std::time::{Duration, Instant};

use raytrace_ebpf::records;
use raytrace_proc::{clock, growth_records::Native, processes};

use super::{Look, budget::Work, level::MemoryPair};
use crate::{
    event::NativeFrame,
    ids::{BootTime, Pid, ProcessKey},
    python,
    read::{Python, Stack, StackError},
};

/// How long a process is left alone after it could not be read. Each further failure doubles the
/// time, up to a minute.
const BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// How many torn reads in a row count as such a failure.
const TORN: u32 = 3;
/// Reading a stack that takes longer than this counts as such a failure too.
const SLOW: Duration = Duration::from_millis(50);

/// How often a large process is read while it does not grow: near a limit, and far from it.
const BEAT_NEAR: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_secs(10);
const BEAT_SIZE: u64 = 512 << 20;
/// From this size on, its interpreter is searched when it rests. Idle workers of Ray 2.9 to 2.60
/// have 40 to 60 MiB.
const PREPARED: u64 = 36 << 20;

/// The state of reading one process.
pub(super) struct Reading {
    process: ProcessKey,
    python: Option<Python>,
    /// The last thread whose stack was named, and how its own pid namespace numbers it.
    last_tid: Option<(Pid, Pid)>,
    /// Why it last could not be read, and the reason that is not yet written.
    refused: Option<String>,
    unsaid: Option<(BootTime, String)>,
    failures: u32,
    not_before: Option<Instant>,
    read_at: Instant,
}

/// Whether two stacks are at the same line of the job.
pub(super) fn same_line(one: &Stack, other: &Stack) -> bool {
    one.frames == other.frames || {
        let line = python::user_frame(&one.frames);
        line.is_some() && line == python::user_frame(&other.frames)
    }
}

/// Whether a thread runs anything but the code in which Ray wraps tasks.
pub(super) fn is_of_the_job(stack: &Stack) -> bool {
    let mut frames = stack.frames.iter();
    frames.any(|frame| !python::is_ray_code(&frame.file))
}

/// Whether two stacks are in the same function of the job. The next line may fill what an earlier
/// one asked for.
pub(super) fn same_function(one: &Stack, other: &Stack) -> bool {
    let function = |stack: &Stack| {
        let line = python::user_frame(&stack.frames)?;
        Some((line.file.clone(), line.function.clone()))
    };
    same_line(one, other) || function(one).is_some_and(|own| Some(own) == function(other))
}

impl Reading {
    pub(super) fn new(process: ProcessKey, now: Instant) -> Self {
        Self {
            process,
            python: None,
            last_tid: None,
            refused: None,
            unsaid: None,
            failures: 0,
            not_before: None,
            read_at: now,
        }
    }

    /// Whether its interpreter was found.
    pub(super) fn is_open(&self) -> bool {
        self.python.is_some()
    }

    /// Whether its stacks could not be read when that was last tried.
    pub(super) fn is_refused(&self) -> bool {
        self.python.is_none() && self.refused.is_some()
    }

    /// Whether it is time to read a large process although it does not grow.
    pub(super) fn is_beat(&self, look: &Look<'_>, level: MemoryPair) -> bool {
        let near = look.budget.is_near();
        self.is_beat_at(look.now, near, level.private + level.shared)
    }

    /// The same for a process with this many bytes, at `now`.
    pub(super) fn is_beat_at(&self, now: Instant, near: bool, bytes: u64) -> bool {
        let beat = if near { BEAT_NEAR } else { BEAT };
        bytes >= BEAT_SIZE && now.duration_since(self.read_at) >= beat
    }

    /// Returns why it cannot be read, once.
    pub(super) fn refusal(&mut self) -> Option<(BootTime, String)> {
        self.unsaid.take()
    }

    /// Finds the interpreter while the process is quiet. During the first growth it would take too
    /// long. From then on the kernel takes stacks, so this comes before all reading from outside.
    pub(super) fn prepare(&mut self, look: &mut Look<'_>, bytes: u64) {
        let is_due = bytes >= PREPARED && !self.is_open() && self.may_try(look.now);
        if is_due
            && look.budget.may(Work::Lines, bytes)
            && let Err(error) = self.open(look)
        {
            self.failed(look, error.to_string());
        }
    }

    /// Reads the stack of thread `tid`, or of the one that runs.
    pub(super) fn read(&mut self, look: &mut Look<'_>, tid: Option<Pid>) -> Option<Stack> {
        if !self.may_try(look.now) {
            return None;
        }
        if !self.is_open() && self.open(look).is_err() {
            // The process may be starting. If it is not, `prepare` will report the error when it
            // rests.
            return None;
        }
        let python = self.python.as_ref()?;
        let began = clock::cpu_time();
        let tid = tid.map(|tid| processes::thread_in_namespace(self.process.pid, tid));
        let reader = &mut *look.reader;
        let read = || reader.stack(python, tid, is_of_the_job);
        let stack = look.budget.pays(Work::Outside, read);
        self.read_at = look.now;
        let cost = clock::cpu_time().saturating_sub(began);
        match stack {
            Ok(_) if cost > SLOW => {
                let reason = format!("reading its stack took {} ms", cost.as_millis());
                self.failed(look, reason);
            }
            Ok(stack) => {
                self.failures = 0;
                return stack;
            }
            Err(StackError::Torn(_)) if self.failures < TORN => self.failures += 1,
            Err(error) => self.failed(look, error.to_string()),
        }
        None
    }

    /// Names the stack that the kernel took while its thread asked for memory.
    pub(super) fn named(
        &mut self,
        look: &mut Look<'_>,
        tid: Pid,
        stack: &[records::PythonFrame],
    ) -> Option<Stack> {
        let python = self.python.as_mut().filter(|_| !stack.is_empty())?;
        let known = self.last_tid.filter(|(host, _)| *host == tid);
        let own = known.map_or_else(
            || processes::thread_in_namespace(self.process.pid, tid),
            |(_, own)| own,
        );
        self.last_tid = Some((tid, own));
        look.budget.pays(Work::Lines, || python.named(own, stack))
    }

    /// Names the native frames that Python had called, if that is worth the time: `bytes` grew
    /// there.
    pub(super) fn called(
        &mut self,
        look: &mut Look<'_>,
        native: &Native,
        bytes: u64,
    ) -> Option<Vec<NativeFrame>> {
        let python = self.python.as_mut()?;
        if !look.budget.may(Work::Native, bytes) {
            return None;
        }
        let (reader, now) = (&mut *look.reader, look.now);
        let called = || reader.native(python, native, now);
        Some(look.budget.pays(Work::Native, called))
    }

    fn open(&mut self, look: &mut Look<'_>) -> Result<(), StackError> {
        let (reader, pid) = (&mut *look.reader, self.process.pid);
        let python = look.budget.pays(Work::Lines, || reader.open(pid))?;
        if let (Some(pythons), Some(located)) = (&mut look.pythons, python.located(self.process)) {
            pythons.add(self.process.pid, &located);
        }
        self.python = Some(python);
        Ok(())
    }

    fn may_try(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|until| now >= until)
    }

    /// Leaves the process alone for a while, and notes the reason once.
    fn failed(&mut self, look: &Look<'_>, reason: String) {
        let back_off = BACK_OFF * (1 << self.failures.min(6));
        self.failures += 1;
        self.not_before = Some(look.now + back_off.min(LONGEST_BACK_OFF));
        self.python = None;
        if self.refused.as_ref() != Some(&reason) {
            self.unsaid = Some((look.time, reason.clone()));
            self.refused = Some(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{budget::Budget, unnamed::UnnamedStacks},
        *,
    };
    use crate::{event::PythonFrame, read::Reader};

    #[test]
    fn failed_reads_back_off_and_report_once() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let began = Instant::now();
        let mut reading = Reading::new(ProcessKey::new(child.id(), 1), began);
        let (mut tries, mut said) = (Vec::new(), Vec::new());
        for second in 0..200 {
            let mut look = Look {
                reader: &mut Reader::default(),
                pythons: None,
                budget: &mut Budget::new(100),
                unnamed: &mut UnnamedStacks::default(),
                time: BootTime(second),
                now: began + Duration::from_secs(second),
                began: clock::cpu_time(),
            };
            let before = reading.failures;
            reading.prepare(&mut look, PREPARED);
            if reading.failures > before {
                tries.push(second);
            }
            said.extend(reading.refusal());
        }
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert_eq!(tries, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        assert_eq!(said.len(), 1, "{said:?}");
    }

    #[test]
    fn line_is_the_same_whatever_it_calls() {
        let frame = |file: &str, line| PythonFrame {
            file: file.into(),
            function: "f".into(),
            line,
        };
        let library = "/v/lib/python3.11/site-packages/numpy/_core/numeric.py";
        let stack = |frames: Vec<PythonFrame>| Stack {
            tid: None,
            running: true,
            frames,
            native: Vec::new(),
        };
        let inside = stack(vec![frame(library, 330), frame("/u/a.py", 7)]);
        assert!(same_line(&inside, &stack(vec![frame("/u/a.py", 7)])));
        assert!(!same_line(&inside, &stack(vec![frame("/u/a.py", 8)])));
        assert!(same_function(&inside, &stack(vec![frame("/u/a.py", 8)])));
        assert!(!same_function(&inside, &stack(vec![frame("/u/b.py", 7)])));
        assert!(!same_line(
            &inside,
            &stack(vec![frame(library, 330), frame("/u/a.py", 8)])
        ));
    }
}
