//! Folds all events into the tables that they concern. Facts only.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
};

use crate::{
    event::{
        Call, CgroupState, Cluster, Event, Exit, GpuState, KernelLog, Ledger, Mapped, MemorySplit,
        MonitorCount, NodeMemory, Observation, OomVictim, OutsideMemory, Probe, ProcessMemory,
        PythonStack, RayLog, RecordingStarted, Role, Sender, SharedMemory, Signal, Source, Step,
    },
    ids::{BootTime, ByProcess, Bytes, EventId, HexId, Pid, ProcessKey, SECOND_NS},
    judge::{
        limit_warnings::LimitWarnings,
        report::{Growth, OwnerKind},
        state::{
            calls::Calls,
            clock::Clock,
            gcs::GcsTables,
            gpu_errors::GpuErrors,
            gpus::{self, Gpus},
            growth_attribution::{GrowthAttribution, Owner},
            growth_floor::GrowthFloor,
            interferences::Interferences,
            limits::Limits,
            lost_sources::{self, LostSource},
            machine::{Machine, MemoryHolders},
            owners::{self, Owners},
            processes::{ProcessState, Processes},
            ray_log_records::RayLogRecords,
            recent_samples::{Outside, SamplesByProcess},
            shared_files::SharedFiles,
            shares::Shares,
            signal_losses::SignalLosses,
            stepd_signals::StepdSignals,
            timestamped::{ExitSeen, Timestamped},
        },
    },
    ray::{
        facts::RayFact,
        gcs::GcsRow,
        identify::{self, Title},
    },
    signals::ENDING,
};

/// At most this many lines of the kernel log, and OOM victims, are kept by a live judge.
const MAX_KERNEL_WORDS: usize = 4_096;
/// At most this many clusters are kept by a live judge, including those that are over.
const MAX_CLUSTERS: usize = 1_024;
/// At most this many signals to one process are kept, and as many deliveries.
const MAX_SIGNALS: usize = 64;

/// At most this many figures of one raylet's monitor are kept: six seconds at ten per second.
const MAX_MONITOR_COUNTS: usize = 64;

/// Figures of a cgroup are kept for this long. The last one before that says what it held then.
const CGROUP_NS: i64 = 125 * SECOND_NS;
/// This many older ones are dropped at once.
const CGROUP_AT_ONCE: usize = 64;

/// At most this many mappings of one process are kept.
const MAX_MAPPED: usize = 16;

/// Everything that one recording says so far.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) started: Option<(BootTime, RecordingStarted)>,
    pub(crate) clean_end: bool,
    pub(crate) last_time: BootTime,
    pub(crate) clock: Clock,
    pub(crate) probes: Vec<Probe>,
    /// Sources that went away.
    pub(crate) lost_sources: Vec<LostSource>,
    pub(crate) ledgers: Vec<Ledger>,
    pub(crate) signal_losses: SignalLosses,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) processes: Processes,
    /// Drivers for which no worker was seen to run anything yet.
    waiting_drivers: Vec<ProcessKey>,
    pub(crate) calls: ByProcess<Box<Calls>>,
    pub(crate) owners: Owners,
    shares: Shares,
    pub(crate) gpus: Gpus,
    pub(crate) gpu_errors: GpuErrors<BootTime>,
    pub(crate) gcs: GcsTables,
    pub(crate) signals: ByProcess<Vec<Timestamped<Signal>>>,
    pub(crate) stepd_signals: StepdSignals,
    pub(crate) delivered: ByProcess<Vec<Timestamped<(i32, i32)>>>,
    /// Who traced each process, or wrote into its memory.
    pub(crate) interferences: Interferences,
    /// When a process was seen to be exiting, by a signal that the kernel sent in its name, and
    /// whether that was the whole process. Recordings of earlier versions do not say.
    pub(crate) exiting_since: ByProcess<(BootTime, Option<bool>)>,
    pub(crate) victims: Vec<Timestamped<OomVictim>>,
    /// All exits, in the order in which they were seen.
    pub(crate) exits: BTreeMap<EventId, Box<ExitSeen>>,
    exit_of: ByProcess<EventId>,
    pub(crate) kernel_log: Vec<Timestamped<KernelLog>>,
    pub(crate) ray_log_records: RayLogRecords,
    pub(crate) cgroups: HashMap<String, Vec<Timestamped<CgroupState>>>,
    /// How near each cgroup came to its limit.
    pub(crate) limits: Limits,
    pub(crate) machine: Machine,
    pub(crate) shared_files: SharedFiles,
    /// What drivers set for Ray.
    pub(crate) driver_settings: Vec<(ProcessKey, Vec<(String, String)>)>,
    /// The versions of frameworks that drivers run.
    pub(crate) driver_packages: Vec<(ProcessKey, Vec<(String, String)>)>,
    pub(crate) shared_memory: Vec<(BootTime, SharedMemory)>,
    /// The last two minutes of each process's private memory.
    pub(crate) recent_samples: SamplesByProcess,
    /// How the private memory of each process rose over its life.
    pub(crate) growth_floors: ByProcess<GrowthFloor>,
    /// The biggest processes that are not Ray's, near a limit.
    pub(crate) outside: ByProcess<(BootTime, Outside)>,
    /// The last large mappings of each process.
    pub(crate) mapped: ByProcess<VecDeque<Timestamped<Mapped>>>,
    /// The last steps of processes that died.
    pub(crate) steps: ByProcess<Vec<Step>>,
    /// Lines of Python that grew memory.
    pub(crate) growth_attribution: GrowthAttribution,
    /// The warnings of each limit.
    pub(crate) limit_warnings: LimitWarnings,
    /// What each raylet's monitor counted.
    pub(crate) monitors: ByProcess<VecDeque<Timestamped<MonitorCount>>>,
}

/// `si_code` of `sigqueue(3)`, with which a supervisor hands signals on.
const SI_QUEUE: i32 = -1;
/// Another recorder's supervisor hands a signal on at most this long after it got it. Its name
/// alone proves nothing.
const ANOTHERS_NS: i64 = 2 * SECOND_NS;
/// The supervisor of a wrapped command hands a signal on this long after it got it, or later.
const HANDED_ON_NS: i64 = 250_000_000;
/// Where it is not known whether a thread or its whole process was exiting, it was the process if
/// that was gone within this time.
pub(crate) const EXITS_NS: i64 = 5 * SECOND_NS;
/// How far the clock of a log is from the kernel's, at most.
const STAMP_NS: i64 = 50_000_000;
/// Ray's last word on a pid comes within this time of the end of its process.
const AFTER_NS: i64 = 30 * SECOND_NS;

/// The initial pid namespace (`PROC_PID_INIT_INO`), to which the pids of the kernel log belong.
const INITIAL_PIDS: u64 = 0xefff_fffc;

impl World {
    /// Whether the pids of this recording are those of the kernel log.
    pub(crate) fn has_kernel_log_pids(&self) -> bool {
        let started = self.started.as_ref();
        let namespace = started.and_then(|(_, started)| started.pid_namespace);
        namespace.is_none_or(|namespace| namespace == INITIAL_PIDS)
    }

    /// Folds one event in.
    pub(crate) fn observe(&mut self, event: &Event) {
        self.last_time = self.last_time.max(event.time);
        let (time, source) = (event.time, event.source);
        let growth = &mut self.growth_attribution;
        match &event.what {
            Observation::RecordingStarted(started) => {
                self.clock.note(time, started.wall, None);
                self.started = Some((time, started.clone()));
            }
            Observation::RecordingEnded => self.clean_end = true,
            Observation::Clock { wall, error } => self.clock.note(time, *wall, *error),
            Observation::Probe(probe) => {
                let probe =
                    lost_sources::note(&mut self.lost_sources, &self.probes, probe.clone(), time);
                replace(&mut self.probes, &probe, |known| known.name == probe.name);
            }
            Observation::Ledger(ledger) => {
                self.signal_losses.counted(time, ledger);
                replace(&mut self.ledgers, ledger, |known| known.hook == ledger.hook);
            }
            Observation::Cluster(cluster) => {
                replace(&mut self.clusters, cluster, |known| {
                    known.raylet.same(cluster.raylet)
                });
            }
            Observation::Process(process) => {
                self.processes.described(process);
                self.drives(process.process);
                self.owned(process.process, time);
            }
            Observation::Worker(worker) => {
                self.processes.identified(worker);
                self.drives(worker.process);
                self.owned(worker.process, time);
            }
            Observation::Fork { parent, child } => {
                self.processes.forked(*parent, *child);
                self.interferences.forked(*parent, *child);
                self.shares.forked(*parent, *child);
            }
            Observation::Exec(exec) => {
                self.interferences.executed(exec.process);
                self.processes.executed(exec);
                self.shares.executed(exec.process);
                self.owned(exec.process, time);
            }
            Observation::Title {
                process,
                title,
                memory,
            } => {
                self.processes.titled(*process, title, memory.anon);
                self.owned(*process, time);
                self.works(*process);
            }
            Observation::Call(call) => self.called(call, time),
            Observation::Signal(signal) => self.signalled(time, signal),
            Observation::Delivered {
                process,
                signal,
                code,
            } => self.delivered(time, *process, (*signal, *code)),
            Observation::Interference(act) => self.interferences.seen(time, act),
            Observation::OomVictim(victim) => {
                let what = victim.clone();
                self.victims.push(Timestamped { time, what });
            }
            Observation::Exit(exit) => self.exited(event.id, time, source, exit),
            Observation::Kmsg(line) => self.kernel_said(time, line),
            Observation::RayLog(record) => self.ray_said(time, source, record),
            Observation::Cgroup(state) => self.cgroup_sampled(time, state),
            Observation::DriverSettings { .. } => self.driver_runs(&event.what),
            Observation::SharedMemory(state) => self.shared_memory.push((time, state.clone())),
            Observation::SharedFile(file) => self.shared_files.sampled(file, &self.processes),
            Observation::Mapped(mapped) => self.mapped_by(time, *mapped),
            Observation::Steps { process, steps } => {
                self.steps.insert(process.truncated(), steps.clone());
            }
            Observation::Outside(outside) => self.outside_sampled(time, outside),
            Observation::Memory(sample) => self.memory_sampled(time, sample),
            Observation::Gpu(state) => self.gpu_sampled(time, state),
            Observation::Node(node) => self.node_sampled(time, node),
            Observation::LimitWarning(warning) => self.limit_warnings.push(time, warning),
            Observation::Monitor(count) => self.monitor_counted(time, *count),
            Observation::Stack(stack) => self.grew(time, stack),
            Observation::Freed {
                process,
                mapping,
                bytes,
            } => growth.freed(time, *process, *mapping, *bytes),
            Observation::NoStack { process, reason } => growth.refused(*process, reason),
        }
        let calls = &self.calls;
        let now = Some(self.last_time);
        self.growth_attribution
            .settle(now, |process, time| called(calls, process, time));
    }

    /// Returns the growth so far. What still waits for its call is attributed as far as is known.
    pub(crate) fn growth_attribution_so_far(&self) -> Cow<'_, GrowthAttribution> {
        self.growth_attribution
            .settled(|process, time| called(&self.calls, process, time))
    }

    /// Whether samples say what forked children share with their parents.
    pub(crate) fn records_shares(&self) -> bool {
        self.shares.is_recorded()
    }

    /// Returns the growth by owner, the largest first.
    pub(crate) fn growth(&self) -> Vec<Growth> {
        self.growth_attribution_so_far()
            .growth(|process| self.becomes(process))
    }

    /// Returns the growth as folded stacks.
    pub(crate) fn folded(&self) -> Vec<String> {
        self.growth_attribution_so_far()
            .folded(|process| self.becomes(process))
    }

    /// Returns what a worker works for by now, if it had no title when it grew.
    fn becomes(&self, process: ProcessKey) -> Option<String> {
        let calls = self.calls.get(&process.truncated());
        let first = calls.and_then(|calls| calls.first());
        let class = self.processes.get(process).and_then(ProcessState::class);
        class.or(first)
    }

    fn kernel_said(&mut self, time: BootTime, line: &KernelLog) {
        self.gpu_errors.add_line(time, line);
        let what = line.clone();
        self.kernel_log.push(Timestamped { time, what });
    }

    fn signalled(&mut self, time: BootTime, signal: &Signal) {
        self.sent_while_exiting(time, &signal.sender);
        self.stepd_signals.sent(time, signal);
        let handed_on = self.handed_on(time, signal);
        let what = handed_on.unwrap_or_else(|| signal.clone());
        let signals = self.signals.entry(signal.target.truncated());
        // Most processes get one, and `Vec` would make room for four.
        let signals = signals.or_insert_with(|| Vec::with_capacity(1));
        if signals.len() >= MAX_SIGNALS {
            signals.remove(least_telling(signals));
        }
        // One that was kept until the exit comes later than it was sent.
        let place = signals.partition_point(|seen| seen.time <= time);
        signals.insert(place, Timestamped { time, what });
    }

    /// Returns a signal that the supervisor of a wrapped command handed on, as its sender's. The
    /// supervisor is that of this recorder, or of another one that the job started, which hands on
    /// to its child at once (`signal/queue` of `supervisor`). `None` for any other signal.
    fn handed_on(&self, time: BootTime, signal: &Signal) -> Option<Signal> {
        let supervisor = signal.sender.process;
        let own = self
            .started
            .as_ref()
            .and_then(|(_, started)| started.supervisor);
        let is_own = own.is_some_and(|own| own.same(supervisor));
        let is_anothers = || {
            let target = self.processes.get(signal.target);
            let is_child = target.is_some_and(|target| target.parent == Some(supervisor.pid));
            signal.sender.comm == "raytrace" && signal.code == SI_QUEUE && is_child
        };
        if !is_own && !is_anothers() {
            return None;
        }
        let latest = if is_own { i64::MAX } else { ANOTHERS_NS };
        let mut to_it = self.signals_to(supervisor).iter().rev();
        let is_given = |given: &&Timestamped<Signal>| {
            let after = time.since(given.time);
            given.what.signal == signal.signal && (HANDED_ON_NS..=latest).contains(&after)
        };
        let given = &to_it.find(is_given)?.what;
        Some(Signal {
            sender: given.sender.clone(),
            code: given.code,
            call: given.call.clone(),
            ..signal.clone()
        })
    }

    /// Notes that a sender was exiting: since when if that was the whole process, else since when its
    /// last threads were.
    fn sent_while_exiting(&mut self, time: BootTime, sender: &Sender) {
        let whole = sender.process_exiting;
        if !sender.exiting || whole == Some(false) || self.processes.get(sender.process).is_none() {
            return;
        }
        let since = self.exiting_since.entry(sender.process.truncated());
        let since = since.or_insert((time, whole));
        if since.1.is_none() && (whole.is_some() || time.since(since.0) > EXITS_NS) {
            *since = (time, whole);
        }
    }

    fn delivered(&mut self, time: BootTime, process: ProcessKey, what: (i32, i32)) {
        let delivered = self.delivered.entry(process.truncated()).or_default();
        if delivered.len() >= MAX_SIGNALS {
            delivered.remove(MAX_SIGNALS / 2);
        }
        delivered.push(Timestamped { time, what });
    }

    fn cgroup_sampled(&mut self, time: BootTime, state: &CgroupState) {
        self.limits.observe(time, state);
        let states = self.cgroups.entry(state.path.clone()).or_default();
        let what = state.clone();
        states.push(Timestamped { time, what });
        let old = states.partition_point(|seen| time.since(seen.time) > CGROUP_NS);
        if old > CGROUP_AT_ONCE {
            states.drain(..old - 1);
        }
    }

    fn memory_sampled(&mut self, time: BootTime, sample: &ProcessMemory) {
        let memory = self.shares.sampled(sample.process, &sample.memory);
        self.processes.touch(sample.process).memory = Some((time, memory));
        let Some(private) = memory.private() else {
            return;
        };
        let short = sample.process.truncated();
        self.recent_samples.push(short, time, private);
        let floor = self.growth_floors.entry(short);
        floor
            .or_insert_with(|| GrowthFloor::new(time, private))
            .sampled(time, private);
        if let Some(calls) = self.calls.get_mut(&short) {
            calls.sampled(time, private);
        }
        self.holds(sample.process, private, time);
        self.swing(sample.process, time);
    }

    fn gpu_sampled(&mut self, time: BootTime, state: &GpuState) {
        self.gpus.sampled(time, state);
        for process in self.gpus.fallen() {
            self.swing(process, time);
        }
    }

    /// Checks whether what left a GPU came to the host.
    fn swing(&mut self, process: ProcessKey, time: BootTime) {
        if self.gpus.has_fallen(process) {
            let samples = self.recent_samples.get(process);
            let host = samples.map_or(Bytes(0), |samples| samples.risen(gpus::lately(time)));
            self.gpus.host_rose(process, time, host);
        }
    }

    /// Updates the owner that a process works for.
    fn owned(&mut self, process: ProcessKey, time: BootTime) {
        self.named_by_gcs(process);
        let owner = self.processes.get(process).and_then(owners::of_state);
        let owner = self.or_its_class(process, owner);
        self.owners.works_for(process, owner, time);
    }

    /// Replaces the owner of a call by the class of the actor's worker. Calls of an actor may have
    /// names of their own, as those of Ray Train have.
    fn or_its_class(
        &self,
        process: ProcessKey,
        owner: Option<owners::OwnerName>,
    ) -> Option<owners::OwnerName> {
        let has_own_name = owner
            .as_ref()
            .is_some_and(|one| one.kind == OwnerKind::Task);
        let class = self.owners.class_of(process).filter(|_| has_own_name);
        let Some(class) = class else {
            return owner;
        };
        let about = self.ray_about(process);
        let mut facts = about.iter().map(|seen| &seen.what.fact);
        if facts.any(|fact| matches!(fact, RayFact::ActorState { .. })) {
            Some(class.clone())
        } else {
            owner
        }
    }

    /// Takes from the GCS what neither a title nor a log has said.
    fn named_by_gcs(&mut self, process: ProcessKey) {
        let state = self.processes.get(process);
        let Some(actor) = state.and_then(|state| self.gcs.actor(state)) else {
            return;
        };
        let (class, job) = (actor.class.clone(), actor.job_id.clone());
        let state = self.processes.touch(process);
        state.actor_class = state.actor_class.take().or(class);
        state.job_id = state.job_id.take().or(job);
    }

    fn told_by_gcs(&mut self, cluster: ProcessKey, row: &GcsRow, time: BootTime) {
        let worker = self.gcs.take(cluster, row);
        let state = worker.and_then(|worker| self.processes.by_worker(cluster, &worker));
        if let Some(process) = state.map(|state| state.key) {
            self.owned(process, time);
        }
    }

    /// Notes a driver, to wait for the first work of its job.
    fn drives(&mut self, process: ProcessKey) {
        let waits = |driver: &ProcessState| {
            driver.role == Role::Driver && driver.before.is_none() && driver.exit.is_none()
        };
        let waits = self.processes.get(process).is_some_and(waits);
        if waits && !self.waiting_drivers.iter().any(|one| one.same(process)) {
            self.waiting_drivers.push(process);
        }
    }

    /// Notes that a worker runs something. What the driver of its job holds by now, it held before
    /// its job began.
    fn works(&mut self, process: ProcessKey) {
        if self.waiting_drivers.is_empty() {
            return;
        }
        let Some(worker) = self.processes.get(process) else {
            return;
        };
        let runs = worker
            .title
            .as_deref()
            .is_some_and(|title| !identify::is_idle(title));
        let Some(raylet) = worker
            .cluster
            .filter(|_| runs && worker.role == Role::Worker)
        else {
            return;
        };
        let job = worker.job();
        let mut began: Vec<(ProcessKey, Bytes)> = Vec::new();
        self.waiting_drivers.retain(|key| {
            let driver = self
                .processes
                .get(*key)
                .filter(|driver| driver.belongs_to(raylet));
            let held = driver.and_then(|driver| {
                let same = driver
                    .job()
                    .zip(job.as_ref())
                    .is_none_or(|(one, other)| one == *other);
                driver.memory?.1.private().filter(|_| same)
            });
            began.extend(held.map(|held| (*key, held)));
            held.is_none()
        });
        for (driver, held) in began {
            self.processes.touch(driver).before = Some(held);
        }
    }

    fn holds(&mut self, process: ProcessKey, private: Bytes, time: BootTime) {
        if !self.owners.holds(process, private, time) {
            self.owned(process, time);
            self.owners.holds(process, private, time);
        }
    }

    /// Records what a driver runs with.
    fn driver_runs(&mut self, what: &Observation) {
        let Observation::DriverSettings {
            process,
            settings,
            packages,
        } = what
        else {
            return;
        };
        self.driver_settings.push((*process, settings.clone()));
        if !packages.is_empty() {
            self.driver_packages.push((*process, packages.clone()));
        }
    }

    fn called(&mut self, call: &Call, time: BootTime) {
        let state = self.processes.touch(call.process);
        state.called(call);
        self.works(call.process);
        let state = self.processes.touch(call.process);
        let calls = self.calls.entry(call.process.truncated()).or_default();
        calls.fold(call);
        // A short call is reported when it has ended.
        let owner = owners::of_call(state, call);
        let owner = self.or_its_class(call.process, owner);
        if let Some(owner) = owner.clone().filter(|_| call.ended.is_some()) {
            self.owners.completed(owner);
        }
        self.owners.works_for(call.process, owner, time);
        if let Some(private) = call.after.or(call.before) {
            self.owners.holds(call.process, private, time);
        }
    }

    fn exited(&mut self, id: EventId, time: BootTime, source: Source, exit: &Exit) {
        self.growth_attribution.ended(time, exit.process);
        if self.exit_of.contains_key(&exit.process.truncated()) {
            return;
        }
        let unreaped = before_the_reaper(&self.victims, exit);
        let split = unreaped.as_ref().unwrap_or(&exit.memory);
        let exit = &Exit {
            memory: self.shares.at_end(exit.process, split),
            ..exit.clone()
        };
        self.shares.forget(exit.process);
        let state = self.processes.ended(exit.process, id);
        state.parent = state.parent.or(exit.parent);
        state.ns_pid = exit.ns_pid.or(state.ns_pid);
        if !exit.comm.is_empty() {
            state.comm.clone_from(&exit.comm);
        }
        if let Some(title) = &exit.title {
            state.ended_as(title);
        }
        self.processes.index(exit.process, None);
        self.owned(exit.process, time);
        if let Some(private) = exit.memory.private().filter(|private| private.0 > 0) {
            self.owners.holds(exit.process, private, time);
            self.machine.ended(time, private);
        }
        self.owners.ended(exit.process);
        self.waiting_drivers
            .retain(|driver| !driver.same(exit.process));
        self.exit_of.insert(exit.process.truncated(), id);
        let seen = ExitSeen {
            id,
            time,
            source,
            exit: exit.clone(),
            around: Box::default(),
        };
        self.exits.insert(id, Box::new(seen));
    }

    /// Records a line of Ray's logs. Text of a worker's own files is evidence about that worker
    /// alone: it cannot say what the raylet did.
    fn ray_said(&mut self, time: BootTime, source: Source, record: &RayLog) {
        if source == Source::WorkerLog && !of_the_worker_itself(&record.fact) {
            return;
        }
        if let Some(cluster) = record.cluster {
            let cluster = cluster.truncated();
            if let RayFact::Gcs(row) = &record.fact {
                return self.told_by_gcs(cluster, row, time);
            }
            if let RayFact::WorkerStarted {
                pid,
                worker_id: Some(worker),
                ..
            } = &record.fact
                && let Some(key) = self
                    .processes
                    .by_ray_pid(cluster, *pid)
                    .map(|state| state.key)
            {
                self.processes.index(key, Some(worker.clone()));
            }
        }
        self.ray_log_records.push(Timestamped {
            time,
            what: record.clone(),
        });
        if self.ray_log_records.is_full() {
            let processes = &self.processes;
            let is_stray = |said: &RayLog| names_no_process(processes, said);
            self.ray_log_records.make_room(self.last_time, is_stray);
        }
    }

    fn mapped_by(&mut self, time: BootTime, what: Mapped) {
        let of = self.mapped.entry(what.process.truncated()).or_default();
        push_bounded(of, MAX_MAPPED, Timestamped { time, what });
    }

    fn monitor_counted(&mut self, time: BootTime, what: MonitorCount) {
        let of = self.monitors.entry(what.raylet.truncated()).or_default();
        push_bounded(of, MAX_MONITOR_COUNTS, Timestamped { time, what });
    }

    /// Records a process outside Ray. One that has given its memory back, or is gone, is reported
    /// once more with 0 bytes.
    fn outside_sampled(&mut self, time: BootTime, outside: &OutsideMemory) {
        let key = outside.process.truncated();
        let private = outside.memory.private().unwrap_or_default();
        self.recent_samples.push(key, time, private);
        if private == Bytes(0) {
            self.outside.remove(&key);
            return;
        }
        let one = Outside {
            pid: outside.process.pid,
            name: outside.name.clone(),
            cgroup: outside.cgroup.clone(),
            private,
        };
        self.outside.insert(key, (time, one));
    }

    fn grew(&mut self, time: BootTime, stack: &PythonStack) {
        let process = self.processes.touch(stack.process);
        let owner = Owner {
            class: process.class(),
            otherwise: process.owner(),
        };
        self.growth_attribution.observe(time, stack, owner);
    }

    fn node_sampled(&mut self, time: BootTime, node: &NodeMemory) {
        self.shared_files.summed(time, node.shmem, &self.processes);
        let (owners, files) = (&self.owners, &self.shared_files);
        self.machine.sampled(time, node, || MemoryHolders {
            tracked: owners.total(),
            processes: owners.processes(),
            shared: files.biggest(&self.processes),
        });
    }

    /// Drops everything about one process, for the live judge.
    pub(crate) fn forget(&mut self, key: ProcessKey) {
        let short = key.truncated();
        if let Some(state) = self.processes.get(key) {
            self.gcs.forget(state);
        }
        self.processes.forget(key);
        self.waiting_drivers.retain(|driver| !driver.same(key));
        self.signals.remove(&short);
        self.delivered.remove(&short);
        self.interferences.forget(key);
        self.exiting_since.remove(&short);
        let calls = &self.calls;
        self.growth_attribution
            .settle(None, |process, time| called(calls, process, time));
        self.calls.remove(&short);
        self.owners.ended(key);
        self.shares.forget(key);
        self.gpus.forget(key);
        self.mapped.remove(&short);
        self.recent_samples.forget(key);
        self.growth_floors.remove(&short);
        self.steps.remove(&short);
        self.monitors.remove(&short);
        if let Some(id) = self.exit_of.remove(&short) {
            self.exits.remove(&id);
        }
        self.drop_oldest();
    }

    /// Drops the oldest of what a live judge would keep for ever. Returns whether there was any.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        let mut dropped = self.trim_clusters();
        dropped |= trim(&mut self.kernel_log);
        dropped |= trim(&mut self.victims);
        dropped |= trim(&mut self.driver_settings);
        dropped |= trim(&mut self.driver_packages);
        dropped |= trim(&mut self.shared_memory);
        dropped
    }

    /// Drops the oldest clusters that are over, if there are too many. Anybody may start something
    /// that is called a raylet.
    fn trim_clusters(&mut self) -> bool {
        let mut too_many = self.clusters.len().saturating_sub(MAX_CLUSTERS);
        if too_many == 0 {
            return false;
        }
        let before = self.clusters.len();
        too_many += MAX_CLUSTERS / 2;
        let processes = &self.processes;
        self.clusters.retain(|cluster| {
            let state = processes.get(cluster.raylet);
            let is_over = state.is_none_or(|state| state.exit.is_some());
            let goes = is_over && too_many > 0;
            too_many -= usize::from(goes);
            !goes
        });
        self.clusters.len() < before
    }

    /// Returns the exit of a process, if it was seen.
    pub(crate) fn exit(&self, key: ProcessKey) -> Option<&ExitSeen> {
        let id = self.exit_of.get(&key.truncated())?;
        self.exits.get(id).map(|exit| &**exit)
    }

    pub(crate) fn signals_to(&self, key: ProcessKey) -> &[Timestamped<Signal>] {
        self.signals
            .get(&key.truncated())
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the number of a cluster in the report.
    pub(crate) fn cluster_number(&self, cluster: Option<ProcessKey>) -> Option<u32> {
        let raylet = cluster?;
        let mut known = self.clusters.iter();
        let at = known.position(|known| known.raylet.same(raylet))?;
        u32::try_from(at).ok()
    }

    pub(crate) fn cluster(&self, raylet: ProcessKey) -> Option<&Cluster> {
        self.clusters
            .iter()
            .find(|cluster| cluster.raylet.same(raylet))
    }

    /// Returns what Ray's logs say about this process, by worker id and by the pid that Ray prints
    /// within a cluster.
    pub(crate) fn ray_about(&self, key: ProcessKey) -> Vec<&Timestamped<RayLog>> {
        let Some(state) = self.processes.get(key) else {
            return Vec::new();
        };
        let process = state
            .cluster
            .map(|cluster| (cluster.truncated(), state.pid_for_ray()));
        // Drivers of all clusters have the same ids.
        let of_its_cluster = |seen: &&Timestamped<RayLog>| match (seen.what.cluster, state.cluster)
        {
            (Some(one), Some(other)) => one.same(other),
            _ => true,
        };
        let start = state.key.start;
        let exit = self.exit(key).map(|exit| exit.time);
        let its = |time: BootTime| {
            time.since(start) > -STAMP_NS && exit.is_none_or(|exit| time.since(exit) < AFTER_NS)
        };
        self.ray_log_records
            .about(state.worker_id.as_ref(), process, its)
            .filter(of_its_cluster)
            .collect()
    }

    /// Returns the job of a worker, by Ray's logs.
    pub(crate) fn ray_job(&self, key: ProcessKey) -> Option<HexId> {
        let worker = self.processes.get(key)?.worker_id.clone();
        self.ray_about(key)
            .iter()
            .find_map(|record| match &record.what.fact {
                RayFact::MonitorKill(kill) => kill.of_worker(worker.as_ref())?.job_id.clone(),
                RayFact::Marker { name, value, .. } if name == "job_id" => HexId::parse(value),
                RayFact::Disconnected { job_id, .. } => job_id.clone(),
                _ => None,
            })
    }

    /// Returns the pid of a driver that left this cluster, and when it did, by the raylet of a node
    /// here.
    pub(crate) fn driver_left(
        &self,
        raylet: ProcessKey,
        worker: &HexId,
    ) -> Option<(Pid, BootTime)> {
        let session = |raylet| self.cluster(raylet)?.session.as_deref();
        let wanted = session(raylet)?;
        let about = self.ray_log_records.about(Some(worker), None, |_| true);
        about
            .filter(|seen| seen.what.cluster.and_then(session) == Some(wanted))
            .find_map(|seen| match seen.what.fact {
                RayFact::DriverDisconnected { pid, .. } => Some((pid, seen.time)),
                _ => None,
            })
    }

    /// Returns what the logs of a cluster say about itself.
    pub(crate) fn ray_of_cluster(
        &self,
        raylet: ProcessKey,
    ) -> impl DoubleEndedIterator<Item = &Timestamped<RayLog>> {
        self.ray_log_records.of_cluster(raylet)
    }
}

/// Returns what a process held when the OOM killer marked it, if the kernel's OOM reaper took that
/// away before the end. The reaper begins at once on kernels before 5.18, and after two seconds on
/// later ones and on those with that change.
fn before_the_reaper(victims: &[Timestamped<OomVictim>], exit: &Exit) -> Option<MemorySplit> {
    let marks = victims.iter().map(|seen| &seen.what);
    let mark = marks.rev().find(|mark| mark.victim.same(exit.process))?;
    let (held, left) = (mark.memory.resident(), exit.memory.resident());
    (held > left).then(|| MemorySplit {
        peak: mark.memory.peak.max(exit.memory.peak),
        ..mark.memory
    })
}

/// Returns the title of the call of a process at `time`.
fn called(calls: &ByProcess<Box<Calls>>, process: ProcessKey, time: BootTime) -> Option<Title> {
    calls.get(&process)?.title_at(time)
}

fn replace<T: Clone>(list: &mut Vec<T>, new: &T, same: impl Fn(&T) -> bool) {
    match list.iter_mut().find(|known| same(known)) {
        Some(known) => *known = new.clone(),
        None => list.push(new.clone()),
    }
}

/// Whether a worker may say this: its own end, its markers, its exceptions, and what became of the
/// tasks that it owns.
fn of_the_worker_itself(fact: &RayFact) -> bool {
    matches!(
        fact,
        RayFact::SelfDisconnect { .. }
            | RayFact::RayletLost { .. }
            | RayFact::ForceKillActor { .. }
            | RayFact::Marker { .. }
            | RayFact::FailureSignal { .. }
            | RayFact::Exception { .. }
            | RayFact::Configuration { .. }
            | RayFact::GpuMoved { .. }
            | RayFact::TrainingStep { .. }
            | RayFact::DiedInException { .. }
            | RayFact::TaskFailed { .. }
            | RayFact::ActorState { .. }
    )
}

/// Whether a raylet's log names only processes that were not seen. The GCS also speaks of those on
/// other nodes.
fn names_no_process(processes: &Processes, said: &RayLog) -> bool {
    let Some(cluster) = said
        .cluster
        .filter(|_| !said.file.starts_with("gcs_server"))
    else {
        return false;
    };
    let about = said.fact.about();
    if about.workers.is_empty() && about.pids.is_empty() {
        return false;
    }
    let mut workers = about.workers.iter();
    let mut pids = about.pids.iter();
    let is_worker = workers.any(|worker| processes.by_worker(cluster, worker).is_some());
    !is_worker && !pids.any(|pid| processes.by_ray_pid(cluster, *pid).is_some())
}

/// Adds one. Drops the oldest if there are too many.
fn push_bounded<T>(kept: &mut VecDeque<T>, most: usize, one: T) {
    if kept.len() >= most {
        kept.pop_front();
    }
    kept.push_back(one);
}

/// Drops the older half of what has become too much. Returns whether it did.
fn trim<T>(kept: &mut Vec<T>) -> bool {
    let too_many = kept.len() > MAX_KERNEL_WORDS;
    if too_many {
        kept.drain(..MAX_KERNEL_WORDS / 2);
    }
    too_many
}

/// Returns the place of the signal that says least about an end: the oldest that was not even
/// queued, else the oldest that did nothing at once and that no process catches in order to end,
/// else one in the middle. Anybody who may signal a process can send it many that do nothing.
fn least_telling(signals: &[Timestamped<Signal>]) -> usize {
    let says = |signal: &Signal| {
        let is_queued = matches!(signal.result, 0 | 4);
        let may_end = signal.took_effect || is_queued && ENDING.contains(&signal.signal);
        let by_another = is_queued && !signal.sender.process.same(signal.target);
        (may_end, by_another, is_queued)
    };
    let numbered = signals.iter().enumerate();
    let least = numbered.min_by_key(|(_, seen)| says(&seen.what));
    let least = least.filter(|(_, seen)| !says(&seen.what).0);
    least.map_or(signals.len() / 2, |(place, _)| place)
}
