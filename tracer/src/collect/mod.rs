//! The live half: takes what the observers see, numbers it, hands it to the recording and to a judge, and tells deaths as they come.
//!
//! The thread that empties the kernel's ring ([`kernel_thread`]) writes to the recording by itself and never waits for this one,
//! which reads /proc and logs and may be slow.

mod deaths;
mod discover;
mod identity;
pub mod kernel_thread;
mod pidfds;
mod samples;
mod surroundings;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use deaths::Deaths;
pub use deaths::Told;
use identity::Identities;
use pidfds::Pidfds;
use samples::Samples;
use surroundings::Surroundings;

use crate::{
    event::{Cluster, Event, Ledger, Mode, Observation, Probe, Process, Role, Source},
    ids::{BootTime, EventId, Pid, ProcessKey},
    judge::Judge,
    observe::{
        clock,
        kernel::{Ledgers, Tracked},
        kmsg::Kmsg,
        ray_logs::RayLogs,
    },
    recording,
};

/// Gives events their ids; shared by the threads that make events.
#[derive(Clone, Default)]
pub struct Ids(Arc<AtomicU64>);

impl Ids {
    /// The next id, from 1.
    #[must_use]
    pub fn next(&self) -> EventId {
        EventId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Which raylets are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only the one of this session folder.
    pub session_dir: Option<PathBuf>,
    /// Only this raylet.
    pub raylet: Option<Pid>,
}

/// How processes are watched.
#[expect(clippy::large_enum_variant, reason = "there is one, for a moment")]
pub enum Watch {
    /// In the kernel.
    Kernel {
        /// The tracked set.
        tracked: Tracked,
        /// The loss ledger.
        ledgers: Ledgers,
    },
    /// By pidfds.
    Pidfds,
}

/// What is known of a live process that is tracked.
struct Known {
    process: Process,
    role: Role,
    identified: bool,
}

/// The collector.
pub struct Collector {
    ids: Ids,
    recording: recording::Sender,
    judge: Judge,
    wanted: Wanted,
    tracked: Option<Tracked>,
    ledgers: Option<Ledgers>,
    pidfds: Option<Pidfds>,
    kmsg: Option<Kmsg>,
    logs: RayLogs,
    clusters: HashMap<ProcessKey, Cluster>,
    /// When the log folder of each cluster last changed.
    folders: HashMap<ProcessKey, Option<SystemTime>>,
    /// Logs of drivers that were looked at, by cluster.
    drivers: HashSet<(ProcessKey, String)>,
    known: HashMap<Pid, Known>,
    /// Processes that were looked at and are no part of Ray, by their start.
    strangers: HashMap<Pid, BootTime>,
    identities: Identities,
    samples: Samples,
    surroundings: Surroundings,
    deaths: Deaths,
    last_wall_offset: i64,
    last_minute: BootTime,
}

impl Collector {
    /// A collector that has seen nothing yet.
    #[must_use]
    pub fn new(
        ids: Ids,
        recording: recording::Sender,
        watch: Watch,
        kmsg: Option<Kmsg>,
        wanted: Wanted,
    ) -> Self {
        let (tracked, ledgers, pidfds) = match watch {
            Watch::Kernel { tracked, ledgers } => (Some(tracked), Some(ledgers), None),
            Watch::Pidfds => (None, None, Some(Pidfds::default())),
        };
        Self {
            ids,
            recording,
            judge: Judge::default(),
            wanted,
            tracked,
            ledgers,
            pidfds,
            kmsg,
            logs: RayLogs::default(),
            clusters: HashMap::new(),
            folders: HashMap::new(),
            drivers: HashSet::new(),
            known: HashMap::new(),
            strangers: HashMap::new(),
            identities: Identities::default(),
            samples: Samples::default(),
            surroundings: Surroundings::default(),
            deaths: Deaths::default(),
            last_wall_offset: wall_offset(),
            last_minute: BootTime(0),
        }
    }

    /// The first events: the machine, and the probes.
    pub fn begin(&mut self, mode: Mode, probes: Vec<Probe>) {
        let started = crate::observe::host::started(mode);
        self.emit(
            Source::Recorder,
            clock::boot(),
            Observation::RecordingStarted(started),
        );
        for probe in probes {
            self.emit(Source::Recorder, clock::boot(), Observation::Probe(probe));
        }
    }

    /// Clusters that are known.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.clusters.len()
    }

    /// Workers that live.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.known
            .values()
            .filter(|known| known.role == Role::Worker)
            .count()
    }

    /// Runs `spawn` so that the process that it makes is tracked from its first instant: its parent, this process, is tracked while
    /// it forks.
    pub fn spawn_tracked(
        &mut self,
        spawn: impl FnOnce() -> std::io::Result<tokio::process::Child>,
    ) -> std::io::Result<tokio::process::Child> {
        let own = ProcessKey::new(std::process::id(), 0);
        if let Some(tracked) = &mut self.tracked {
            tracked.add(own);
        }
        let child = spawn();
        if let Some(tracked) = &mut self.tracked {
            tracked.remove(own);
        }
        if let Some(pid) = child.as_ref().ok().and_then(tokio::process::Child::id) {
            self.watch_root(Pid(pid));
        }
        child
    }

    /// Records an observation of this thread's own.
    fn emit(&mut self, source: Source, time: BootTime, what: Observation) {
        let event = Event {
            id: self.ids.next(),
            time,
            source,
            what,
        };
        self.judge.observe(&event);
        if let Observation::Exit(exit) = &event.what {
            self.deaths.add(event.id, exit.process, event.time);
        }
        self.recording.send(event);
    }

    /// Takes an event that the kernel thread has recorded.
    pub fn kernel_event(&mut self, event: &Event) {
        match &event.what {
            // A worker's last words must be known before its death is judged.
            Observation::Exit(exit) => {
                let process = exit.process;
                self.before_death(process, exit.ns_pid);
                self.judge.observe(event);
                self.deaths.add(event.id, process, event.time);
                self.gone(process);
            }
            Observation::Exec(exec) => {
                self.judge.observe(event);
                self.identities.expect(exec.process, event.time);
            }
            _ => {
                self.judge.observe(event);
            }
        }
    }

    /// Reads what a dying worker and its raylet last wrote.
    fn before_death(&mut self, process: ProcessKey, ns_pid: Option<Pid>) {
        self.hold_late(process, ns_pid);
        let mut lines = Vec::new();
        self.logs.last_words(process, &mut |line| lines.push(line));
        self.logs.poll(&mut |line| lines.push(line));
        for line in lines {
            self.emit(line.source, line.time, Observation::RayLog(line.log));
        }
    }

    fn gone(&mut self, process: ProcessKey) {
        self.known.remove(&process.pid);
        self.samples.forget(process.pid);
        self.identities.forget(process);
    }

    /// What is due: logs, the kernel log, identities, and in procfs mode the ends of processes.
    pub fn tick(&mut self) {
        let mut lines = Vec::new();
        self.logs.poll(&mut |line| lines.push(line));
        for line in lines {
            self.emit(line.source, line.time, Observation::RayLog(line.log));
        }
        if let Some(kmsg) = &mut self.kmsg {
            let mut found = Vec::new();
            kmsg.poll(|time, line| found.push((time, line)));
            for (time, line) in found {
                self.emit(Source::Kmsg, time, Observation::Kmsg(line));
            }
        }
        self.poll_pidfds();
        self.identify_due();
    }

    /// Once a second: memory, new drivers, new raylets in procfs mode, the clock.
    pub fn second(&mut self) {
        self.sample();
        self.look_around();
        self.follow_logs();
        let now = clock::boot();
        let offset = wall_offset();
        let stepped = (offset - self.last_wall_offset).abs() > 5_000_000;
        if stepped || now.since(self.last_minute) >= 60_000_000_000 {
            self.last_wall_offset = offset;
            self.last_minute = now;
            self.emit(
                Source::Recorder,
                clock::boot(),
                Observation::Clock {
                    wall: clock::wall(),
                },
            );
            self.write_ledgers();
        }
    }

    /// Deaths whose verdict is new or has settled since the last call.
    pub fn told(&mut self) -> Vec<Told> {
        let now = clock::boot();
        let (told, done) = self.deaths.tell(&self.judge, now);
        for process in done {
            self.judge.forget(process);
        }
        told
    }

    /// The loss ledger so far.
    #[must_use]
    pub fn ledger(&self) -> Vec<Ledger> {
        let mut rows = self.ledgers.as_ref().map(Ledgers::read).unwrap_or_default();
        let (dropped, _) = self.recording.dropped();
        for row in &mut rows {
            row.written = row.received;
        }
        if let Some(row) = rows.last_mut() {
            row.dropped = dropped;
            row.written = row.received.saturating_sub(dropped);
        }
        rows
    }

    fn write_ledgers(&mut self) {
        for row in self.ledger() {
            self.emit(Source::Recorder, clock::boot(), Observation::Ledger(row));
        }
    }

    /// The last events of a recording that ends as asked.
    pub fn end(&mut self) {
        self.tick();
        self.sample();
        self.write_ledgers();
        self.emit(Source::Recorder, clock::boot(), Observation::RecordingEnded);
    }
}

fn wall_offset() -> i64 {
    clock::wall().0 - clock::boot().0.cast_signed()
}
