//! Tests that a slice holds what was requested, and nothing about others.

use super::*;
use crate::{
    event::{
        Ancestor, Call, CgroupState, Cluster, Exit, KernelLog, MemorySplit, Mode, OutsideMemory,
        Process, ProcessMemory, RayLog, RecordingStarted, Role, Sender, SharedFile, Signal,
        SlurmJob, Source, Worker,
    },
    ids::{Bytes, Pid, ProcessKey, WallTime},
    judge::judge,
    ray::facts::{Candidate, MonitorKill, RayFact, TopUser},
};

/// The requested part, applied as the command does.
#[derive(Default)]
struct SliceFilter {
    job: Option<HexId>,
    session: Option<String>,
    window: Option<Window>,
}

fn cut(events: Vec<Event>, wanted: &SliceFilter) -> Result<Vec<Event>, SliceError> {
    let mut events = events;
    if let Some(job) = &wanted.job {
        let members = Members::of(&events, job, wanted.session.as_deref())?;
        let kept = events.into_iter().filter_map(|event| members.keep(event));
        events = kept.collect();
    }
    Ok(match wanted.window {
        Some(window) => window.cut(events),
        None => events,
    })
}

const SECOND: u64 = 1_000_000_000;
/// Contained in everything that belongs to the other job or user.
const MARK: &str = "secret";

fn key(pid: u32) -> ProcessKey {
    ProcessKey::new(pid, u64::from(pid) * 10_000_000)
}

fn hex(pid: u32) -> HexId {
    HexId(format!("{pid:056x}"))
}

fn event(id: u64, second: u64, what: Observation) -> Event {
    Event {
        id: EventId(id),
        time: BootTime(second * SECOND),
        source: Source::Proc,
        what,
    }
}

fn started() -> Observation {
    Observation::RecordingStarted(RecordingStarted {
        raytrace: "0".into(),
        host: "node".into(),
        kernel: "6.18".into(),
        boot_id: "b".into(),
        memory_bytes: Bytes(1 << 34),
        cpus: 2,
        cgroup_version: None,
        mode: Mode::Ebpf,
        wall: WallTime(1_795_161_600_000_000_000),
        pid_namespace: None,
        recorder: None,
        supervisor: None,
        part: None,
        previous: None,
    })
}

fn cluster(raylet: u32, session: &str) -> Observation {
    Observation::Cluster(Cluster {
        session: Some(session.into()),
        ray_version: Some("2.60.0".into()),
        head: true,
        ..Cluster::new(key(raylet))
    })
}

fn process(pid: u32, parent: u32, role: Role, name: &str, uid: u32) -> Observation {
    Observation::Process(Process {
        process: key(pid),
        ns_pid: None,
        parent: Some(Pid(parent)),
        process_group: None,
        slurm: None,
        comm: name.into(),
        argv: vec![name.into(), format!("--data=/home/{name}")],
        exe: Some(format!("/opt/{name}")),
        uid: Some(uid),
        cgroup: Some(format!("/users/{name}")),
        container_id: None,
        cluster: Some(key(100)),
        role,
    })
}

fn worker(pid: u32, job: &str, driver: bool) -> Observation {
    Observation::Worker(Worker {
        process: key(pid),
        worker_id: hex(pid),
        job_id: HexId::parse(job),
        actor_class: None,
        driver,
        from: "a file".into(),
    })
}

fn signal(target: u32, sender: u32, comm: &str, uid: u32) -> Observation {
    Observation::Signal(Signal {
        target: key(target),
        target_tid: Pid(target),
        signal: 9,
        code: 0,
        group: true,
        result: 0,
        group_exit: true,
        group_exit_code: 9,
        took_effect: true,
        parent_death_signal: 0,
        tracer: None,
        sender: Sender {
            process: key(sender),
            tid: Pid(sender),
            comm: comm.into(),
            uid,
            exiting: false,
            process_exiting: None,
            kernel_thread: false,
            exe: Some(format!("/opt/{comm}")),
            cgroup: Some(format!("/users/{comm}")),
            ancestors: Vec::new(),
            container_id: None,
            effective_uid: None,
            saved_uid: None,
            file: None,
            argv: Vec::new(),
            exec_seen: false,
            same_root: false,
        },
        call: None,
    })
}

fn exit(pid: u32, name: &str) -> Observation {
    Observation::Exit(Exit {
        process: key(pid),
        ns_pid: None,
        parent: None,
        comm: name.into(),
        status: Some(9),
        title: Some(format!("ray::{name}")),
        memory: MemorySplit::default(),
        mm: 0,
        uid: None,
        harvested: false,
        pending: None,
        tracer: None,
        unrecorded: None,
    })
}

fn said(file: &str, text: &str, fact: RayFact) -> Observation {
    Observation::RayLog(RayLog {
        cluster: Some(key(100)),
        file: file.into(),
        local_time: None,
        text: text.into(),
        fact,
    })
}

fn call(pid: u32, name: &str) -> Observation {
    Observation::Call(Call {
        process: key(pid),
        title: format!("ray::{name}"),
        nth: 1,
        began: BootTime(0),
        ended: None,
        before: None,
        after: None,
        peak: None,
    })
}

fn sample(pid: u32) -> Observation {
    Observation::Memory(ProcessMemory {
        process: key(pid),
        memory: MemorySplit {
            anon: Some(Bytes(1 << 20)),
            ..MemorySplit::default()
        },
    })
}

fn candidate(pid: u32, job: &str, task: &str) -> Candidate {
    Candidate {
        pid: Some(Pid(pid)),
        worker_id: Some(hex(pid)),
        job_id: HexId::parse(job),
        task_name: Some(task.into()),
        ..Candidate::default()
    }
}

/// Two jobs of two users on one node. Pid 7 and its child 8 belong to job 01000000; everything that
/// does not belong to that job has the mark.
fn two_jobs() -> Vec<Event> {
    let kill = RayFact::MonitorKill(MonitorKill {
        selected: vec![
            candidate(7, "01000000", "hog"),
            candidate(9, "02000000", MARK),
        ],
        top: vec![
            TopUser {
                pid: Pid(7),
                used: Bytes(1),
                command: "ray::hog".into(),
            },
            TopUser {
                pid: Pid(9),
                used: Bytes(1),
                command: format!("ray::{MARK}"),
            },
        ],
        used: Some(Bytes(10 << 30)),
        ..MonitorKill::default()
    });
    let exception = |worker: u32, message: &str| RayFact::Exception {
        class: "ValueError".into(),
        message: message.into(),
        worker_id: Some(hex(worker)),
    };
    let output = |pid: u32| format!("worker-{}-ffffffff-{pid}.err", hex(pid).0);
    let shared = |name: &str, holder: u32| {
        Observation::SharedFile(SharedFile {
            device: 1,
            inode: u64::from(holder),
            name: name.into(),
            bytes: Bytes(1 << 30),
            holders: vec![key(holder)],
            holder_count: 1,
            looked_us: 0,
        })
    };
    let cgroup = |path: &str| {
        Observation::Cgroup(CgroupState {
            path: path.into(),
            usage: Bytes(1),
            limit: Some(Bytes(2)),
            ..CgroupState::default()
        })
    };
    let all = vec![
        started(),
        cluster(100, "session_a"),
        process(100, 1, Role::Raylet, "raylet", 0),
        process(7, 100, Role::Worker, "hog", 1000),
        worker(7, "01000000", false),
        Observation::Fork {
            parent: key(7),
            child: key(8),
        },
        process(9, 100, Role::Worker, MARK, 2000),
        worker(9, "02000000", false),
        call(7, "hog"),
        call(9, MARK),
        sample(7),
        sample(9),
        cgroup("/users"),
        cgroup("/users/hog"),
        cgroup(&format!("/users/{MARK}")),
        shared("/dev/shm/plasma", 100),
        shared(&format!("/dev/shm/{MARK}"), 9),
        said(&output(7), "ValueError: x", exception(7, "x")),
        said(&output(9), MARK, exception(9, MARK)),
        said("raylet.out", &format!("Killing {MARK}"), kill),
        Observation::Outside(OutsideMemory {
            process: key(200),
            name: MARK.into(),
            cgroup: None,
            memory: MemorySplit::default(),
        }),
        signal(7, 300, MARK, 2000),
        signal(9, 300, MARK, 2000),
        exit(7, "hog"),
        exit(9, MARK),
    ];
    (1..)
        .zip(all)
        .map(|(id, what)| event(id, 1000 + id, what))
        .collect()
}

fn slice(job: &str) -> Result<Vec<Event>, SliceError> {
    let wanted = SliceFilter {
        job: HexId::parse(job),
        ..SliceFilter::default()
    };
    cut(two_jobs(), &wanted)
}

#[test]
fn job_slice_omits_other_jobs_and_users() {
    let kept = slice("01000000").expect("a slice");
    for event in &kept {
        let text = format!("{event:?}");
        assert!(!text.contains(MARK), "{text}");
        assert!(!text.contains(&hex(9).0), "{text}");
    }
    let text = format!("{:?}", two_jobs());
    assert!(text.contains(MARK), "there was something to leave out");
}

#[test]
fn job_slice_gives_the_same_verdicts() {
    let whole = judge(&two_jobs());
    let part = judge(&slice("01000000").expect("a slice"));
    let of = |report: &crate::judge::report::Report| {
        let mut deaths = report.deaths.iter();
        let death = deaths.find(|death| death.process.pid == Pid(7));
        let death = death.expect("its death");
        (
            death.id,
            death.verdict.killer,
            death.verdict.certainty,
            death.work.job_id.clone(),
        )
    };
    assert_eq!(of(&part), of(&whole));
    assert_eq!(part.deaths.len(), 1);
    assert_eq!(part.clusters.len(), 1);
    assert_eq!(part.limits.len(), 2, "its limits' figures");
}

#[test]
fn unknown_job_is_refused() {
    let missing = HexId::parse("03000000").expect("an id");
    assert_eq!(slice("03000000"), Err(SliceError::NoSuchJob(missing)));
}

#[test]
fn job_id_in_two_clusters_needs_session() {
    let mut events = two_jobs();
    let next = events.len() as u64 + 1;
    let Observation::Process(mut other) = process(11, 500, Role::Worker, MARK, 2000) else {
        return;
    };
    other.cluster = Some(key(500));
    // The drivers of job 01000000 have one worker id in all clusters.
    let driver = |pid: u32| {
        let mut driver = worker(pid, "01000000", true);
        if let Observation::Worker(worker) = &mut driver {
            let id = format!("01000000{}", "f".repeat(48));
            worker.worker_id = HexId::parse(&id).expect("an id");
        }
        driver
    };
    let Observation::Process(mut others) = process(14, 1, Role::Driver, MARK, 2000) else {
        return;
    };
    others.cluster = Some(key(500));
    let more = [
        cluster(500, "session_b"),
        Observation::Process(other),
        worker(11, "01000000", false),
        process(13, 1, Role::Driver, "own driver", 1000),
        driver(13),
        Observation::Process(others),
        driver(14),
    ];
    events.extend((next..).zip(more).map(|(id, what)| event(id, 2000, what)));
    let mut wanted = SliceFilter {
        job: HexId::parse("01000000"),
        ..SliceFilter::default()
    };
    assert!(matches!(
        cut(events.clone(), &wanted),
        Err(SliceError::SeveralClusters { .. })
    ));
    wanted.session = Some("session_a".into());
    let kept = cut(events, &wanted).expect("a slice");
    let text = format!("{kept:?}");
    assert!(
        !text.contains(MARK) && !text.contains("session_b"),
        "{text}"
    );
    assert!(text.contains("own driver"), "{text}");
}

#[test]
fn window_slice_keeps_only_processes_alive_then() {
    let mut events = two_jobs();
    let next = events.len() as u64 + 1;
    let late = [
        process(12, 100, Role::Worker, "late", 1000),
        exit(12, "late"),
    ];
    events.extend((next..).zip(late).map(|(id, what)| event(id, 9000, what)));
    let wanted = SliceFilter {
        window: Some(Window {
            from: BootTime(8000 * SECOND),
            until: BootTime(9500 * SECOND),
        }),
        ..SliceFilter::default()
    };
    let report = judge(&cut(events, &wanted).expect("a slice"));
    let pids: Vec<u32> = report.deaths.iter().map(|one| one.process.pid.0).collect();
    assert_eq!(pids, [12]);
    assert_eq!(report.clusters.len(), 1);
    let began = report.recordings[0].started.0.0 - 1_795_161_600_000_000_000;
    // The first event is at second 1001; the window begins 90 s before the requested time.
    assert_eq!(began, (7910 - 1001) * SECOND.cast_signed());
}

/// Two jobs of one user: job 01000000 of driver 50, which started the raylet 100, and job 02000000.
/// Everything that belongs only to the second job has `mark`.
fn two_jobs_of_one_user(mark: &str, uid: u32, sender: u32) -> Vec<Event> {
    let sent = |target: u32| {
        let mut sent = signal(target, sender, mark, uid);
        if let Observation::Signal(signal) = &mut sent {
            signal.sender.argv = vec!["python".into(), format!("/home/{mark}.py"), mark.into()];
            signal.sender.container_id = Some(mark.into());
            signal.sender.ancestors = vec![Ancestor {
                pid: Pid(51),
                comm: mark.into(),
            }];
        }
        sent
    };
    let fork = |parent: u32, child: u32| Observation::Fork {
        parent: key(parent),
        child: key(child),
    };
    let mut of_a_path = Cluster::new(key(100));
    of_a_path.session = Some("session_a".into());
    of_a_path.commands = vec![format!("/home/{mark}/bin/ray")];
    let mut raylets_end = exit(100, "raylet");
    if let Observation::Exit(exit) = &mut raylets_end {
        exit.title = Some(format!("raylet --resources={mark}"));
    }
    // Pid 8 was a child of the first job, and is now a shell of the second job's user.
    let mut reused = process(60, 8, Role::Other, mark, 1000);
    let mut later = process(8, 1, Role::Other, mark, 1000);
    if let Observation::Process(process) = &mut later {
        process.process = ProcessKey::new(8, 590_000_000);
        process.cluster = None;
    }
    if let Observation::Process(process) = &mut reused {
        process.cluster = None;
    }
    let killed = KernelLog::Killed {
        pid: Pid(8),
        comm: mark.into(),
        memcg: true,
        anon: Bytes(1),
        file: Bytes(1),
        shmem: None,
        score_adj: None,
    };
    let all = vec![
        started(),
        process(50, 1, Role::Driver, "driver", 1000),
        worker(50, "01000000", true),
        process(51, 1, Role::Driver, mark, 1000),
        worker(51, "02000000", true),
        fork(50, 100),
        Observation::Cluster(of_a_path),
        process(100, 50, Role::Raylet, "raylet", 1000),
        fork(100, 7),
        fork(100, 9),
        process(7, 100, Role::Worker, "hog", 1000),
        worker(7, "01000000", false),
        fork(7, 8),
        process(9, 100, Role::Worker, mark, 1000),
        worker(9, "02000000", false),
        fork(9, 10),
        process(10, 9, Role::Descendant, mark, 1000),
        call(9, mark),
        exit(8, "child"),
        later,
        reused,
        Observation::Kmsg(killed),
        sent(7),
        sent(100),
        exit(7, "hog"),
        exit(9, mark),
        raylets_end,
    ];
    (1..)
        .zip(all)
        .map(|(id, what)| event(id, 1000 + id, what))
        .collect()
}

proptest::proptest! {
    #[test]
    fn job_slice_omits_the_users_other_job(
        mark in "zq[a-z]{6,12}",
        uid in proptest::sample::select(vec![0_u32, 1000, 2000]),
        sender in proptest::sample::select(vec![9_u32, 10, 51, 300]),
    ) {
        let events = two_jobs_of_one_user(&mark, uid, sender);
        let members = Members::of(&events, &HexId::parse("01000000").expect("an id"), None);
        let members = members.expect("the job");
        let kept: Vec<Event> = events.into_iter().filter_map(|event| members.keep(event)).collect();
        for event in &kept {
            let text = format!("{event:?}");
            proptest::prop_assert!(!text.contains(&mark), "{}", text);
        }
        let exits = kept.iter().filter_map(|event| match &event.what {
            Observation::Exit(exit) => Some(exit.process.pid.0),
            _ => None,
        });
        proptest::prop_assert_eq!(exits.collect::<Vec<_>>(), [8, 7, 100]);
        let senders = kept.iter().filter_map(|event| match &event.what {
            Observation::Signal(signal) => Some((signal.sender.process.pid.0, signal.sender.uid)),
            _ => None,
        });
        proptest::prop_assert_eq!(senders.collect::<Vec<_>>(), [(sender, uid); 2]);
    }
}

/// System programs and the cluster's own `ray` are named.
#[test]
fn job_slice_names_known_senders() {
    let raylet = "/v/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet";
    let sent = |comm: &str, argv: &[&str]| {
        let mut events = two_jobs_of_one_user(MARK, 0, 300);
        for event in &mut events {
            match &mut event.what {
                Observation::Process(process) if process.role == Role::Raylet => {
                    process.argv[0] = raylet.into();
                }
                Observation::Signal(signal) => {
                    signal.sender.comm = comm.into();
                    signal.sender.argv = argv.iter().map(|word| (*word).to_owned()).collect();
                }
                _ => {}
            }
        }
        let members = Members::of(&events, &HexId::parse("01000000").expect("an id"), None);
        let members = members.expect("the job");
        let mut kept = events.into_iter().filter_map(|event| members.keep(event));
        let sent = kept.find_map(|event| match event.what {
            Observation::Signal(signal) => Some(signal.sender),
            _ => None,
        });
        let sent = sent.expect("a signal");
        (sent.comm, sent.argv)
    };
    let ray = ["/v/bin/python3", "/v/bin/ray", "stop"];
    let stop = [&ray[..], &["--grace-period", MARK]].concat();
    let kept = ["python3", "/v/bin/ray", "stop"];
    assert_eq!(
        sent("ray", &stop),
        ("ray".to_owned(), kept.map(str::to_owned).to_vec())
    );
    assert_eq!(
        sent("earlyoom", &["earlyoom", MARK]),
        ("earlyoom".to_owned(), Vec::new())
    );
    assert_eq!(sent("bash", &["bash", MARK]).1, Vec::<String>::new());
}

/// Of a place everything is kept: two jobs of its clusters, and what they say about each other.
#[test]
fn place_slice_has_what_ran_there_and_nothing_else() {
    let pod_uid = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
    let mut events = two_jobs_of_one_user(MARK, 1000, 300);
    for event in &mut events {
        match &mut event.what {
            Observation::Process(process) if process.role == Role::Raylet => {
                process.cgroup = Some(format!("/kubepods/pod{pod_uid}/{}", "a".repeat(64)));
                process.slurm = Some(Box::new(SlurmJob {
                    job: "4711".into(),
                    ..SlurmJob::default()
                }));
            }
            Observation::Cluster(cluster) => {
                let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
                cluster.settings = vec![
                    set("RAY_CLUSTER_NAMESPACE", "team-a"),
                    set("RAY_CLOUD_INSTANCE_ID", "head"),
                ];
            }
            _ => {}
        }
    }
    let subjects = |place: Place| {
        let members = Members::of_place(&events, &place)?;
        let kept = events.iter().filter_map(|one| members.keep(one.clone()));
        let kept: Vec<Event> = kept.collect();
        let processes = kept.iter().filter_map(|event| match &event.what {
            Observation::Process(process) => Some(process.process.pid.0),
            _ => None,
        });
        let jobs = kept.iter().any(|one| format!("{one:?}").contains(MARK));
        Ok::<_, SliceError>((processes.collect::<Vec<_>>(), jobs))
    };
    let all = subjects(Place::SlurmJob("4711".into())).expect("a Slurm job");
    for name in ["team-a/head", "head", pod_uid] {
        assert_eq!(subjects(Place::Pod(name.into())), Ok(all.clone()), "{name}");
    }
    assert_eq!(all, (vec![100, 7, 9, 10], true));
    for other in [
        Place::SlurmJob("471".into()),
        Place::Pod("team-b/head".into()),
    ] {
        assert_eq!(
            subjects(other.clone()),
            Err(SliceError::NothingThere(other))
        );
    }
}
