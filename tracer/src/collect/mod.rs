//! The live half: passes what the observers see to the recording and the judge, and reports deaths.
//!
//! [`Collector`] has a part for each job. A part keeps the state it needs and answers small
//! questions of the others: `processes` knows which processes live, `clusters` to which cluster
//! each belongs, `logs` and `gcs` what Ray says, `samples` how much memory there is, `growth` what
//! takes it. Their findings go to `out`, which writes them to the recording and hands them to the
//! judge. The judge says which deaths are reported.
//!
//! The thread that empties the kernel's ring ([`kernel_thread`]) writes to the recording by itself.
//! It never waits for the collector's thread, which reads /proc and logs and may be slow.

mod clusters;
pub(crate) mod costs;
mod ends;
mod gcs;
mod growth;
pub mod kernel_thread;
mod logs;
mod output;
mod processes;
mod samples;
#[cfg_attr(not(feature = "stacks"), path = "stacks/stub.rs")]
mod stacks;
mod track_new;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

pub use crate::deaths::{DeathUpdate, Deaths};
pub use clusters::ClusterFilter;
use clusters::Clusters;
use costs::{Cause, Costs};
use gcs::GcsRows;
use growth::GrowthForwarder;
use logs::Logs;
pub use output::Ids;
use output::Output;
pub use processes::Watch;
use processes::{Processes, RayState, read_process_table};
use samples::Samples;

use crate::{
    event::{
        Event, Ledger, LimitWarning, Mode, Observation, PROCESS_EVENTS, Previous, Probe, Role,
        Source,
    },
    ids::{BootTime, MINUTE_NS, Pid, ProcessKey},
    judge::{
        live::Live,
        report::{Death, Report, Utc},
    },
    observe::{self, clock, kmsg::Kmsg, timed_read},
    recording,
};

/// The collector.
pub struct Collector {
    out: Output,
    clusters: Clusters,
    processes: Processes,
    logs: Logs,
    gcs: GcsRows,
    samples: Samples,
    growth: GrowthForwarder,
    last_clock: LastClock,
    /// The process that hands signals on to the wrapped command.
    supervisor: Option<ProcessKey>,
    /// Events of the kernel that did not fit into the queue to the collector.
    missed: Arc<AtomicU64>,
    costs: Costs,
}

/// The clock as it was last recorded.
struct LastClock {
    wall_offset: i64,
    time: BootTime,
}

/// Setting up, before anything is observed.
impl Collector {
    /// Makes a collector that has seen nothing yet.
    pub fn new(
        ids: Ids,
        recording: recording::Sender,
        watch: Watch,
        kmsg: Option<Kmsg>,
        wanted: ClusterFilter,
    ) -> Self {
        Self {
            out: Output::new(ids, recording),
            clusters: Clusters::new(wanted),
            processes: Processes::new(watch),
            logs: Logs::new(kmsg),
            gcs: GcsRows::default(),
            samples: Samples::default(),
            growth: GrowthForwarder::default(),
            last_clock: LastClock {
                wall_offset: wall_offset(),
                time: BootTime(0),
            },
            supervisor: None,
            missed: Arc::default(),
            costs: Costs::default(),
        }
    }

    /// Records the first events: the machine and the probes.
    ///
    /// `supervisor` is the process that hands signals on to the wrapped command. Those that it gets
    /// are reported too.
    pub fn begin(
        &mut self,
        mode: Mode,
        probes: Vec<Probe>,
        previous: Option<Previous>,
        supervisor: Option<Pid>,
    ) {
        let mut started = crate::observe::host::started(mode);
        started.previous = previous;
        started.supervisor = supervisor.and_then(observe::processes::key);
        self.supervisor = started.supervisor;
        if let Some(supervisor) = started.supervisor {
            self.processes.report_signals_to(supervisor);
        }
        let (boot, wall) = clock::both();
        started.wall = wall;
        let started = Observation::RecordingStarted(started);
        self.out.emit(Source::Recorder, boot, started);
        for probe in probes {
            self.out
                .emit_now(Source::Recorder, Observation::Probe(probe));
        }
    }

    /// Records a signal that the supervisor of the wrapped command got, with its sender as /proc
    /// shows it. Where the kernel reports signals, it has reported this one.
    pub fn was_signalled(&mut self, number: i32, code: i32, (pid, uid): (Pid, u32)) {
        if let Some(target) = self.supervisor.filter(|_| self.processes.by_pidfds()) {
            let what = observe::signals::received(target, (number, code), (pid, uid));
            self.out
                .emit_now(Source::Recorder, Observation::Signal(what));
        }
    }

    /// Counts from now on the events that the kernel thread could not pass on.
    pub fn count_misses_of(&mut self, kernel: &kernel_thread::KernelThread) {
        self.missed = Arc::clone(&kernel.missed);
    }

    /// Samples as often as near a limit, even far from any.
    pub fn sample_as_near_limit(&mut self) {
        self.samples.sample_as_near_limit();
    }

    /// Begins to read GPUs. Returns how many there are, or why none can be seen.
    pub fn watch_gpus(&mut self) -> Result<u32, String> {
        self.samples.watch_gpus()
    }

    /// Asks the GCS of each cluster that is found from now on.
    pub fn ask_gcs(&mut self) -> std::io::Result<()> {
        self.gcs.start()
    }

    /// Reads the Python stacks of processes that grow, from now on, with `percent` of the usual
    /// time.
    pub fn read_stacks(&mut self, percent: u32) -> std::io::Result<()> {
        let growth = self.processes.growth_mut();
        self.growth.read_stacks(growth, &self.out, percent)
    }

    /// Tracks a process from before `start` lets it execute its program.
    pub fn start_tracked(
        &mut self,
        pid: Pid,
        start: impl FnOnce() -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        if let Some(process) = observe::processes::key(pid) {
            self.processes.track(process);
        }
        start()?;
        self.watch_root(pid);
        Ok(())
    }
}

/// Work, and when it is done.
impl Collector {
    /// Takes events that the kernel thread has recorded. If one of them is a death, Ray's logs are
    /// read at once, before the death is reported.
    pub fn kernel_events(&mut self, events: impl Iterator<Item = Event>) -> usize {
        let (mut deaths, mut taken) = (false, 0);
        let began = self.costs.begin();
        for event in events {
            deaths |= matches!(event.what, Observation::Exit(_));
            self.kernel_event(&event);
            taken += 1;
        }
        self.costs.end(Cause::Events, began);
        if deaths {
            self.logs.read(&mut self.out);
        }
        taken
    }

    fn kernel_event(&mut self, event: &Event) {
        if let Observation::Exit(exit) = &event.what {
            return self.reported_ended(exit, event);
        }
        self.out.observe(event);
        match &event.what {
            Observation::Exec(exec) => {
                let was_known = self.processes.executed(exec.process, event.time);
                // Only a process that was known before can be watched.
                if was_known {
                    self.growth.replaced(exec.process);
                }
            }
            // Many children never call exec: the workers of a DataLoader are forks.
            Observation::Fork { child, .. } => self.processes.expect(*child, event.time),
            Observation::Title { process, title, .. } if title.starts_with("ray::") => {
                self.processes.has_title(*process, event.time);
            }
            // SIGBUS follows a write into shared memory that is full. Ray's handler prints a stack
            // first, so the memory is still full now. The file may be gone with its process.
            Observation::Signal(signal) if signal.signal == libc::SIGBUS => {
                let (clusters, processes) = (&self.clusters, &self.processes);
                let found = RayState {
                    clusters,
                    processes,
                };
                self.samples
                    .shared_memory(clock::boot(), found, &mut self.out);
            }
            Observation::Signal(signal) => {
                let known = |process| self.processes.known_as(process);
                if let Some(cluster) = self.clusters.look_at_command(signal, known) {
                    self.out
                        .emit_now(Source::Proc, Observation::Cluster(cluster));
                }
            }
            _ => {}
        }
    }

    /// Does what is due often while a death waits for Ray's logs: reads these logs and the kernel
    /// log, identifies processes, and in procfs mode finds processes that ended.
    pub fn tick(&mut self) {
        self.costs.charged(Cause::Logs, || {
            self.logs.read(&mut self.out);
            self.logs.read_kmsg(&mut self.out);
        });
        self.charged(Cause::Identities, |own| {
            own.poll_pidfds();
            own.identify_due();
        });
    }

    /// Does what is due ten times a second.
    pub fn sample_tick(&mut self) {
        self.tick();
        self.charged(Cause::Drivers, |own| {
            own.find_drivers();
            own.look_for_children();
        });
        self.take_mappings();
        self.sample();
    }

    /// In procfs mode, finds processes that started since the last call.
    fn look_for_children(&mut self) {
        if self.processes.by_pidfds() {
            self.track_family(&read_process_table());
            self.processes.refresh_titles(clock::boot(), &mut self.out);
        }
    }

    /// Takes the kernel's records of mappings and growth. Called when something large was mapped or
    /// may have been.
    pub fn take_mappings(&mut self) {
        self.costs.charged(Cause::Mappings, || {
            if let Some(growth) = self.processes.growth_mut() {
                self.growth.take(growth, &mut self.out);
            }
        });
    }

    /// Samples memory: of all processes, or of those that are due.
    fn sample(&mut self) {
        let changes = self.processes.changes();
        let (clusters, processes) = (&self.clusters, &self.processes);
        let found = RayState {
            clusters,
            processes,
        };
        self.samples.follow(changes);
        self.samples.sample(found, &mut self.out, &mut self.costs);
    }

    /// Does what is due once a second: Ray's log files, the settings that frameworks print, the
    /// clock; and new raylets where no hook reports their start.
    pub fn second(&mut self) {
        self.charged(Cause::Second, Self::each_second);
        self.costs.log();
    }

    fn each_second(&mut self) {
        if self.processes.by_pidfds() {
            self.find_raylets(&read_process_table());
        }
        self.logs.read_configurations(&mut self.out);
        self.logs.follow(&self.clusters, &self.processes);
        for (raylet, threshold) in self.logs.take_thresholds() {
            self.clusters.threshold_logged(raylet, threshold);
        }
        self.gcs.take(&mut self.out);
        let near = self.samples.near();
        self.growth.forward(&self.processes, near, &mut self.out);
        self.out.forecast_limits();
        let offset = wall_offset();
        let stepped = (offset - self.last_clock.wall_offset).abs() > 5_000_000;
        let now = clock::boot();
        if stepped || now.since(self.last_clock.time) >= MINUTE_NS {
            self.last_clock = LastClock {
                wall_offset: offset,
                time: now,
            };
            self.each_minute();
        }
    }

    /// Does what is due each minute, and when the clock is set.
    fn each_minute(&mut self) {
        let lives = |raylet| self.processes.known_as(raylet).is_some();
        for (cluster, offset) in self.clusters.new_log_offsets(lives) {
            self.logs.set_offset(cluster, offset);
        }
        self.clusters.forget_commands();
        let (boot, wall) = clock::both();
        let error = clock::error();
        self.out
            .emit(Source::Recorder, boot, Observation::Clock { wall, error });
        self.write_ledgers();
    }

    /// Scans the whole machine for new raylets and for all processes of the known clusters.
    pub fn scan(&mut self) {
        self.scan_in(&read_process_table());
    }

    /// Does the same, and what is due as often: finds processes that ended unseen, and releases
    /// clusters that are over. /proc is read once for all of it.
    pub fn scan_processes(&mut self) {
        let began = self.costs.begin();
        let table = read_process_table();
        self.scan_in(&table);
        self.sweep_in(&table);
        self.release();
        self.costs.end(Cause::Scan, began);
    }

    /// Finds processes that ended without an exit event. `processes::sweep` says how such events
    /// get lost. The check is slow, so it is not done for each event.
    pub fn sweep(&mut self) {
        self.sweep_in(&read_process_table());
    }

    /// Releases clusters and drivers that are over.
    fn release(&mut self) {
        for cluster in self.clusters.release(&self.processes.clusters()) {
            tracing::info!("stopped following raylet {cluster}: no process of its cluster is left");
            self.logs.forget(cluster);
            self.samples.forget(cluster);
        }
        self.logs.forget_drivers(&self.processes);
    }

    /// Records the last events of a recording that ends as requested.
    pub fn end(&mut self) {
        self.tick();
        self.gcs.take(&mut self.out);
        self.logs.catch_up(&mut self.out);
        self.sample();
        self.growth.end();
        self.write_ledgers();
        self.out.end();
    }

    fn write_ledgers(&mut self) {
        for row in self.ledger() {
            self.out
                .emit_now(Source::Recorder, Observation::Ledger(row));
        }
    }

    /// Does `what`, and charges its time to `cause`.
    fn charged(&mut self, cause: Cause, what: impl FnOnce(&mut Self)) {
        let began = self.costs.begin();
        what(self);
        self.costs.end(cause, began);
    }
}

/// What a caller can ask.
impl Collector {
    /// Returns deaths with a verdict that is new or has settled since the last call.
    pub fn take_updates(&mut self) -> Vec<DeathUpdate> {
        self.out.take_updates()
    }

    /// Returns warnings that began or ended since the last call, each with its time.
    pub fn warnings(&mut self) -> Vec<(Option<Utc>, LimitWarning)> {
        self.out.warnings()
    }

    /// Returns messages about the GCS since the last call.
    pub fn gcs_updates(&mut self) -> Vec<String> {
        self.gcs.take_updates()
    }

    /// Returns what is alive and how near each limit is.
    pub fn live(&self) -> Live {
        Live {
            lost: self.ledger().iter().map(Ledger::lost).sum(),
            ..self.out.judge().live(clock::boot())
        }
    }

    /// Returns the report of these deaths.
    pub fn report_of(&self, deaths: Vec<Death>) -> Report {
        self.out.judge().report_of(deaths)
    }

    /// Returns how many events wait to be written: those about deaths, and samples.
    pub fn waiting_to_be_written(&self) -> (usize, usize) {
        self.out.recording.waiting()
    }

    /// Returns the number of clusters that are known.
    pub fn clusters(&self) -> usize {
        self.clusters.count()
    }

    /// Returns the number of workers that are alive.
    pub fn workers(&self) -> usize {
        let all = self.processes.all();
        all.filter(|known| known.role == Role::Worker).count()
    }

    /// Whether a verdict waits for Ray's logs, or the ends of processes are found without the
    /// kernel's exit events.
    pub fn is_waiting(&self) -> bool {
        self.processes.by_pidfds() || self.out.any_waiting()
    }

    /// Returns the loss ledger so far.
    pub fn ledger(&self) -> Vec<Ledger> {
        let (dropped, samples) = self.out.recording.dropped();
        let mut rows = self.processes.ledger();
        for row in &mut rows {
            row.written = row.received;
        }
        let growth = self.processes.growth();
        rows.extend(growth.iter().flat_map(|growth| growth.ledger()));
        let lost = [
            self.logs.ledger(&self.out),
            lost_rows(PROCESS_EVENTS, dropped),
            lost_rows("samples", samples),
        ];
        rows.extend(lost.into_iter().filter(|row| row.lost() > 0));
        rows.extend(self.processes.over_budgets());
        rows.extend(missed("kernel log", self.logs.lost_of_kernel()));
        rows.extend(self.growth.refused_records());
        rows.extend(missed("collector", self.missed.load(Ordering::Relaxed)));
        rows.extend(missed("reads that hang", timed_read::skipped_reads()));
        rows.extend(missed("clusters", self.clusters.left_out));
        let left_out = self.logs.left_out();
        let left_out = left_out
            .iter()
            .filter_map(|(hook, count)| missed(hook, *count));
        rows.extend(left_out);
        rows
    }
}

/// Makes a row for what the recording's queues dropped. It is not counted otherwise.
fn lost_rows(what: &str, dropped: u64) -> Ledger {
    Ledger {
        hook: what.into(),
        seen: dropped,
        submitted: dropped,
        received: dropped,
        dropped,
        ..Ledger::default()
    }
}

/// Makes a row for events missed by a source other than the hooks, if there are any.
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
