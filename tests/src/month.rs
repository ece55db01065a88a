//! Writes thirty days of a big node in an hour, on a clock of its own.
//!
//! Events at real rates go through the recording's own writer, its retention and the live judge.
//! First there is a death each ten minutes, then a day of a job that crashes every five seconds,
//! then none. A short run has the same checks at each hour.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use raytrace::{
    event::{Event, Ledger, NodeMemory, Observation, ProcessMemory, Role, Source},
    ids::{BootTime, Bytes, EventId, ProcessKey, WallTime},
    judge::Judge,
    recording::{Retention, Sender, Writer},
};

use crate::day;

const SECOND: u64 = 1_000_000_000;
const HOUR_S: u64 = 3600;
/// 2026-11-20T08:00:00Z, in seconds.
const BEGAN_WALL: i64 = 1_795_161_600;
const BEGAN_S: u64 = 10_000;
const MIB: u64 = 1 << 20;
/// Seconds after which a verdict has settled, and nothing about the dead process is asked any more.
const SETTLED_S: u64 = 150;
/// The most events that wait for the writer: half of its queue.
const WAITING: usize = 8_000;
/// Hooks that have a row in the ledger each minute.
const HOOKS: u64 = 9;

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Hours in all.
    pub hours: u64,
    /// Workers at a time.
    pub workers: u64,
    /// Seconds between two samples of a worker that moves. One in ten rests.
    pub every_s: u64,
    /// The hours in which a job crashes every five seconds. Before them there is a death each ten
    /// minutes, after them none.
    pub crashes: (u64, u64),
    /// How much is kept.
    pub retention: Retention,
}

impl Plan {
    /// Returns the plan of the month.
    pub fn month() -> Self {
        Self::days(200, 30)
    }

    /// Returns a plan of some days. A job crashes for a day after a third of them.
    pub fn days(workers: u64, days: u64) -> Self {
        let third = days / 3 * 24;
        Self {
            hours: days * 24,
            workers,
            every_s: 10,
            crashes: (third, third + 24),
            retention: Retention::default(),
        }
    }

    /// Returns a plan that takes seconds, with fewer workers and a file that soon reaches its
    /// largest size.
    pub fn short() -> Self {
        Self {
            hours: 30,
            workers: 20,
            every_s: 20,
            crashes: (10, 12),
            retention: Retention {
                keep: Duration::from_secs(2 * HOUR_S),
                max_bytes: 8 << 20,
            },
        }
    }
}

/// The figures of an hour.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hour {
    /// Its number, from 0.
    pub hour: u64,
    /// Bytes of the file, with its write-ahead log.
    pub bytes: u64,
    /// Resident memory of this process, which includes the judge.
    pub resident: u64,
    /// The most events that waited for the writer.
    pub waiting: usize,
    /// Events so far.
    pub events: u64,
    /// Deaths so far.
    pub deaths: u64,
}

/// Writes the recording, and calls `each` at each hour.
pub fn write(file: &Path, plan: Plan, mut each: impl FnMut(Hour)) -> Result<Vec<Hour>> {
    let clock = Arc::new(AtomicU64::new(BEGAN_S * SECOND));
    let for_writer = Arc::clone(&clock);
    let prepared = Writer::prepare(file, None, plan.retention)?
        .by_clock(move || BootTime(for_writer.load(Ordering::Relaxed)));
    let mut node = Node {
        plan,
        sender: prepared.sender(),
        judge: Judge::default(),
        next: 0,
        dead: Vec::new(),
        deaths: 0,
        pids: (0..plan.workers).map(|slot| pid(slot, 0)).collect(),
    };
    let writer = prepared.start()?;
    let mut hours = Vec::new();
    node.begin();
    let mut seen = Hour::default();
    for second in 0..plan.hours * HOUR_S {
        let now = (BEGAN_S + second) * SECOND;
        clock.store(now, Ordering::Relaxed);
        node.second(second, now);
        if second.is_multiple_of(60) {
            seen.waiting =
                seen.waiting
                    .max(wait_for_writer(&writer, now, second.is_multiple_of(300))?);
        }
        if (second + 1).is_multiple_of(HOUR_S) {
            seen.hour = second / HOUR_S;
            seen.bytes = size(file);
            seen.resident = resident()?;
            (seen.events, seen.deaths) = (node.next, node.deaths);
            each(seen);
            hours.push(std::mem::take(&mut seen));
        }
    }
    node.emit(
        plan.hours * HOUR_S * SECOND + BEGAN_S * SECOND,
        Source::Recorder,
        Observation::RecordingEnded,
    );
    let dropped = (node.sender.dropped(), node.sender.dropped_log_records());
    let summary = writer.finish();
    ensure!(dropped == ((0, 0), 0), "the writer dropped {dropped:?}");
    ensure!(
        summary.failure.is_none(),
        "the end was not written: {:?}",
        summary.failure
    );
    Ok(hours)
}

/// Waits until the writer has room, and returns the most events that waited.
///
/// Each five minutes it also waits until old rows have been removed, as they would be in real time.
fn wait_for_writer(writer: &Writer, now: u64, downsampled: bool) -> Result<usize> {
    let began = Instant::now();
    let (most, _) = writer.waiting();
    loop {
        let (waiting, settled) = writer.waiting();
        if waiting < WAITING && (!downsampled || settled.0 >= now) {
            return Ok(most);
        }
        ensure!(
            began.elapsed() < Duration::from_secs(300),
            "the writer stands still with {waiting} events"
        );
        writer.flush_now();
        thread::sleep(Duration::from_millis(1));
    }
}

fn size(file: &Path) -> u64 {
    let of = |end: &str| {
        let mut path = file.as_os_str().to_owned();
        path.push(end);
        std::fs::metadata(path).map_or(0, |data| data.len())
    };
    of("") + of("-wal")
}

fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * 4096)
}

/// The node that is recorded.
struct Node {
    plan: Plan,
    sender: Sender,
    judge: Judge,
    next: u64,
    /// Processes that the judge is to forget, and when each died.
    dead: Vec<(u64, ProcessKey)>,
    deaths: u64,
    /// The process in each slot.
    pids: Vec<ProcessKey>,
}

fn pid(slot: u64, start: u64) -> ProcessKey {
    let slot = u32::try_from(slot).unwrap_or(0);
    ProcessKey::new(1000 + slot, BEGAN_S * SECOND + start)
}

fn title(slot: u64) -> String {
    format!("ray::Class{}.step", slot % 14)
}

impl Node {
    fn emit(&mut self, time: u64, source: Source, what: Observation) {
        self.next += 1;
        let event = Event {
            id: EventId(self.next),
            time: BootTime(time),
            source,
            what,
        };
        self.judge.observe(&event);
        self.sender.send(event);
    }

    fn begin(&mut self) {
        let now = BEGAN_S * SECOND;
        self.emit(now, Source::Recorder, day::started());
        self.emit(now, Source::Proc, day::cluster());
        let raylet = ProcessKey::new(day::RAYLET, 1);
        let raylet = day::process(raylet, "raylet", Role::Raylet);
        self.emit(now, Source::Proc, raylet);
        for slot in 0..self.plan.workers {
            self.start_worker(slot, now);
        }
    }

    fn second(&mut self, second: u64, now: u64) {
        let hour = second / HOUR_S;
        let (from, to) = self.plan.crashes;
        let every = match hour {
            hour if hour < from => Some(600),
            hour if hour < to => Some(5),
            _ => None,
        };
        if every.is_some_and(|every| second.is_multiple_of(every)) {
            self.kill_worker(second / 5 % self.plan.workers, now);
        }
        self.samples(second, now);
        if second.is_multiple_of(60) {
            self.minute(second, now);
        }
        let plan = SETTLED_S * SECOND;
        let gone: Vec<ProcessKey> = self
            .dead
            .extract_if(.., |(since, _)| *since + plan < now)
            .map(|(_, process)| process)
            .collect();
        for process in gone {
            self.judge.forget(process);
        }
        self.judge.drop_old_log_records();
    }

    /// Samples workers and the machine. A worker moves each few seconds; one in ten rests.
    fn samples(&mut self, second: u64, now: u64) {
        let every = self.plan.every_s;
        for slot in 0..self.plan.workers {
            let rests = slot.is_multiple_of(10);
            let due = if rests { 600 } else { every };
            if (second + slot).is_multiple_of(due) {
                let anon = 500
                    + if rests {
                        0
                    } else {
                        (second / every * 7 + slot) % 300
                    };
                let memory = day::split(anon * MIB);
                let process = self.pids[usize::try_from(slot).unwrap_or(0)];
                let sample = ProcessMemory { process, memory };
                self.emit(now, Source::Proc, Observation::Memory(sample));
            }
        }
        if second.is_multiple_of(every) {
            let node = NodeMemory {
                total: Bytes(1 << 41),
                available: Bytes((1 << 41) - (300 + second % 700) * 1024 * MIB),
                ..NodeMemory::default()
            };
            self.emit(now, Source::Proc, Observation::Node(node));
        }
    }

    /// Writes what the recorder writes about itself each minute.
    fn minute(&mut self, second: u64, now: u64) {
        let wall = WallTime((BEGAN_WALL + second.cast_signed()) * SECOND.cast_signed());
        self.emit(
            now,
            Source::Recorder,
            Observation::Clock { wall, error: None },
        );
        for hook in 0..HOOKS {
            let row = Ledger {
                hook: format!("hook {hook}"),
                seen: second,
                filtered: second,
                ..Ledger::default()
            };
            self.emit(now, Source::Recorder, Observation::Ledger(row));
        }
    }

    fn start_worker(&mut self, slot: u64, now: u64) {
        let process = self.pids[usize::try_from(slot).unwrap_or(0)];
        let described = day::process(process, &title(slot), Role::Worker);
        self.emit(now, Source::Proc, described);
        self.emit(now, Source::Proc, day::identity(process));
        let call = day::call(process, &title(slot), now);
        self.emit(now, Source::Kernel, call);
    }

    /// Kills a worker, and starts another one in its place.
    fn kill_worker(&mut self, slot: u64, now: u64) {
        let place = usize::try_from(slot).unwrap_or(0);
        let process = self.pids[place];
        self.emit(now, Source::Kernel, day::signal(process));
        let exit = day::exit(process, &title(slot), 800 * MIB);
        self.emit(now + 1_000_000, Source::Kernel, exit);
        self.dead.push((now, process));
        self.deaths += 1;
        self.pids[place] = pid(slot, now - BEGAN_S * SECOND + SECOND / 2);
        self.start_worker(slot, now + SECOND / 2);
    }
}
