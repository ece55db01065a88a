//! Stages the events of a test: which processes run, which signals are sent, what exits.

use crate::{
    event::{
        Ancestor, Call, CgroupLevel, Cluster, Event, Exec, Exit, FileId, KernelLog, MemorySplit,
        Mode, Observation, OomVictim, PendingSignals, Process, PythonFrame, PythonStack, RayLog,
        RecordingStarted, Role, Sender, ShortOf, Signal, Source, SystemCall, Unsampled, Worker,
    },
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey, WallTime},
    judge::{
        Judge, judge,
        report::{Death, Report},
        timeline::{Timeline, TimelineBuilder},
    },
    ray::facts::{Candidate, MonitorKill, RayFact},
};

pub(super) const RAYLET: u32 = 100;
const AGENT: u32 = 101;
/// The executable of the raylet.
const RAYLET_PROGRAM: &str = "/v/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet";
pub(super) const MS: u64 = 1_000_000;

/// A staged recording. Its fields apply to the signals, OOM marks and exits that are added next.
pub(super) struct Scene {
    pub(super) events: Vec<Event>,
    now: u64,
    /// Whether the next senders are exiting.
    pub(super) exiting: bool,
    /// Whether that is their whole process.
    pub(super) process_exiting: Option<bool>,
    /// Whether the next signals go to the whole process, not to one thread.
    pub(super) to_thread_group: bool,
    pub(super) parent_death_signal: i32,
    /// The signal that has stopped the next targets, or 0.
    pub(super) target_stopped_by: i32,
    /// The signals that are pending when the next processes exit.
    pub(super) pending: Option<PendingSignals>,
    /// Whether the next exits say that something about the process was not recorded.
    pub(super) unrecorded: Option<bool>,
    /// The tracer of the next targets and of the processes that exit.
    pub(super) tracer: Option<Ancestor>,
    /// Whether the next signals are sent by a thread other than the main one.
    pub(super) sent_by_other_thread: bool,
    /// The command line of the next senders; by default it follows from their pid.
    pub(super) argv: Option<Vec<String>>,
    /// The system call of the next senders; by default it follows from the signal's code.
    pub(super) call: Option<SystemCall>,
    /// Anonymous memory of the next OOM victims when they are marked.
    pub(super) anon_at_mark: Option<Bytes>,
    /// Anonymous memory of each process when it exits.
    pub(super) anon_at_exit: Bytes,
    pub(super) shmem_at_exit: Bytes,
}

/// The Python interpreter of the staged Ray.
pub(super) const INTERPRETER: &str = "/v/bin/python3";
pub(super) const PYTHON: FileId = FileId {
    inode: 77,
    device: 1,
};
pub(super) const BASH: FileId = FileId {
    inode: 78,
    device: 1,
};

/// Returns the key of a process. A greater pid means a later start, with these exceptions.
///
/// The driver (50) and `ray start` (9) start before the raylet, and the raylet before the processes
/// that it starts.
pub(super) fn key(pid: u32) -> ProcessKey {
    let nth = match pid {
        9 | 50 => 1,
        RAYLET => 2,
        pid => u64::from(pid),
    };
    ProcessKey::new(pid, nth * 10 * MS)
}

/// The stack of a kill at a cgroup's limit.
pub(super) const MEMCG: [&str; 4] = [
    "mark_oom_victim",
    "oom_kill_process",
    "mem_cgroup_out_of_memory",
    "do_anonymous_page",
];

pub(super) fn hex(pid: u32) -> HexId {
    HexId(format!("{pid:056x}"))
}

/// Returns growth of worker 7 by `mib` MiB in this function of the user's file; `None` if no stack
/// was seen.
pub(super) fn grown(function: Option<&str>, mib: u64) -> Observation {
    let frame = |function: &str| PythonFrame {
        file: "/u/job.py".into(),
        function: function.into(),
        line: 12,
    };
    Observation::Stack(PythonStack {
        process: key(7),
        tid: None,
        grown: Bytes(mib << 20),
        shared: Bytes(0),
        mapping: None,
        repeats: false,
        frames: function.map(frame).into_iter().collect(),
        unsampled: function.is_none().then_some(Unsampled::TooMany),
        native: Vec::new(),
    })
}

impl Scene {
    /// A node with a raylet, its agent and a driver (pid 50) of job 01000000.
    pub(super) fn new() -> Self {
        let mut scene = Self {
            events: Vec::new(),
            now: 1000 * MS,
            exiting: false,
            process_exiting: None,
            to_thread_group: true,
            parent_death_signal: 0,
            target_stopped_by: 0,
            pending: None,
            unrecorded: None,
            tracer: None,
            sent_by_other_thread: false,
            argv: None,
            call: None,
            anon_at_mark: None,
            anon_at_exit: Bytes(3 << 30),
            shmem_at_exit: Bytes(0),
        };
        scene.push(
            Source::Recorder,
            Observation::RecordingStarted(RecordingStarted {
                raytrace: "0".into(),
                host: "node".into(),
                kernel: "6".into(),
                boot_id: "b".into(),
                memory_bytes: Bytes(1 << 34),
                cpus: 2,
                cgroup_version: None,
                mode: Mode::Ebpf,
                wall: WallTime(1_700_000_000_000_000_000),
                pid_namespace: None,
                part: None,
                previous: None,
                recorder: None,
                supervisor: None,
            }),
        );
        scene.push(
            Source::Proc,
            Observation::Cluster(Cluster {
                session: Some("session_x".into()),
                ray_version: Some("2.60.0".into()),
                gcs_address: Some("127.0.0.1:6379".into()),
                head: true,
                ..Cluster::new(key(RAYLET))
            }),
        );
        scene.process(RAYLET, 50, "raylet", Role::Raylet);
        scene.agent_of_the_raylet();
        scene.process(50, 1, "python", Role::Driver);
        scene.worker(50, true);
        scene
    }

    pub(super) fn push(&mut self, source: Source, what: Observation) -> EventId {
        let event = self.event(source, what);
        let id = event.id;
        self.events.push(event);
        id
    }

    /// Returns the next event, at the present time of the scene.
    pub(super) fn event(&self, source: Source, what: Observation) -> Event {
        Event {
            id: EventId(self.events.len() as u64 + 1),
            time: BootTime(self.now),
            source,
            what,
        }
    }

    /// Makes this a recording without eBPF, in which no signal could be seen.
    pub(super) fn without_ebpf(&mut self) -> &mut Self {
        if let Some(Observation::RecordingStarted(started)) =
            self.events.first_mut().map(|event| &mut event.what)
        {
            started.mode = Mode::Procfs;
        }
        self
    }

    /// Makes this a recording of a wrapped command with this supervisor.
    pub(super) fn with_supervisor(&mut self, pid: u32) -> &mut Self {
        if let Some(Observation::RecordingStarted(started)) =
            self.events.first_mut().map(|event| &mut event.what)
        {
            started.supervisor = Some(key(pid));
        }
        self
    }

    /// Makes this a recording from inside a pid namespace.
    pub(super) fn in_pid_namespace(&mut self, namespace: u64) -> &mut Self {
        if let Some(Observation::RecordingStarted(started)) =
            self.events.first_mut().map(|event| &mut event.what)
        {
            started.pid_namespace = Some(namespace);
        }
        self
    }

    /// Lets time pass.
    pub(super) fn after(&mut self, microseconds: u64) -> &mut Self {
        self.now += microseconds * 1000;
        self
    }

    pub(super) fn process(&mut self, pid: u32, parent: u32, comm: &str, role: Role) -> &mut Self {
        self.push(
            Source::Proc,
            Observation::Process(Process {
                process: key(pid),
                ns_pid: None,
                parent: Some(Pid(parent)),
                process_group: None,
                slurm: None,
                comm: comm.into(),
                argv: vec![
                    if role == Role::Raylet {
                        RAYLET_PROGRAM
                    } else {
                        comm
                    }
                    .into(),
                ],
                exe: None,
                uid: Some(0),
                cgroup: None,
                container_id: None,
                cluster: (role != Role::Other).then_some(key(RAYLET)),
                role,
            }),
        );
        self
    }

    pub(super) fn worker(&mut self, pid: u32, driver: bool) -> &mut Self {
        self.push(
            Source::Proc,
            Observation::Worker(Worker {
                process: key(pid),
                worker_id: hex(pid),
                job_id: HexId::parse("01000000"),
                actor_class: None,
                driver,
                from: "test".into(),
            }),
        );
        self
    }

    /// The raylet starts an agent, which shows the raylet's interpreter.
    fn agent_of_the_raylet(&mut self) {
        let child = key(AGENT);
        self.push(
            Source::Kernel,
            Observation::Fork {
                parent: key(RAYLET),
                child,
            },
        );
        let argv = [
            INTERPRETER,
            "-u",
            "/v/lib/python3.11/site-packages/ray/_private/runtime_env/agent/main.py",
        ];
        let exec = Exec {
            process: child,
            parent: Some(Pid(RAYLET)),
            ns_pid: None,
            comm: "python3".into(),
            argv: argv.map(str::to_owned).to_vec(),
            uid: Some(1000),
            file: Some(PYTHON),
        };
        self.push(Source::Kernel, Observation::Exec(exec));
    }

    /// Adds the raylet's dashboard agent.
    pub(super) fn dashboard_agent(&mut self, pid: u32) -> &mut Self {
        self.process(pid, RAYLET, "ray::DashboardA", Role::Agent);
        self.push(
            Source::Proc,
            Observation::Title {
                process: key(pid),
                title: "ray::DashboardAgent".into(),
                memory: MemorySplit::default(),
            },
        );
        self
    }

    /// Adds a worker of the raylet.
    pub(super) fn ray_worker(&mut self, pid: u32) -> &mut Self {
        self.process(pid, RAYLET, "ray::hog", Role::Worker)
            .worker(pid, false)
    }

    pub(super) fn signal(
        &mut self,
        from: u32,
        to: u32,
        signal: i32,
        code: i32,
        took_effect: bool,
    ) -> &mut Self {
        let result = i32::from(!took_effect && self.dying(to));
        self.signal_with(from, to, signal, code, took_effect, result)
    }

    /// Returns the sender of the last signal, to change it.
    pub(super) fn last_sender(&mut self) -> &mut Sender {
        let mut latest = self.events.iter_mut().rev();
        let signal = latest.find_map(|event| match &mut event.what {
            Observation::Signal(signal) => Some(signal),
            _ => None,
        });
        &mut signal.expect("a signal").sender
    }

    fn dying(&self, pid: u32) -> bool {
        self.events.iter().any(|event| {
            matches!(&event.what, Observation::Signal(signal) if signal.target == key(pid) && signal.took_effect)
        })
    }

    /// Returns the system call that a signal with this code comes from. Its name is empty if the
    /// kernel sends the signal.
    fn by_code(&self, signal: i32, code: i32) -> SystemCall {
        let number = i64::from(signal);
        let (name, arguments) = match code {
            0 if self.exiting => ("#231", [0; 3]),
            0 if !self.to_thread_group => ("write", [0; 3]),
            0 => ("kill", [0, number, 0]),
            -6 => ("tgkill", [0, 0, number]),
            -1 => ("rt_sigqueueinfo", [0, number, 0]),
            _ => ("", [0; 3]),
        };
        SystemCall {
            name: name.into(),
            arguments,
        }
    }

    pub(super) fn signal_with(
        &mut self,
        from: u32,
        to: u32,
        signal: i32,
        code: i32,
        took_effect: bool,
        result: i32,
    ) -> &mut Self {
        let comm = match from {
            RAYLET => "raylet",
            9 => "ray",
            _ => "bash",
        };
        let argv = match from {
            _ if self.argv.is_some() => self.argv.clone().unwrap_or_default(),
            9 => [INTERPRETER, "/v/bin/ray", "stop"]
                .map(str::to_owned)
                .to_vec(),
            _ => vec![comm.to_owned()],
        };
        let what = Observation::Signal(Signal {
            target: key(to),
            target_tid: Pid(to),
            signal,
            code,
            group: self.to_thread_group,
            result,
            group_exit: took_effect || result == 1,
            group_exit_code: if took_effect {
                signal
            } else {
                self.target_stopped_by
            },
            took_effect,
            parent_death_signal: self.parent_death_signal,
            tracer: self.tracer.clone(),
            sender: Sender {
                process: key(from),
                tid: Pid(from + u32::from(self.sent_by_other_thread)),
                comm: comm.into(),
                uid: 1000,
                exiting: self.exiting,
                process_exiting: self.process_exiting,
                // SIGBUS with BUS_MCEERR_AO comes from the kernel's thread for memory failures.
                kernel_thread: (signal, code) == (7, 5),
                exe: Some(format!("/usr/bin/{comm}")),
                cgroup: None,
                ancestors: Vec::new(),
                container_id: None,
                effective_uid: Some(1000),
                saved_uid: Some(1000),
                file: Some(if from == 9 { PYTHON } else { BASH }),
                argv,
                exec_seen: true,
                same_root: true,
            },
            call: Some(
                self.call
                    .clone()
                    .unwrap_or_else(|| self.by_code(signal, code)),
            ),
        });
        self.push(Source::Kernel, what);
        self
    }

    /// Marks a process as the victim of the OOM killer.
    pub(super) fn oom_victim(
        &mut self,
        victim: u32,
        invoker: u32,
        signalled: bool,
        stack: &[&str],
    ) -> &mut Self {
        let level = |id: u64, path: &str, usage: u64, limit: Option<u64>| CgroupLevel {
            id,
            path: path.into(),
            usage: Bytes(usage),
            limit: limit.map(Bytes),
            oom_events: 0,
        };
        let what = Observation::OomVictim(OomVictim {
            victim: key(victim),
            victim_tid: Pid(victim),
            signalled,
            mm: u64::from(victim),
            invoker: key(invoker),
            invoker_comm: "trigger".into(),
            stack: stack.iter().map(ToString::to_string).collect(),
            cgroups: vec![
                level(3, "/job/worker", 40 << 20, None),
                level(2, "/job", 64 << 20, Some(64 << 20)),
                level(1, "/", 1 << 34, None),
            ],
            short_of: stack
                .contains(&"mem_cgroup_out_of_memory")
                .then_some(ShortOf::Cgroup { id: 2 }),
            score_adj: 1000,
            memory: MemorySplit {
                anon: self.anon_at_mark,
                ..MemorySplit::default()
            },
        });
        self.push(Source::Kernel, what);
        self
    }

    /// A worker begins a call.
    pub(super) fn begins_call(&mut self, pid: u32, title: &str) -> &mut Self {
        let call = Call {
            process: key(pid),
            title: title.into(),
            nth: 1,
            began: BootTime(self.now),
            ended: None,
            before: None,
            after: None,
            peak: None,
        };
        self.push(Source::Kernel, Observation::Call(call));
        self
    }

    /// Adds a call of a worker. `mib` is what the worker held before and after it.
    pub(super) fn completed_call(&mut self, pid: u32, title: &str, nth: u32, mib: &[u64]) {
        let call = Call {
            process: key(pid),
            title: title.into(),
            nth,
            began: BootTime(u64::from(nth) * 1000),
            ended: Some(BootTime(u64::from(nth) * 1000 + 500)),
            before: Some(Bytes(mib[0] << 20)),
            after: Some(Bytes(mib[1] << 20)),
            peak: None,
        };
        self.push(Source::Kernel, Observation::Call(call));
    }

    pub(super) fn exit_sharing(&mut self, pid: u32, status: i32, mm: u64) -> EventId {
        let what = Observation::Exit(Exit {
            process: key(pid),
            ns_pid: None,
            parent: None,
            comm: "ray::hog".into(),
            status: Some(status),
            title: (pid != 30 && pid != 50 && pid != RAYLET).then(|| "ray::hog".into()),
            memory: MemorySplit {
                anon: Some(self.anon_at_exit),
                shmem: Some(self.shmem_at_exit),
                ..MemorySplit::default()
            },
            mm,
            uid: None,
            harvested: false,
            pending: self.pending,
            tracer: self.tracer.clone(),
            unrecorded: self.unrecorded,
        });
        self.push(Source::Kernel, what)
    }

    /// Records the exit of a process with this title.
    pub(super) fn exit_titled(&mut self, pid: u32, status: i32, title: &str) -> EventId {
        let id = self.exit(pid, status);
        if let Some(Observation::Exit(exit)) = self.events.last_mut().map(|event| &mut event.what) {
            exit.title = Some(title.to_owned());
        }
        id
    }

    pub(super) fn exit(&mut self, pid: u32, status: i32) -> EventId {
        self.exit_sharing(pid, status, u64::from(pid))
    }

    /// Records that a process is missing. How it ended is not known.
    pub(super) fn exit_without_status(&mut self, pid: u32, source: Source) -> &mut Self {
        let exit = Exit {
            process: key(pid),
            ns_pid: None,
            parent: None,
            comm: "x".into(),
            status: None,
            title: None,
            memory: MemorySplit::default(),
            mm: 0,
            uid: None,
            harvested: false,
            pending: None,
            tracer: None,
            unrecorded: None,
        };
        self.push(source, Observation::Exit(exit));
        self
    }

    pub(super) fn kmsg(&mut self, line: KernelLog) -> &mut Self {
        self.push(Source::Kmsg, Observation::Kmsg(line));
        self
    }

    pub(super) fn says_from(&mut self, source: Source, fact: RayFact) -> &mut Self {
        let what = Observation::RayLog(RayLog {
            cluster: Some(key(RAYLET)),
            file: "raylet.out".into(),
            local_time: None,
            text: "a line".into(),
            fact,
        });
        self.push(source, what);
        self
    }

    /// Adds the owner's line on a task that was killed for memory and is retried.
    pub(super) fn retries_after_oom(&mut self, task: &str) -> &mut Self {
        self.says_from(
            Source::WorkerLog,
            RayFact::TaskFailed {
                task_id: None,
                error: "OUT_OF_MEMORY".into(),
                will_retry: Some(true),
                retries_left: Some(-1),
                task_name: Some(task.into()),
                job_id: HexId::parse("01000000"),
            },
        )
    }

    /// Adds a fact from the raylet's log.
    pub(super) fn says(&mut self, fact: RayFact) -> &mut Self {
        self.says_from(Source::RayLog, fact)
    }

    pub(super) fn timeline(&self) -> Timeline {
        let (mut judge, mut taken) = (Judge::default(), TimelineBuilder::default());
        for event in &self.events {
            judge.observe(event);
            taken.observe(event);
        }
        judge.timeline(taken).expect("a timeline")
    }

    /// Records the cluster again, with a change.
    pub(super) fn change_cluster(&mut self, change: impl FnOnce(&mut Cluster)) {
        let known = self
            .events
            .iter()
            .rev()
            .find_map(|event| match &event.what {
                Observation::Cluster(cluster) => Some(cluster.clone()),
                _ => None,
            });
        let mut cluster = known.expect("a cluster");
        change(&mut cluster);
        self.push(Source::Proc, Observation::Cluster(cluster));
    }

    /// Records a process again, with a change.
    pub(super) fn change_process(&mut self, pid: u32, change: impl FnOnce(&mut Process)) {
        let known = self
            .events
            .iter()
            .rev()
            .find_map(|event| match &event.what {
                Observation::Process(process) if process.process == key(pid) => {
                    Some(process.clone())
                }
                _ => None,
            });
        let mut process = known.expect("a process");
        change(&mut process);
        self.push(Source::Proc, Observation::Process(process));
    }

    /// Records that a signal took its default action.
    pub(super) fn delivered(&mut self, pid: u32, signal: i32, code: i32) {
        let process = key(pid);
        let what = Observation::Delivered {
            process,
            signal,
            code,
        };
        self.push(Source::Kernel, what);
    }

    pub(super) fn report(&self) -> Report {
        judge(&self.events)
    }

    /// Returns the death of `exit` as the live recorder judges it now.
    pub(super) fn death_so_far(&self, exit: EventId) -> Death {
        let mut judge = Judge::default();
        for event in &self.events {
            judge.observe(event);
        }
        judge.death(exit, BootTime(self.now)).expect("a death")
    }

    pub(super) fn death(&self, pid: u32) -> Death {
        let deaths: Vec<Death> = self
            .report()
            .deaths
            .into_iter()
            .filter(|death| death.process.pid == Pid(pid))
            .collect();
        let [death] = deaths.as_slice() else {
            panic!("{} deaths of pid {pid}", deaths.len())
        };
        death.clone()
    }
}

/// A kill record of Ray's memory monitor that selects some workers and spares others.
pub(super) fn monitor_kill(selected: &[u32], spared: &[u32]) -> RayFact {
    let candidate = |pid: &u32| Candidate {
        pid: Some(Pid(*pid)),
        worker_id: Some(hex(*pid)),
        ..Candidate::default()
    };
    RayFact::MonitorKill(MonitorKill {
        selected: selected.iter().map(candidate).collect(),
        spared: spared.iter().map(candidate).collect(),
        used: Some(Bytes(10 << 30)),
        threshold: Some(Bytes(9 << 30)),
        ..MonitorKill::default()
    })
}

/// Asserts who ended a process and with which certainty, and returns its death.
#[macro_export]
#[doc(hidden)]
macro_rules! assert_verdict {
    ($scene:expr, $pid:expr, $killer:ident, $certainty:ident) => {{
        let death = $scene.death($pid);
        let got = (death.verdict.killer, death.verdict.certainty);
        let want = (
            $crate::judge::report::Killer::$killer,
            $crate::judge::report::Certainty::$certainty,
        );
        assert_eq!(got, want, "{:?}", death.verdict);
        death
    }};
}
