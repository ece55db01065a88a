//! The live half: takes what the observers see, numbers it, hands it to the recording and to a judge, and tells deaths as they come.
//!
//! The thread that empties the kernel's ring ([`kernel_thread`]) writes to the recording by itself and never waits for this one,
//! which reads /proc and logs and may be slow.

mod calls;
mod commands;
pub(crate) mod costs;
mod deaths;
mod discover;
mod drivers;
mod endings;
mod gcs;
mod gpus;
mod growth;
mod identity;
pub mod kernel_thread;
mod log_facts;
mod margins;
mod outside;
mod pidfds;
mod release;
mod samples;
mod shared_files;
pub mod stacks;
mod surroundings;
mod sweep;
mod turns;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use commands::Commands;
pub use deaths::{DeathUpdate, Deaths};
use drivers::Drivers;
use endings::Heard;
use gcs::GcsRows;
use gpus::GpuRows;
use identity::Identities;
use outside::Outsiders;
use pidfds::Pidfds;
use samples::Samples;
use shared_files::SharedFiles;
use surroundings::Surroundings;

use crate::{
    event::{
        Cluster, Event, Ledger, LimitWarning, Mode, Observation, Previous, Probe, Process, Role,
        Source,
    },
    ids::{BootTime, EventId, MINUTE_NS, Pid, ProcessKey},
    judge::{Judge, foresight::Foresight, live::Live, report::Utc},
    observe::{
        clock,
        kernel::{Growth, Ledgers, Tracked},
        kmsg::Kmsg,
        ray_logs::RayLogs,
        rooted::Folder,
        stall,
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
pub struct ClusterFilter {
    /// Only the one of this session folder.
    pub session_dir: Option<PathBuf>,
    /// Only this raylet.
    pub raylet: Option<Pid>,
    /// Only raylets of this user.
    pub user: Option<u32>,
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
        /// What processes map, where the kernel tells it.
        growth: Option<Growth>,
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
    foresight: Foresight,
    /// What was foreseen and is not told yet.
    foreseen: Vec<(BootTime, LimitWarning)>,
    wanted: ClusterFilter,
    tracked: Option<Tracked>,
    ledgers: Option<Ledgers>,
    growth: Option<Growth>,
    pidfds: Option<Pidfds>,
    kmsg: Option<Kmsg>,
    logs: RayLogs,
    /// Records of logs so far.
    words: u64,
    /// Lines of logs that were not read before the end.
    unread_words: u64,
    clusters: HashMap<ProcessKey, Cluster>,
    /// The log folder of each cluster.
    folders: HashMap<ProcessKey, Arc<Folder>>,
    /// The user of each cluster's raylet.
    owners: HashMap<ProcessKey, Option<u32>>,
    /// Raylets that are not followed because too many are; and how many there were.
    refused: HashSet<ProcessKey>,
    left_out: u64,
    drivers: Drivers,
    commands: Commands,
    known: HashMap<Pid, Known>,
    /// Processes that were looked at and are no part of Ray, by their start.
    strangers: HashMap<Pid, BootTime>,
    identities: Identities,
    samples: Samples,
    surroundings: Surroundings,
    shared_files: SharedFiles,
    outsiders: Outsiders,
    gcs: GcsRows,
    gpus: GpuRows,
    deaths: Deaths,
    stacks: Option<stacks::Stacks>,
    last_wall_offset: i64,
    last_minute: BootTime,
    /// Ends of processes that no event told.
    missed_exits: u64,
    /// Who was in the tracked set and gone at the last look.
    suspects: Vec<ProcessKey>,
    /// Whose end had begun when they were put into the tracked set: no event is owed for them.
    late: HashSet<ProcessKey>,
    /// Who was known and not in /proc at the last look.
    stale: Vec<ProcessKey>,
    /// Rounds in which nothing of a cluster was alive.
    ended_clusters: HashMap<ProcessKey, u32>,
    /// Events of the kernel that found no room on the way here.
    unheard: Arc<AtomicU64>,
    costs: costs::Costs,
}

impl Collector {
    /// A collector that has seen nothing yet.
    #[must_use]
    pub fn new(
        ids: Ids,
        recording: recording::Sender,
        watch: Watch,
        kmsg: Option<Kmsg>,
        wanted: ClusterFilter,
    ) -> Self {
        let (tracked, ledgers, growth, pidfds) = match watch {
            Watch::Kernel {
                tracked,
                ledgers,
                growth,
            } => (Some(tracked), Some(ledgers), growth, None),
            Watch::Pidfds => (None, None, None, Some(Pidfds::default())),
        };
        Self {
            ids,
            recording,
            judge: Judge::default(),
            foresight: Foresight::default(),
            foreseen: Vec::new(),
            wanted,
            tracked,
            ledgers,
            growth,
            pidfds,
            kmsg,
            logs: RayLogs::default(),
            words: 0,
            unread_words: 0,
            clusters: HashMap::new(),
            folders: HashMap::new(),
            owners: HashMap::new(),
            refused: HashSet::new(),
            left_out: 0,
            drivers: Drivers::default(),
            commands: Commands::default(),
            known: HashMap::new(),
            strangers: HashMap::new(),
            identities: Identities::default(),
            samples: Samples::default(),
            surroundings: Surroundings::default(),
            shared_files: SharedFiles::default(),
            outsiders: Outsiders::default(),
            gcs: GcsRows::default(),
            gpus: GpuRows::default(),
            deaths: Deaths::default(),
            stacks: None,
            last_wall_offset: wall_offset(),
            last_minute: BootTime(0),
            missed_exits: 0,
            suspects: Vec::new(),
            late: HashSet::new(),
            stale: Vec::new(),
            ended_clusters: HashMap::new(),
            unheard: Arc::default(),
            costs: costs::Costs::default(),
        }
    }

    /// The first events: the machine, and the probes.
    pub fn begin(&mut self, mode: Mode, probes: Vec<Probe>, previous: Option<Previous>) {
        let mut started = crate::observe::host::started(mode);
        started.previous = previous;
        let (boot, wall) = clock::both();
        started.wall = wall;
        let started = Observation::RecordingStarted(started);
        self.emit(Source::Recorder, boot, started);
        for probe in probes {
            self.emit(Source::Recorder, clock::boot(), Observation::Probe(probe));
        }
    }

    /// Reads the Python stacks of what grows, from now on.
    pub fn read_stacks(&mut self) -> std::io::Result<()> {
        let pythons = self.growth.as_mut().and_then(Growth::take_pythons);
        let levels = self.growth.as_ref().and_then(Growth::levels);
        let kernel = stacks::Kernel { pythons, levels };
        let stacks = stacks::Stacks::start(self.ids.clone(), self.recording.clone(), kernel)?;
        self.stacks = Some(stacks);
        Ok(())
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

    /// Counts, from now on, what the thread that empties the ring could not pass on.
    pub fn hear(&mut self, kernel: &kernel_thread::KernelThread) {
        self.unheard = Arc::clone(&kernel.missed);
    }

    /// What is alive and how near each limit is.
    #[must_use]
    pub fn live(&self) -> Live {
        Live {
            lost: self.ledger().iter().map(Ledger::lost).sum(),
            ..self.judge.live(clock::boot())
        }
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
        self.observe(&event);
        self.recording.send(event);
    }

    /// Takes in an event that the recording has or is about to get.
    fn observe(&mut self, event: &Event) {
        self.judge.observe(event);
        match &event.what {
            Observation::Process(process) => {
                if let Some(growth) = &mut self.growth {
                    growth.watch(process.process);
                }
            }
            Observation::Exit(exit) => self.deaths.add(event.id, exit.process, event.time),
            Observation::Call(call) => self.foresight.called(call),
            _ => {}
        }
    }

    /// Takes an event that the kernel thread has recorded; true when it is a death: Ray's logs are to be read before it is told.
    pub fn kernel_event(&mut self, event: &Event) -> bool {
        match &event.what {
            Observation::Exit(exit) => {
                self.ended(exit, Heard::Recorded(event));
                true
            }
            Observation::Exec(exec) => {
                self.observe(event);
                self.identities.expect(exec.process, event.time);
                self.samples.executed(exec.process.pid);
                // Only what was known before can be watched.
                let is_known = self.known_as(exec.process).is_some();
                if let Some(stacks) = self.stacks.as_mut().filter(|_| is_known) {
                    stacks.replaced(exec.process);
                }
                false
            }
            // Many a child never execs: DataLoader's workers are forks.
            Observation::Fork { child, .. } => {
                self.observe(event);
                self.identities.expect(*child, event.time);
                false
            }
            // Who has Ray's title has joined its cluster, and its logs are open.
            Observation::Title { process, title, .. } if title.starts_with("ray::") => {
                self.observe(event);
                let known = self.known.get(&process.pid);
                if known
                    .is_some_and(|known| known.process.process.same(*process) && !known.identified)
                {
                    self.identities.expect_again(*process, event.time);
                }
                false
            }
            // A write into shared memory that is full. Ray's handler prints a stack first: what was full is still full. The file may
            // be gone with its process.
            Observation::Signal(signal) if signal.signal == libc::SIGBUS => {
                self.observe(event);
                self.sample_shared_memory(clock::boot());
                false
            }
            Observation::Signal(signal) => {
                self.observe(event);
                self.look_at_command(signal);
                false
            }
            _ => {
                self.observe(event);
                false
            }
        }
    }

    /// What is due: logs, the kernel log, identities, and in procfs mode the ends of processes.
    pub fn tick(&mut self) {
        self.charged(costs::Cause::Logs, Self::read_both_logs);
        self.charged(costs::Cause::Identities, |own| {
            own.poll_pidfds();
            own.identify_due();
        });
    }

    fn read_both_logs(&mut self) {
        self.read_logs();
        if let Some(kmsg) = &mut self.kmsg {
            let mut found = Vec::new();
            kmsg.poll(|time, line| found.push((time, line)));
            for (time, line) in found {
                self.emit(Source::Kmsg, time, Observation::Kmsg(line));
            }
        }
    }

    /// Once a second: Ray's log files, what frameworks print of their settings, the clock; new raylets where no hook tells of their start.
    pub fn second(&mut self) {
        self.charged(costs::Cause::Second, Self::each_second);
        self.costs.log();
    }

    fn each_second(&mut self) {
        if self.pidfds.is_some() {
            self.find_raylets();
        }
        self.read_configurations();
        self.follow_logs();
        self.take_gcs();
        self.feed_stacks();
        let now = clock::boot();
        for near in self.foresight.look(now, &self.judge) {
            self.foreseen.push((now, near.clone()));
            self.emit(Source::Recorder, now, Observation::Near(near));
        }
        let offset = wall_offset();
        let stepped = (offset - self.last_wall_offset).abs() > 5_000_000;
        if stepped || now.since(self.last_minute) >= MINUTE_NS {
            self.last_wall_offset = offset;
            self.last_minute = now;
            self.set_log_offsets();
            self.commands.forget();
            let (boot, wall) = clock::both();
            self.emit(
                Source::Recorder,
                boot,
                Observation::Clock {
                    wall,
                    error: clock::error(),
                },
            );
            self.write_ledgers();
        }
    }

    /// Deaths whose verdict is new or has settled since the last call.
    pub fn told(&mut self) -> Vec<DeathUpdate> {
        let now = clock::boot();
        let (told, done) = self.deaths.tell(&self.judge, now);
        for update in &told {
            self.foresight.died(&update.death);
        }
        for process in done {
            self.judge.forget(process);
        }
        told
    }

    /// What was foreseen, or has passed, since the last call, with its time.
    pub fn foreseen(&mut self) -> Vec<(Option<Utc>, LimitWarning)> {
        let told = std::mem::take(&mut self.foreseen);
        let wall = |(time, near)| (self.judge.wall(time), near);
        told.into_iter().map(wall).collect()
    }

    /// Whether a verdict waits for what Ray's logs will say, or processes end without the kernel's word.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.pidfds.is_some() || self.deaths.any_waiting(clock::boot())
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
        self.count_missed(&mut rows);
        rows.extend(self.growth.iter().flat_map(Growth::ledger));
        rows.extend(self.lost_words());
        let records = self.kmsg.as_ref().map_or(0, |kmsg| kmsg.lost);
        rows.extend(missed("kernel log", records));
        rows.extend(self.left_to_looks());
        rows.extend(missed("collector", self.unheard.load(Ordering::Relaxed)));
        rows.extend(missed("reads that hang", stall::left_out()));
        rows.extend(missed("clusters", self.left_out));
        rows.extend(missed("drivers' logs", self.drivers.left_out));
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
        self.take_gcs();
        self.catch_up();
        self.sample();
        // Its last rows are written when it ends.
        drop(self.stacks.take());
        self.write_ledgers();
        self.emit(Source::Recorder, clock::boot(), Observation::RecordingEnded);
    }
}

/// A row for what was not seen by other ways than the hooks', where there is any.
fn missed(hook: &str, missed: u64) -> Option<Ledger> {
    (missed > 0).then(|| Ledger {
        hook: hook.into(),
        missed,
        ..Ledger::default()
    })
}

fn wall_offset() -> i64 {
    let (boot, wall) = clock::both();
    wall.0 - boot.0.cast_signed()
}
