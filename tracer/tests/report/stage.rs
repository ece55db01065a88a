//! Stages recordings: who runs, and who kills whom.

use raytrace::{
    event::{
        CgroupLevel, Cluster, Event, Exit, MemorySplit, Mode, NodeMemory, Observation, OomVictim,
        Process, ProcessMemory, RayLog, RecordingStarted, Role, Sender, ShortOf, Signal, Source,
        Worker,
    },
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey, WallTime},
    ray::facts::RayFact,
    recording::Writer,
};

use crate::ran::Recording;

const RAYLET: u32 = 100;
const SECOND: u64 = 1_000_000_000;
/// When the staged recordings begin: 2026-11-20T08:00:00Z.
const EIGHT: i64 = 1_795_161_600_000_000_000;
/// The usage and the limit of a full cgroup.
const LIMIT: Bytes = Bytes(2 << 30);

/// A recording in the making.
pub(crate) struct Stage {
    events: Vec<Event>,
    now: u64,
    /// The cgroup that is full when the kernel kills.
    cgroup: String,
}

fn key(pid: u32) -> ProcessKey {
    ProcessKey::new(pid, u64::from(pid) * 10_000_000)
}

pub(crate) fn worker_id(pid: u32) -> String {
    format!("{pid:08x}{}", "ab".repeat(24))
}

fn identity(pid: u32) -> Worker {
    Worker {
        process: key(pid),
        worker_id: HexId(worker_id(pid)),
        job_id: HexId::parse("01000000"),
        actor_class: None,
        driver: false,
        from: "test".into(),
    }
}

impl Stage {
    /// Begins with a machine of 16 GiB, 12 of them in use, and a raylet.
    pub(crate) fn new() -> Self {
        let mut stage = Self {
            events: Vec::new(),
            now: 1000 * SECOND,
            cgroup: "/job".into(),
        };
        stage.push(
            Source::Recorder,
            Observation::RecordingStarted(RecordingStarted {
                raytrace: "0".into(),
                host: "gpu-07".into(),
                kernel: "6.18.0".into(),
                boot_id: "b".into(),
                memory_bytes: Bytes(16 << 30),
                cpus: 2,
                cgroup_version: None,
                mode: Mode::Ebpf,
                wall: WallTime(EIGHT),
                pid_namespace: None,
                part: None,
                previous: None,
                recorder: None,
                supervisor: None,
            }),
        );
        stage.push(
            Source::Proc,
            Observation::Cluster(Cluster {
                session: Some("session_x".into()),
                ray_version: Some("2.60.0".into()),
                node_id: HexId::parse(&"550e".repeat(14)),
                head: true,
                ..Cluster::new(key(RAYLET))
            }),
        );
        stage.process(RAYLET, 1, "raylet", Role::Raylet);
        let node = NodeMemory {
            total: Bytes(16 << 30),
            available: Bytes(4 << 30),
            ..NodeMemory::default()
        };
        stage.push(Source::Proc, Observation::Node(node));
        stage
    }

    fn push(&mut self, source: Source, what: Observation) {
        self.now += 1000;
        self.events.push(Event {
            id: EventId(self.events.len() as u64 + 1),
            time: BootTime(self.now),
            source,
            what,
        });
    }

    pub(crate) fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += seconds * SECOND;
        self
    }

    fn process(&mut self, pid: u32, parent: u32, comm: &str, role: Role) {
        let process = self.described(pid, parent, comm, role);
        self.push(Source::Proc, Observation::Process(process));
    }

    fn described(&self, pid: u32, parent: u32, comm: &str, role: Role) -> Process {
        Process {
            process: key(pid),
            ns_pid: None,
            parent: Some(Pid(parent)),
            process_group: None,
            slurm: None,
            comm: comm.chars().take(15).collect(),
            argv: vec![comm.into()],
            exe: None,
            uid: Some(0),
            cgroup: Some(self.cgroup.clone()),
            container_id: None,
            cluster: Some(key(RAYLET)),
            role,
        }
    }

    fn worker(&mut self, pid: u32, task: &str) {
        self.process(pid, RAYLET, &format!("ray::{task}"), Role::Worker);
        let worker = identity(pid);
        self.push(Source::Proc, Observation::Worker(worker));
    }

    fn sigkill(&mut self, pid: u32, from: u32, comm: &str, code: i32) {
        let signal = Signal {
            target: key(pid),
            target_tid: Pid(pid),
            signal: 9,
            code,
            group: true,
            result: 0,
            group_exit: true,
            group_exit_code: 9,
            took_effect: true,
            parent_death_signal: 0,
            tracer: None,
            sender: Sender {
                process: key(from),
                tid: Pid(from),
                comm: comm.into(),
                uid: 1000,
                exiting: false,
                process_exiting: None,
                kernel_thread: false,
                exe: Some(format!("/home/zoltan/bin/{comm}")),
                cgroup: None,
                ancestors: Vec::new(),
                container_id: None,
                effective_uid: Some(1000),
                saved_uid: Some(1000),
                file: None,
                argv: Vec::new(),
                exec_seen: true,
                same_root: true,
            },
            call: None,
        };
        self.push(Source::Kernel, Observation::Signal(signal));
    }

    /// Stages a kernel OOM kill of a worker, at the limit of its cgroup.
    pub(crate) fn oom_kill(&mut self, pid: u32) -> &mut Self {
        self.oom_kill_of(pid, "hog")
    }

    /// Stages the same while the worker runs this task.
    pub(crate) fn oom_kill_of(&mut self, pid: u32, task: &str) -> &mut Self {
        self.worker(pid, task);
        self.sigkill(pid, pid, "ray::hog", 128);
        let level = |id, path: &str, limit| CgroupLevel {
            id,
            path: path.to_owned(),
            usage: LIMIT,
            limit,
            oom_events: 0,
        };
        let victim = OomVictim {
            victim: key(pid),
            victim_tid: Pid(pid),
            signalled: true,
            mm: u64::from(pid),
            invoker: key(pid),
            invoker_comm: "ray::hog".into(),
            stack: vec!["oom_kill_process".into(), "mem_cgroup_out_of_memory".into()],
            short_of: Some(ShortOf::Cgroup { id: 2 }),
            cgroups: vec![level(2, &self.cgroup, Some(LIMIT)), level(1, "/", None)],
            score_adj: 1000,
            memory: MemorySplit::default(),
        };
        self.push(Source::Kernel, Observation::OomVictim(victim));
        self.exit(pid, 9, Some(&format!("ray::{task}")));
        self
    }

    /// Stages a kill of a worker by a user.
    pub(crate) fn user_kill(&mut self, pid: u32) -> &mut Self {
        self.user_kill_of(pid, "hog")
    }

    /// Stages the same while the worker runs this task.
    pub(crate) fn user_kill_of(&mut self, pid: u32, task: &str) -> &mut Self {
        self.worker(pid, task);
        self.sample(pid);
        self.sigkill(pid, 77, "bash", 0);
        self.exit(pid, 9, Some(&format!("ray::{task}")));
        self
    }

    fn sample(&mut self, pid: u32) {
        let memory = MemorySplit {
            anon: Some(Bytes(1 << 29)),
            ..MemorySplit::default()
        };
        let process = key(pid);
        let sample = ProcessMemory { process, memory };
        self.push(Source::Proc, Observation::Memory(sample));
    }

    /// Stages the session's folder and the address of its GCS.
    pub(crate) fn lives_in(&mut self, folder: &str, address: &str) {
        let known = self.events.iter().find_map(|event| match &event.what {
            Observation::Cluster(cluster) => Some(cluster.clone()),
            _ => None,
        });
        let cluster = Cluster {
            session_dir: Some(folder.into()),
            gcs_address: Some(address.into()),
            ..known.expect("a cluster")
        };
        self.push(Source::Proc, Observation::Cluster(cluster));
    }

    /// Sets the cgroup that is full when the kernel kills from now on.
    pub(crate) fn cgroup(&mut self, path: &str) {
        path.clone_into(&mut self.cgroup);
    }

    /// Stages a program with its arguments.
    pub(crate) fn program(&mut self, pid: u32, role: Role, argv: &[&str]) {
        let process = Process {
            argv: argv.iter().map(ToString::to_string).collect(),
            ..self.described(pid, RAYLET, argv[0], role)
        };
        self.push(Source::Proc, Observation::Process(process));
    }

    /// Makes a program the driver of job 01000000.
    pub(crate) fn job(&mut self, pid: u32) {
        let driver = Worker {
            driver: true,
            ..identity(pid)
        };
        self.push(Source::Proc, Observation::Worker(driver));
    }

    /// Stages the end of a process that was described before.
    pub(crate) fn ends(&mut self, pid: u32, status: i32) -> &mut Self {
        self.exit(pid, status, None);
        self
    }

    /// Stages a line in the log of worker 4001.
    pub(crate) fn says(&mut self, line: &str) {
        let (class, message) = line.split_once(": ").expect("a class");
        let log = RayLog {
            cluster: Some(key(RAYLET)),
            file: format!("worker-{}.err", worker_id(4001)),
            local_time: None,
            text: line.to_owned(),
            fact: RayFact::Exception {
                class: class.to_owned(),
                message: message.to_owned(),
                worker_id: HexId::parse(&worker_id(4001)),
            },
        };
        self.push(Source::WorkerLog, Observation::RayLog(log));
    }

    fn exit(&mut self, pid: u32, status: i32, title: Option<&str>) {
        let exit = Exit {
            process: key(pid),
            ns_pid: None,
            parent: None,
            comm: "x".into(),
            status: Some(status),
            title: title.map(str::to_owned),
            memory: MemorySplit {
                anon: Some(Bytes(1 << 30)),
                ..MemorySplit::default()
            },
            mm: u64::from(pid),
            uid: None,
            harvested: false,
            pending: None,
            tracer: None,
            unrecorded: None,
        };
        self.push(Source::Kernel, Observation::Exit(exit));
    }

    /// Stages short subprocesses of a worker that end normally.
    pub(crate) fn normal_exits(&mut self, count: u32) -> &mut Self {
        for pid in 10_000..10_000 + count {
            self.push(
                Source::Kernel,
                Observation::Fork {
                    parent: key(RAYLET),
                    child: key(pid),
                },
            );
            self.exit(pid, 0, None);
        }
        self
    }

    /// Writes the recording, with a clean end, into a folder of its own.
    pub(crate) fn record(&mut self) -> Recording {
        self.push(Source::Recorder, Observation::RecordingEnded);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("run.raytrace");
        let writer = Writer::create(&file, None).expect("a recording");
        let sender = writer.sender();
        for event in &self.events {
            sender.send(event.clone());
        }
        let summary = writer.finish();
        assert_eq!((summary.dropped, summary.failure), (0, None));
        Recording { folder, file }
    }
}

/// Returns a recording with an OOM kill at second 10, a user's kill at second 20, and some normal
/// exits.
pub(crate) fn two_kills() -> Recording {
    let mut stage = Stage::new();
    stage.after(10).oom_kill(4001);
    stage.after(10).user_kill(4002);
    stage.after(600).normal_exits(3).record()
}

pub(crate) fn harmless() -> Recording {
    Stage::new().after(10).normal_exits(3).record()
}
