//! Reads with a time-out what another process can make hang.
//!
//! A command line is in memory whose lock its process can hold, and a container's files may be on a
//! file system that never answers. No signal ends such a read. So it runs on a helper thread, and
//! the caller waits only for a moment.
//!
//! A read that hangs occupies its thread. At most [`MOST_STUCK`] reads hang at a time, and at most
//! [`MOST_OF_ONE`] of one user. So no user can keep the recorder from reading other users'
//! processes. While a read of a process hangs, further reads of that process are skipped and
//! counted.
//!
//! Until [`begin`] there are no helpers, and reads run on the caller's thread: `record` starts
//! threads only after it has dropped its rights.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::thread::gettid;

use crate::{bounded, ids::Pid, users};

/// How many reads may hang at a time.
const MOST_STUCK: usize = 4;
/// How many of them may be reads of one user's processes.
const MOST_OF_ONE: usize = 2;
/// How long the caller waits. A read of memory or of the page cache takes some µs.
const PATIENCE: Duration = Duration::from_millis(300);
/// How many times longer the caller waits for a read that does not hang but waits for a processor,
/// as on a busy machine.
const WITH_THE_BUSY: u32 = 5;
/// In each window, late reads may cost this much time. After that, the caller waits no longer than
/// [`HASTE`] for any read.
const WINDOW: Duration = Duration::from_secs(10);
const LOST_AT_MOST: Duration = Duration::from_secs(2);
const HASTE: Duration = Duration::from_millis(20);
/// The stack of a helper. It resolves file names and parses a time zone.
const STACK: usize = 256 << 10;

type Job = Box<dyn FnOnce() + Send>;

static BEGUN: AtomicBool = AtomicBool::new(false);
static SKIPPED_READS: AtomicU64 = AtomicU64::new(0);
static HELPERS: Mutex<Helpers> = Mutex::new(Helpers::NONE);

thread_local! {
    /// Whether this thread is a helper, which may hang.
    static IS_HELPER: Cell<bool> = const { Cell::new(false) };
}

/// A thread that reads, and may hang.
struct Helper {
    jobs: Sender<Job>,
    /// Its thread id; 0 until it runs.
    thread: Arc<AtomicI32>,
}

impl Helper {
    fn start() -> Option<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let thread = Arc::new(AtomicI32::new(0));
        let own = Arc::clone(&thread);
        let serve = move || {
            IS_HELPER.set(true);
            own.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            for job in jobs {
                job();
            }
        };
        let builder = thread::Builder::new()
            .name("helper".into())
            .stack_size(STACK);
        builder.spawn(serve).ok()?;
        Some(Self {
            jobs: sender,
            thread,
        })
    }

    /// Whether the thread needs only a processor to go on: it waits for no lock and no file system.
    fn is_runnable(&self) -> bool {
        let thread = self.thread.load(Ordering::Relaxed);
        let stat = bounded::text(format!("/proc/self/task/{thread}/stat"), bounded::SMALL);
        // PID (NAME) STATE …
        thread == 0 || stat.is_ok_and(|stat| stat.contains(") R "))
    }

    /// Waits for the answer.
    fn answer<T>(&self, found: &Receiver<T>, patience: Duration) -> Result<T, RecvTimeoutError> {
        let asked = Instant::now();
        loop {
            let answer = found.recv_timeout(patience);
            let late = matches!(answer, Err(RecvTimeoutError::Timeout));
            if !late || asked.elapsed() >= patience * WITH_THE_BUSY || !self.is_runnable() {
                return answer;
            }
        }
    }
}

/// The helpers that wait for work, and those whose reads hang.
struct Helpers {
    idle: Vec<Helper>,
    stuck: Vec<Stuck>,
    asked: u64,
    window: Option<Instant>,
    lost: Duration,
}

/// A read that hangs.
struct Stuck {
    number: u64,
    pid: Pid,
    user: Option<u32>,
    helper: Helper,
}

impl Helpers {
    const NONE: Self = Self {
        idle: Vec::new(),
        stuck: Vec::new(),
        asked: 0,
        window: None,
        lost: Duration::ZERO,
    };

    fn may_run(&self, pid: Pid) -> bool {
        if self.stuck.is_empty() {
            return true;
        }
        let hangs = self.stuck.iter().any(|stuck| stuck.pid == pid);
        if hangs || self.stuck.len() >= MOST_STUCK {
            return false;
        }
        let user = users::real_user(pid);
        let of_user = self.stuck.iter().filter(|stuck| stuck.user == user);
        of_user.count() < MOST_OF_ONE
    }

    fn patience(&mut self) -> Duration {
        let now = Instant::now();
        let is_over = |began: &Instant| now.duration_since(*began) > WINDOW;
        if self.window.as_ref().is_none_or(is_over) {
            self.window = Some(now);
            self.lost = Duration::ZERO;
        }
        if self.lost < LOST_AT_MOST {
            PATIENCE
        } else {
            HASTE
        }
    }

    /// Makes a helper idle again after its read came back.
    fn come_back(&mut self, number: u64) {
        let mut back = self.stuck.extract_if(.., |stuck| stuck.number == number);
        self.idle.extend(back.next().map(|stuck| stuck.helper));
    }
}

/// Starts to run reads on helpers. These have the rights of the thread that first asks.
pub fn begin() {
    BEGUN.store(true, Ordering::Relaxed);
}

/// Returns how many reads were skipped or came too late.
pub fn skipped_reads() -> u64 {
    SKIPPED_READS.load(Ordering::Relaxed)
}

/// Returns the processes with a read that hangs now.
pub fn hanging() -> Vec<Pid> {
    locked(&HELPERS)
        .stuck
        .iter()
        .map(|stuck| stuck.pid)
        .collect()
}

/// Runs `read` about process `pid`. Returns `None` if it takes too long, or if an earlier read of
/// the process still hangs.
pub fn run<T: Send + 'static>(pid: Pid, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if !BEGUN.load(Ordering::Relaxed) || IS_HELPER.get() {
        return Some(read());
    }
    let found = on_helper(&HELPERS, pid, read);
    if found.is_none() {
        SKIPPED_READS.fetch_add(1, Ordering::Relaxed);
    }
    found
}

/// Does the same for a read that itself may find nothing: both cases are `None`.
pub fn run_optional<T: Send + 'static>(
    pid: Pid,
    read: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    run(pid, read).flatten()
}

fn on_helper<T: Send + 'static>(
    all: &'static Mutex<Helpers>,
    pid: Pid,
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (number, helper, patience) = {
        let mut helpers = locked(all);
        if !helpers.may_run(pid) {
            return None;
        }
        helpers.asked += 1;
        let helper = helpers.idle.pop().or_else(Helper::start)?;
        (helpers.asked, helper, helpers.patience())
    };
    let (sender, found) = mpsc::channel();
    let job = move || {
        let read = read();
        // The answer is sent and the helper returned under one lock, so both threads see them
        // together.
        let mut helpers = locked(all);
        let _unheard = sender.send(read);
        helpers.come_back(number);
    };
    let asked = Instant::now();
    helper.jobs.send(Box::new(job)).ok()?;
    let answer = helper.answer(&found, patience);
    let mut helpers = locked(all);
    let took = asked.elapsed();
    if took >= patience {
        helpers.lost += took;
    }
    match answer.or_else(|error| found.try_recv().map_err(|_| error)) {
        Ok(answer) => {
            helpers.idle.push(helper);
            Some(answer)
        }
        Err(RecvTimeoutError::Timeout) => {
            let user = users::real_user(pid);
            helpers.stuck.push(Stuck {
                number,
                pid,
                user,
                helper,
            });
            None
        }
        // The read panicked.
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

fn locked(all: &'static Mutex<Helpers>) -> MutexGuard<'static, Helpers> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its helper thread is used again once the read comes back.
    #[test]
    fn hanging_read_blocks_only_its_own_process() {
        // Separate from the helpers of the other tests.
        static OWN: Mutex<Helpers> = Mutex::new(Helpers::NONE);
        let seven = |pid| on_helper(&OWN, pid, || 7);
        let hangs = |pid| {
            let (release, wait) = mpsc::channel::<()>();
            let hung = on_helper(&OWN, pid, move || wait.recv().is_ok());
            assert_eq!(hung, None);
            release
        };
        // These pids have the same user, namely none: no process has them.
        let [first, second, third] = [5_000_001, 5_000_002, 5_000_003].map(Pid);
        assert_eq!(seven(first), Some(7));
        let go_on = hangs(first);
        assert_eq!(seven(first), None, "left out at once");
        assert_eq!(seven(second), Some(7), "another process");
        let also = hangs(second);
        assert_eq!(seven(third), None, "no third thread for one user");
        assert_eq!(locked(&OWN).stuck.len(), MOST_OF_ONE);
        drop((go_on, also));
        let end = Instant::now() + Duration::from_secs(60);
        while seven(first).is_none() || seven(second).is_none() {
            assert!(Instant::now() < end, "a helper does not come back");
            thread::yield_now();
        }
        assert!(locked(&OWN).stuck.is_empty());
    }

    /// A read that waits for a processor does not count as hanging.
    #[test]
    fn busy_read_gets_more_time() {
        static OWN: Mutex<Helpers> = Mutex::new(Helpers::NONE);
        // It is busy for long, like a read that others keep from the processor.
        let busy = on_helper(&OWN, Pid(5_000_004), || {
            let end = Instant::now() + PATIENCE + PATIENCE / 2;
            while Instant::now() < end {}
        });
        assert!(busy.is_some());
    }

    #[test]
    fn many_late_reads_shorten_the_wait() {
        let mut helpers = Helpers::NONE;
        assert_eq!(helpers.patience(), PATIENCE);
        helpers.lost = LOST_AT_MOST;
        assert_eq!(helpers.patience(), HASTE);
        helpers.window = Instant::now().checked_sub(2 * WINDOW);
        assert_eq!(helpers.patience(), PATIENCE);
    }
}
