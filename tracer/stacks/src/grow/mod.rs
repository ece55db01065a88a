//! Runs the thread that watches Python processes grow and reads what they do then.
//!
//! The kernel reports when a process maps something large, mostly with the stack of the thread at
//! that moment. Where the kernel could not take the stack (an unknown version of Python, a
//! processor other than x86-64), it is read at once. The kernel also reports growth, with its
//! stack.
//!
//! Besides, the thread reads cheap counters: of every process twice a second, ten times a second
//! after it grew, and every few milliseconds while it grows. It shares nothing with the threads
//! that empty the ring of deaths and read Ray's logs. Its cost is bounded: see the constants.

mod budget;
mod claims;
mod ledger;
mod level;
mod mappings;
mod reading;
mod unnamed;
mod watched;

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    time::{Duration, Instant},
};

use raytrace_ebpf::records;
use raytrace_proc::{
    clock,
    growth_records::{NewGrowth, NewMapping},
    resident_table::{ResidentTable, Slot},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    event::Observation,
    ids::{BootTime, Pid, ProcessKey},
    read::Reader,
};
use budget::Budget;
use unnamed::UnnamedStacks;
use watched::Watched;

/// How many requests may wait. Later ones are dropped: the next list comes within a second, and a
/// look finds what grew.
const QUEUE: usize = 256;
/// The longest wait until the next look.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// While nothing grows, looks that are due within this time are made together: each wake-up costs
/// as much as some looks.
const TOGETHER: Duration = Duration::from_millis(50);
/// A process that is not Python is looked at again after this time, then after twice that, up to
/// the maximum. If the kernel reports an exec, it is looked at once.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// How long the end of a recording waits for the last rows.
const LAST_ROWS: Duration = Duration::from_secs(2);
/// The thread hangs if it has taken nothing for this many seconds.
const HANGS: u32 = 30;
/// How often the budget is counted. Near a limit, rows are written as often.
const SECOND: Duration = Duration::from_secs(1);
/// Far from any limit, rows are written once in this many seconds. Growth of one line in that time
/// is one row.
const FLUSH: u32 = 5;

/// A message from the collector.
enum Request {
    /// All living processes that may be Python, and whether a limit is near.
    Known(Vec<(ProcessKey, Option<Slot>)>, bool),
    /// The process runs another program from now on.
    Replaced(ProcessKey),
    /// Something large was mapped.
    Mapped(NewMapping),
    /// Memory became resident.
    Grew(NewGrowth),
}

/// The context of one look at a process.
struct Look<'a> {
    reader: &'a mut Reader,
    /// The kernel's side, where it takes stacks.
    pythons: Option<&'a mut (dyn Interpreters + 'static)>,
    budget: &'a mut Budget,
    unnamed: &'a mut UnnamedStacks,
    time: BootTime,
    now: Instant,
    /// The thread's processor time when the look began.
    began: Duration,
}

/// Tells the kernel where each interpreter is. The kernel needs this to take stacks.
pub trait Interpreters: Send {
    /// Takes the stacks of this process from now on.
    fn add(&mut self, pid: Pid, python: &records::Python);
    /// Stops taking them.
    fn remove(&mut self, pid: Pid);
}

/// Takes a row. Returns whether it was taken.
type Rows = Box<dyn FnMut(BootTime, Observation) -> bool + Send>;

/// What the kernel provides to the thread.
pub struct Kernel {
    /// Where the kernel is told of interpreters, if it takes stacks.
    pub pythons: Option<Box<dyn Interpreters>>,
    /// The memory of all processes, as the kernel has seen it.
    pub levels: Option<ResidentTable>,
}

/// The process has ended.
struct Gone;

/// The running thread. It ends when this is dropped, unless it hangs on a process that leads it in
/// circles.
pub struct Stacks {
    sender: Option<SyncSender<Request>>,
    ended: Receiver<()>,
    dropped_requests: u64,
    /// For how many seconds in a row the thread has taken nothing.
    silent: u32,
}

impl Stacks {
    /// Starts the thread. `rows` takes each row that is to be written, and returns whether it was
    /// taken. It may spend `percent` of its usual time.
    pub fn start(
        rows: impl FnMut(BootTime, Observation) -> bool + Send + 'static,
        kernel: Kernel,
        percent: u32,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let (ending, ended) = sync_channel(1);
        std::thread::Builder::new()
            .name("stacks".into())
            .stack_size(1 << 20)
            .spawn(move || {
                Watch::new(Box::new(rows), kernel, percent).run(&receiver);
                // If this fails, nobody waits for the end of the thread any more.
                let _late = ending.try_send(());
            })?;
        Ok(Self {
            sender: Some(sender),
            ended,
            dropped_requests: 0,
            silent: 0,
        })
    }

    /// Passes on which processes are alive; called once a second. If no more stacks are read,
    /// returns the reason once.
    pub fn update_processes(
        &mut self,
        processes: Vec<(ProcessKey, Option<Slot>)>,
        near: bool,
    ) -> Option<&'static str> {
        let sent = self.send(Request::Known(processes, near));
        let is_full = matches!(sent, Some(TrySendError::Full(_)));
        self.silent = if is_full { self.silent + 1 } else { 0 };
        match sent? {
            TrySendError::Disconnected(_) => {
                self.sender = None;
                Some("the thread that reads them has ended")
            }
            TrySendError::Full(_) => {
                (self.silent == HANGS).then_some("the thread that reads them hangs")
            }
        }
    }

    /// Reports that a process runs another program now, in a new address space.
    pub fn replaced(&mut self, process: ProcessKey) {
        self.send(Request::Replaced(process));
    }

    /// Reports a large mapping that was made just now.
    pub fn mapped(&mut self, new: NewMapping) {
        self.send(Request::Mapped(new));
    }

    /// Reports that a process grew by much just now.
    pub fn grew(&mut self, new: NewGrowth) {
        self.send(Request::Grew(new));
    }

    /// Returns how many requests were dropped, because the queue was full or the thread had ended.
    pub fn dropped_requests(&self) -> u64 {
        self.dropped_requests
    }

    fn send(&mut self, request: Request) -> Option<TrySendError<Request>> {
        let refused = self.sender.as_ref()?.try_send(request).err();
        self.dropped_requests += u64::from(refused.is_some());
        refused
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        drop(self.sender.take());
        let _hangs = self.ended.recv_timeout(LAST_ROWS);
    }
}

/// A process that is not Python.
struct Other {
    /// When it is looked at again, and how long that is after the last look.
    next: Instant,
    wait: Duration,
}

/// The state of the thread.
struct Watch {
    rows: Rows,
    reader: Reader,
    pythons: Option<Box<dyn Interpreters>>,
    levels: Option<ResidentTable>,
    watched: FxHashMap<Pid, Watched>,
    /// Processes that are not Python. A shell may become one.
    others: FxHashMap<ProcessKey, Other>,
    budget: Budget,
    /// Native stacks of new mappings.
    unnamed: UnnamedStacks,
    second: Instant,
    /// Seconds since rows were written.
    unwritten: u32,
}

impl Watch {
    fn new(rows: Rows, kernel: Kernel, percent: u32) -> Self {
        Self {
            rows,
            reader: Reader::default(),
            pythons: kernel.pythons,
            levels: kernel.levels,
            watched: FxHashMap::default(),
            others: FxHashMap::default(),
            budget: Budget::new(percent),
            unnamed: UnnamedStacks::default(),
            second: Instant::now(),
            unwritten: 0,
        }
    }

    fn run(mut self, requests: &Receiver<Request>) {
        let mut wait = LONGEST_WAIT;
        loop {
            match requests.recv_timeout(wait) {
                Ok(Request::Known(processes, near)) => self.update_processes(&processes, near),
                Ok(Request::Replaced(process)) => self.replaced(process),
                Ok(Request::Mapped(new)) => self.mapped(new),
                Ok(Request::Grew(new)) => self.stepped(&new),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            wait = self.look(Instant::now());
        }
    }

    /// Starts to watch new processes, and stops for those that are gone.
    fn update_processes(&mut self, processes: &[(ProcessKey, Option<Slot>)], near: bool) {
        self.budget.set_near(near);
        let alive = processes.iter().map(|(key, _)| key.truncated());
        let alive: FxHashSet<ProcessKey> = alive.collect();
        let lives = |own: ProcessKey| alive.contains(&own.truncated());
        self.others.retain(|other, _| lives(*other));
        let gone: Vec<Pid> = self
            .watched
            .iter()
            .filter(|(_, own)| !lives(own.process()))
            .map(|(pid, _)| *pid)
            .collect();
        for pid in gone {
            self.stop_watching(pid);
        }
        for (process, slot) in processes {
            self.watch_new(*process);
            if let Some(own) = self.watched.get_mut(&process.pid) {
                own.has_slot(*slot);
            }
        }
    }

    fn watch_new(&mut self, process: ProcessKey) {
        let (key, now) = (process.truncated(), Instant::now());
        let known = self.others.get(&key);
        if self.watched.contains_key(&process.pid) || known.is_some_and(|other| now < other.next) {
            return;
        }
        if let Some(new) = Watched::new(process, now) {
            self.others.remove(&key);
            self.watched.insert(process.pid, new);
            return;
        }
        let wait = known.map_or(AGAIN, |other| (other.wait * 2).min(AGAIN_AT_MOST));
        let next = now + wait;
        self.others.insert(key, Other { next, wait });
    }

    fn stop_watching(&mut self, pid: Pid) {
        if let Some(mut gone) = self.watched.remove(&pid) {
            if let Some(pythons) = &mut self.pythons {
                pythons.remove(pid);
            }
            gone.ended(clock::boot(), &mut self.rows);
        }
    }

    /// Watches a process anew after an exec: its open files belong to the old address space.
    fn replaced(&mut self, process: ProcessKey) {
        self.others.remove(&process.truncated());
        let is_it = |known: &Watched| known.process().same(process);
        let Some(before) = self.watched.get_mut(&process.pid).filter(|own| is_it(own)) else {
            return;
        };
        before.lost_its_memory(clock::boot(), Instant::now());
        let numbers = before.mappings_so_far();
        self.stop_watching(process.pid);
        self.watch_new(process);
        if let Some(new) = self.watched.get_mut(&process.pid) {
            new.number_mappings_from(numbers);
        }
    }

    /// Writes the last rows.
    fn end(mut self) {
        for watched in self.watched.values_mut() {
            watched.ended(clock::boot(), &mut self.rows);
        }
    }

    /// The kernel reported this process, so an earlier one with its pid is gone.
    fn is_here(&mut self, process: ProcessKey) {
        let known = self.watched.get(&process.pid).map(Watched::process);
        if known.is_some_and(|known| !known.same(process)) {
            self.stop_watching(process.pid);
        }
        self.others.remove(&process.truncated());
        self.watch_new(process);
    }

    fn mapped(&mut self, new: NewMapping) {
        let process = new.mapped.process;
        self.is_here(process);
        self.with(process.pid, |watched, look| watched.mapped(look, new));
    }

    fn stepped(&mut self, new: &NewGrowth) {
        self.is_here(new.process);
        self.with(new.process.pid, |watched, look| watched.stepped(look, new));
    }

    /// Looks at all processes that are due. Returns the time until the next one is.
    fn look(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.second) >= SECOND {
            self.budget.count(now.duration_since(self.second));
            self.second = now;
            self.unwritten += 1;
            self.write();
        }
        let due = self.watched.iter().filter(|(_, own)| {
            let early = if own.is_hot(now) {
                Duration::ZERO
            } else {
                TOGETHER
            };
            own.due() <= now + early
        });
        let due: Vec<Pid> = due.map(|(pid, _)| *pid).collect();
        let (levels, near) = (self.levels, self.budget.is_near());
        for pid in due {
            let own = self.watched.get_mut(&pid);
            if own.is_some_and(|own| !own.is_still(levels, now, near)) {
                self.with(pid, Watched::look);
            }
        }
        let next = self.watched.values().map(Watched::due).min();
        let next = next.unwrap_or(now + LONGEST_WAIT).min(now + LONGEST_WAIT);
        next.saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    }

    /// Runs `what` on a process.
    fn with(
        &mut self,
        pid: Pid,
        what: impl FnOnce(&mut Watched, &mut Look<'_>) -> Result<(), Gone>,
    ) {
        let Some(watched) = self.watched.get_mut(&pid) else {
            return;
        };
        let mut look = Look {
            reader: &mut self.reader,
            pythons: self.pythons.as_deref_mut(),
            budget: &mut self.budget,
            unnamed: &mut self.unnamed,
            time: clock::boot(),
            now: Instant::now(),
            began: clock::cpu_time(),
        };
        if what(watched, &mut look).is_err() {
            self.stop_watching(pid);
        }
    }

    /// Writes the rows that are due.
    fn write(&mut self) {
        if self.budget.is_near() || self.unwritten >= FLUSH {
            return self.flush();
        }
        let full = self.watched.values_mut().filter(|own| own.is_full());
        for watched in full {
            watched.flush(&mut self.rows);
        }
    }

    fn flush(&mut self) {
        self.unwritten = 0;
        for watched in self.watched.values_mut() {
            watched.flush(&mut self.rows);
        }
    }
}

/// Makes a stack whose running frame is at this line.
#[cfg(test)]
fn at_line(line: u32) -> crate::read::Stack {
    use crate::{event::PythonFrame, read::Stack};
    let frame = PythonFrame {
        file: "/u/a.py".into(),
        function: "f".into(),
        line,
    };
    Stack {
        tid: None,
        running: true,
        frames: vec![frame],
        native: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(sender: SyncSender<Request>) -> Stacks {
        let (_, ended) = sync_channel(1);
        Stacks {
            sender: Some(sender),
            ended,
            dropped_requests: 0,
            silent: 0,
        }
    }

    /// Requests that are not taken are counted.
    #[test]
    fn hanging_thread_is_reported_once() {
        let (sender, requests) = sync_channel(1);
        let mut stacks = stacks(sender);
        let said: Vec<&str> = (0..HANGS * 3)
            .filter_map(|_| stacks.update_processes(Vec::new(), false))
            .collect();
        assert_eq!(said, ["the thread that reads them hangs"]);
        assert_eq!(stacks.dropped_requests(), u64::from(HANGS * 3 - 1));
        drop(requests);
    }

    #[test]
    fn ended_thread_is_reported_once() {
        let (sender, requests) = sync_channel(1);
        drop(requests);
        let mut stacks = stacks(sender);
        let said: Vec<&str> = (0..9)
            .filter_map(|_| stacks.update_processes(Vec::new(), false))
            .collect();
        assert_eq!(said, ["the thread that reads them has ended"]);
    }
}
