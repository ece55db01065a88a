//! Hand-made reports for the tests of the views, shaped like the judge's, with realistic figures.

use crate::{
    event::{Ancestor, Ledger, Mode, Probe, ProbeState, Role},
    ids::{BootTime, Bytes, EventId, HexId, Pid, WallTime},
    judge::{
        cause::{Cause, Command, KernelOom, ProcessRef, Scope},
        missing::Missing,
        report::{
            AtDeath, Basis, Certainty, ClusterReport, Death, End, Evidence, Finding, GpuUse, Host,
            Job, JobFramework, JobStep, Killer, LimitPeak, Mechanism, Monitor, OomReport, Outcome,
            OutcomeReason, Peak, Place, Process, Recording, Recovery, Relation, Report,
            SenderReport, SurvivedDeath, Suspect, TopProcess, Utc, Verdict, When, Work,
        },
    },
    show::{Style, time::Zone},
};

pub(in crate::show) const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;
/// 2026-11-20T08:00:00Z.
const EIGHT: i64 = 1_795_161_600 * S;

/// Returns the moment that many nanoseconds after eight o'clock.
pub(in crate::show) fn at(nanoseconds: i64) -> Utc {
    Utc(WallTime(EIGHT + nanoseconds))
}

/// Returns nanoseconds after eight o'clock.
fn clock(minutes: i64, seconds: i64, milliseconds: i64) -> i64 {
    (minutes * 60 + seconds) * S + milliseconds * MS
}

pub(in crate::show) fn gib(amount: f64) -> Bytes {
    Bytes(1 << 30).times(amount)
}

/// Returns the style of tests: 100 columns, no file.
pub(crate) fn style() -> Style {
    Style {
        width: 100,
        zone: Zone::default(),
        file: None,
        span: String::new(),
        program: "raytrace".into(),
    }
}

/// Makes a death without any extras: a proven end of a worker.
pub(in crate::show) fn death(id: u64, pid: u32, time: i64, killer: Killer, cause: Cause) -> Death {
    let process = Process {
        start_time: Some(at(-7000 * S)),
        title: Some("ray::hog".into()),
        ppid: Some(Pid(1998)),
        ..Process::new(Pid(pid), "ray::hog".into(), Role::Worker)
    };
    Death {
        id: EventId(id),
        recording_id: Some(0),
        cluster: Some(0),
        when: When {
            time: Some(at(time)),
            act_time: BootTime((10_000 * S + time).unsigned_abs()),
            began_before_ns: 0,
            exit_time: Some(at(time + 6 * MS)),
            corrected_time: None,
            stamp: None,
        },
        work: Work {
            worker_id: HexId::parse(&format!("{pid:056x}")),
            task_name: Some("hog".into()),
            job_id: HexId::parse("02000000"),
            ..Work::default()
        },
        end: End {
            signal: Some(9),
            ..End::default()
        },
        ..Death::new(process, Verdict::new(killer, Certainty::Proven, cause))
    }
}

/// Makes the cause for a user's `kill -9`.
fn killed_by_bash(pid: u32) -> Cause {
    Cause::Signal {
        signal: 9,
        sender: Some(ProcessRef {
            pid: Pid(pid),
            comm: "bash".into(),
            uid: Some(1000),
        }),
    }
}

/// Makes the cause for a kill by the kernel in a cgroup with a limit in GiB.
fn full_cgroup(cgroup: &str, limit: f64, invoker: &str) -> Cause {
    Cause::KernelOom(KernelOom {
        scope: Some(Scope::Memcg),
        cgroup: Some(cgroup.into()),
        limit_bytes: Some(gib(limit)),
        invoker: Some(invoker.into()),
        ..KernelOom::default()
    })
}

pub(in crate::show) fn titled(mut death: Death, role: Role, title: &str) -> Death {
    let name = title.strip_prefix("ray::").unwrap_or(title);
    let ray = title.starts_with("ray::");
    let class = name.split_once('.').filter(|_| ray).map(|(class, _)| class);
    death.process.role = role;
    death.process.title = Some(title.into());
    death.process.comm = title.chars().take(15).collect();
    death.work.actor_class = class.map(str::to_owned);
    death.work.task_name = (role == Role::Worker).then(|| name.to_owned());
    death
}

fn anonymous(mut death: Death, amount: f64) -> Death {
    death.memory.own.anon_bytes = Some(gib(amount));
    death
}

fn piece(time: i64, source: &str, what: &str) -> Evidence {
    Evidence {
        time: Some(at(time)),
        source: source.into(),
        what: what.into(),
        by_sender: false,
    }
}

fn top(pid: u32, title: &str, private: f64, victim: bool) -> TopProcess {
    TopProcess {
        pid: Pid(pid),
        title: title.into(),
        role: None,
        private_bytes: gib(private),
        victim,
        cgroup: None,
        age_ms: Some(120),
    }
}

fn sender(pid: u32, comm: &str, relation: Relation) -> SenderReport {
    SenderReport {
        pid: Pid(pid),
        comm: comm.into(),
        exe: Some(format!("/usr/bin/{comm}")),
        uid: Some(1000),
        container_id: None,
        relation,
        signal: Some(9),
        mechanism: Mechanism::Kill,
        ancestors: Vec::new(),
    }
}

pub(in crate::show) fn report(jobs: Vec<Job>, deaths: Vec<Death>) -> Report {
    Report {
        message_times: Vec::new(),
        schema: 1,
        raytrace: "0.1.0".into(),
        recordings: vec![recording()],
        clusters: vec![cluster()],
        jobs,
        deaths,
        pending: Vec::new(),
        owners: Vec::new(),
        gpus: Vec::new(),
        gpu_errors: Vec::new(),
        limits: Vec::new(),
        in_use: None,
        shared_memory: None,
        growth: Vec::new(),
        unread_stacks: Vec::new(),
        settings: Vec::new(),
        findings: Vec::new(),
        peak: Some(Peak {
            time: at(clock(-48, 40, 0)),
            used_bytes: gib(152.3),
            total_bytes: gib(188.0),
        }),
        notes: Vec::new(),
        texts: Vec::new(),
        nodes: Vec::new(),
        mentions: Vec::new(),
        machines: Vec::new(),
    }
}

fn recording() -> Recording {
    let probes = ["oom/mark_victim", "signal/signal_generate", "/dev/kmsg"];
    Recording {
        id: 0,
        host: Host {
            name: "gpu-07".into(),
            kernel: "6.8.0".into(),
            boot_id: "4f0c1a52-9d7b-4c0a-8a51-0d5a3c6f2b11".into(),
            memory_bytes: gib(188.0),
            cgroup_version: None,
        },
        mode: Mode::Ebpf,
        started: at(clock(-118, 11, 0)),
        ended: at(clock(42, 20, 0)),
        clean_end: true,
        still_recording: false,
        lost_probes: Vec::new(),
        previous_ended: None,
        clock: None,
        probes: probes.map(ok_probe).into(),
        lost_events: 0,
        ledgers: Vec::new(),
        normal_exits: 412,
    }
}

fn ok_probe(name: &str) -> Probe {
    Probe {
        name: name.into(),
        state: ProbeState::Ok,
        reason: None,
        required: true,
    }
}

fn cluster() -> ClusterReport {
    ClusterReport {
        id: 0,
        recording_id: 0,
        session: Some("session_2026-11-20_06-01-58_114213_1771".into()),
        ray_version: Some("2.60.0".into()),
        node_id: HexId::parse(&"550e".repeat(14)),
        raylet_pid: Pid(1998),
        container_id: None,
        node_ip: Some("192.0.2.7".into()),
        place: Place::default(),
        monitor: Some(Monitor {
            enabled: true,
            threshold_bytes: Some(gib(178.6)),
            total_bytes: Some(gib(188.0)),
            refresh_ms: Some(250),
        }),
        object_store_bytes: Some(gib(56.4)),
        log_utc_offset_s: Some(8 * 3600),
        gcs_address: None,
        cluster_id: None,
        head: true,
    }
}

pub(in crate::show) fn job(outcome: Outcome, ended_by: Option<u64>, because: OutcomeReason) -> Job {
    Job {
        cluster: Some(0),
        job_id: HexId("02000000".into()),
        entrypoint: Some("python3 -m verl.trainer.main_ppo".into()),
        framework: Some(JobFramework {
            name: "verl".into(),
            version: Some("0.5.0".into()),
        }),
        last_step: (outcome == Outcome::Failed).then_some(JobStep {
            step: 2,
            of: Some(4),
        }),
        outcome,
        ended: Some(at(clock(41, 53, 412))),
        ended_by_death_id: ended_by.map(EventId),
        recording_id: None,
        ended_by_recording_id: None,
        driver_pid: Some(Pid(1500)),
        survived: Vec::new(),
        because,
    }
}

/// Makes a report of a job whose task Ray killed three times (deaths 1 to 3), until somebody
/// stopped the driver (death 9).
pub(in crate::show) fn stopped() -> Report {
    let kill = |id: u64| {
        let cause = Cause::RayMemoryMonitor {
            used_bytes: Some(gib(493.6)),
            threshold_bytes: Some(gib(493.5)),
        };
        let pid = 40 + u32::try_from(id).expect("a small number");
        death(
            id,
            pid,
            id.cast_signed() * 10 * S,
            Killer::RayMemoryMonitor,
            cause,
        )
    };
    let mut deaths: Vec<Death> = (1..=3).map(kill).collect();
    let stop = death(9, 1500, 60 * S, Killer::Signal, killed_by_bash(77));
    deaths.push(titled(stop, Role::Driver, "python train.py"));
    let because = OutcomeReason::Driver {
        cause: killed_by_bash(77),
        exited: false,
    };
    let mut report = report(vec![job(Outcome::Failed, Some(9), because)], deaths);
    report.findings = vec![Finding {
        deaths: (1..=3).map(EventId).collect(),
        ..Finding::new("retry-loop", Certainty::Proven, "hog was killed 3 times")
    }];
    report
}

/// Makes a report of a machine with no abnormal death.
pub(in crate::show) fn quiet() -> Report {
    let mut exit = death(9, 700, 0, Killer::Exit, Cause::exit(0));
    (exit.listed, exit.end.exit_code, exit.end.signal) = (false, Some(0), None);
    let job = job(Outcome::Succeeded, None, OutcomeReason::Succeeded);
    report(vec![job], vec![exit])
}

/// Makes a report of a pod of 24 GiB that was nearly full on a machine of 512 GiB, without Ray's
/// monitor.
pub(in crate::show) fn pod() -> Report {
    let mut report = quiet();
    report.clusters[0].monitor = None;
    report.peak = Some(Peak {
        time: at(clock(20, 0, 0)),
        used_bytes: gib(30.3),
        total_bytes: gib(512.0),
    });
    report.limits = vec![LimitPeak {
        cgroup: "/sys/kubepods/pod7".into(),
        time: at(clock(21, 0, 0)),
        needed_bytes: gib(23.9),
        limit_bytes: gib(24.0),
        clusters: vec![0],
    }];
    report
}

/// Makes the verl job of the documentation: a kill that was retried, and an agent's death with 17
/// deaths in its cascade.
pub(in crate::show) fn verl() -> Report {
    let mut deaths = vec![monitor_kill(), agent_kill()];
    deaths.extend(cascade());
    let mut job = job(
        Outcome::Failed,
        Some(4711),
        OutcomeReason::AfterDeath {
            code: 1,
            basis: Basis::Order,
        },
    );
    job.survived.push(SurvivedDeath {
        death_id: EventId(4100),
        how: Recovery::TaskRetried { left: None },
    });
    let mut report = report(vec![job], deaths);
    report.clusters[0].monitor = Some(Monitor {
        enabled: true,
        threshold_bytes: Some(gib(493.5)),
        total_bytes: Some(gib(503.0)),
        refresh_ms: Some(250),
    });
    report.findings = findings();
    report
}

fn monitor_kill() -> Death {
    let time = clock(41, 7, 482);
    let cause = Cause::RayMemoryMonitor {
        used_bytes: Some(gib(493.6)),
        threshold_bytes: Some(gib(493.5)),
    };
    let death = death(4100, 41877, time, Killer::RayMemoryMonitor, cause);
    let mut death = anonymous(titled(death, Role::Worker, "ray::compute_score"), 3.3);
    death.memory.own.shmem_bytes = Some(gib(0.1));
    death.sender = Some(SenderReport {
        uid: Some(0),
        exe: Some("/opt/venv/lib/python3.12/site-packages/ray/core/src/ray/raylet/raylet".into()),
        ..sender(1998, "raylet", Relation::Ray)
    });
    let line = "Killing 1 worker(s), kill details: the memory usage is above the threshold. Selected to kill: (task_id=c8ef45ccd0112571ffffffffffffffffffffffff02000000, worker_id=a3960000000000000000000000000000000000000000000000000000, pid=41877, memory used=3.41 GB)";
    death.verdict.evidence = vec![
        piece(time - 43 * MS, "raylet.out", line),
        piece(
            time - MS / 5,
            "kernel",
            "SIGTERM from raylet (pid 1998), si_code 0: delivered; the process handles or blocks it",
        ),
        piece(
            time,
            "kernel",
            "SIGKILL from raylet (pid 1998), si_code 0: took effect",
        ),
        piece(
            time + 2 * MS,
            "raylet.out",
            "Disconnecting worker, graceful=false, disconnect_type=4, has_creation_task_exception=false worker_id=a396",
        ),
        piece(time + 6 * MS, "kernel", "killed by SIGKILL"),
    ];
    death.memory.at_death = Some(AtDeath {
        ray_used_bytes: Some(gib(493.6)),
        ray_threshold_bytes: Some(gib(493.5)),
        ray_total: None,
        limits: Vec::new(),
        object_store_bytes: None,
    });
    death.memory.top = vec![
        top(3120, "ray::TaskRunner.run", 402.6, false),
        top(3300, "ray::WorkerDict.actor_rollout_generate", 8.1, false),
        top(3301, "ray::WorkerDict.actor_rollout_generate", 8.1, false),
        top(3302, "ray::WorkerDict.actor_rollout_generate", 8.0, false),
        top(41877, "ray::compute_score", 3.3, true),
    ];
    death.memory.suspect = Some(Suspect {
        pid: Pid(3120),
        title: "ray::TaskRunner.run".into(),
        role: None,
        private_bytes: gib(402.6),
        victim_private_bytes: gib(3.3),
    });
    death.memory.gpu = (0..8)
        .map(|device| GpuUse {
            device,
            used_bytes: gib(61.2),
            total_bytes: gib(79.1),
            device_used_bytes: Some(gib(61.2)),
        })
        .collect();
    death.then = Some(Recovery::TaskRetried { left: None });
    death
}

fn agent_kill() -> Death {
    let time = clock(41, 49, 310);
    let system = "/ray/ray-node_550e/system";
    let cause = full_cgroup(system, 24.0, "grpcpp_sync_ser");
    let death = death(4711, 2143, time, Killer::KernelOomMemcg, cause);
    let mut death = anonymous(titled(death, Role::Agent, "ray::DashboardAgent"), 22.9);
    death.work.job_id = None;
    death.memory.own.peak_bytes = Some(gib(23.0));
    death.verdict.evidence = vec![
        piece(
            time,
            "kernel",
            "SIGKILL from the kernel (si_code 128) while grpcpp_sync_ser (pid 1998) was running: took effect",
        ),
        piece(
            time + 4000,
            "kernel",
            "marked as the OOM victim in mem_cgroup_out_of_memory; grpcpp_sync_ser (pid 1998) was allocating memory",
        ),
        piece(
            time + MS,
            "kmsg",
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/ray/ray-node_550e/system,task_memcg=/ray/ray-node_550e/system/leaf,task=ray::DashboardA,pid=2143",
        ),
    ];
    death.memory.oom = Some(Box::new(OomReport {
        constraint: Some(Scope::Memcg),
        cgroup: Some(system.into()),
        limit_bytes: Some(gib(24.0)),
        usage_bytes: Some(gib(24.0)),
        task_cgroup: Some(format!("{system}/leaf")),
        charging: Some("anonymous memory".into()),
        invoker_pid: Some(Pid(1998)),
        invoker_comm: Some("grpcpp_sync_ser".into()),
        score_adj: Some(0),
    }));
    death.memory.top = vec![
        top(3120, "ray::TaskRunner.run", 402.7, false),
        top(2143, "ray::DashboardAgent", 22.9, true),
    ];
    death
}

/// Makes the cascade of the agent: 14 workers, the other agent, the raylet and the driver.
fn cascade() -> Vec<Death> {
    let time = clock(41, 49, 310);
    let titles = [
        ("ray::WorkerDict.actor_rollout_generate", 8),
        ("ray::TaskRunner.run", 1),
        ("ray::compute_score", 4),
        ("ray::IDLE", 1),
    ];
    let titles = titles
        .iter()
        .flat_map(|(title, count)| std::iter::repeat_n(*title, *count));
    let cause = || Cause::AgentDied {
        agent: "dashboard_agent".into(),
    };
    let mut deaths: Vec<Death> = (0..)
        .zip(titles)
        .map(|(number, title)| {
            let when = time + 18 * MS + i64::from(number) * MS / 5;
            let one = death(
                4720 + u64::from(number),
                3300 + number,
                when,
                Killer::RayCollapse,
                cause(),
            );
            titled(one, Role::Worker, title)
        })
        .collect();
    let when = time + 24 * MS;
    let agent = death(4740, 2150, when, Killer::RayCollapse, cause());
    deaths.push(titled(agent, Role::Agent, "ray::RuntimeEnvAgent"));
    let mut raylet = death(4741, 1998, when + MS, Killer::RayCollapse, cause());
    (raylet.end.exit_code, raylet.end.signal) = (Some(0), None);
    deaths.push(titled(raylet, Role::Raylet, "/opt/venv/lib/python3.12/site-packages/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp/ray/x"));
    let mut driver = death(
        4742,
        1500,
        time + 4102 * MS,
        Killer::RayCollapse,
        Cause::RayletDied {
            raylet_pid: Some(Pid(1998)),
            by_own_log: false,
        },
    );
    (driver.end.exit_code, driver.end.signal) = (Some(1), None);
    driver.verdict.certainty = Certainty::Inferred;
    driver.verdict.reason_certainty = Certainty::Inferred;
    driver.process.comm = "python3".into();
    deaths.push(titled(
        driver,
        Role::Driver,
        "python3 -m verl.trainer.main_ppo data.train_files=/home/lin/data.parquet",
    ));
    for death in &mut deaths {
        death.verdict.cause_death_id = Some(EventId(4711));
    }
    deaths
}

fn findings() -> Vec<Finding> {
    let finding = |summary: &str, remedy: &[&str], cost: Option<&str>, death: u64| Finding {
        evidence: vec!["private memory of pid 3120: 174.6 GiB at 06:40, 402.6 GiB at 08:41".into()],
        remedy: remedy.iter().map(ToString::to_string).collect(),
        cost: cost.map(str::to_owned),
        deaths: vec![EventId(death)],
        ..Finding::new("leak", Certainty::Proven, summary)
    };
    vec![
        finding(
            "TaskRunner grows 1.9 GiB a step (measured): threshold reached again in 1.7 steps",
            &[
                "Keep images as paths",
                "lower data.dataloader_num_workers (8)",
            ],
            Some("slower loading"),
            4100,
        ),
        finding(
            ".../system: the agent fills it again in 2.8 h",
            &["Raise or remove memory.max (24 GiB) and report the agent's growth to Ray"],
            None,
            4711,
        ),
    ]
}

/// Makes thirty OOM kills of one class in one cgroup within a second.
pub(in crate::show) fn burst() -> Report {
    let deaths = (0..30)
        .map(|number| {
            let time = clock(12, 0, 20 * i64::from(number));
            let one = death(
                100 + u64::from(number),
                500 + number,
                time,
                Killer::KernelOomMemcg,
                full_cgroup("/job", 2.0, "ray::Rollout.gen"),
            );
            let mut one = anonymous(titled(one, Role::Worker, "ray::Rollout.generate"), 1.9);
            one.verdict.evidence = vec![piece(time, "kernel", "marked as the OOM victim")];
            one.memory.oom = Some(Box::new(OomReport {
                constraint: Some(Scope::Memcg),
                cgroup: Some("/job".into()),
                limit_bytes: Some(gib(2.0)),
                usage_bytes: Some(gib(2.0)),
                task_cgroup: Some("/job".into()),
                charging: None,
                invoker_pid: Some(Pid(500 + number)),
                invoker_comm: Some("ray::Rollout.gen".into()),
                score_adj: Some(1000),
            }));
            one
        })
        .collect();
    let mut job = job(Outcome::Running, None, OutcomeReason::Running);
    job.ended = None;
    report(vec![job], deaths)
}

/// Makes OOM kills of one class in two cgroups with limits that are raised in between, and as many
/// kills of another class, each by another shell.
pub(in crate::show) fn scattered() -> Report {
    let mut deaths = burst().deaths;
    deaths.truncate(16);
    for (number, one) in (0..).zip(&mut deaths) {
        let number: u32 = number;
        if number % 2 == 1 {
            let id = 200 + u64::from(number);
            let other = death(
                id,
                600 + number,
                clock(12, 0, 20 * i64::from(number)),
                Killer::Signal,
                killed_by_bash(70 + number),
            );
            *one = titled(other, Role::Worker, "ray::score");
            one.sender = Some(sender(70 + number, "bash", Relation::Other));
            continue;
        }
        let Some(oom) = &mut one.memory.oom else {
            continue;
        };
        if number.is_multiple_of(4) {
            oom.cgroup = Some("/job/evaluation".into());
            oom.task_cgroup = oom.cgroup.clone();
        }
        if number > 9 {
            oom.limit_bytes = Some(gib(2.5));
        }
    }
    let mut job = job(Outcome::Running, None, OutcomeReason::Running);
    job.ended = None;
    report(vec![job], deaths)
}

/// Makes deaths that are no memory kills: a user's kill, a crash, an exit code, an unknown one.
pub(crate) fn others() -> Report {
    let user = death(1, 4001, clock(1, 0, 0), Killer::Signal, killed_by_bash(77));
    let mut user = anonymous(titled(user, Role::Worker, "ray::Trainer.fit"), 1.2);
    user.sender = Some(SenderReport {
        ancestors: vec![
            Ancestor {
                pid: Pid(70),
                comm: "sshd".into(),
            },
            Ancestor {
                pid: Pid(1),
                comm: "systemd".into(),
            },
        ],
        ..sender(77, "bash", Relation::Other)
    });
    user.verdict.evidence = vec![piece(
        clock(1, 0, 0),
        "kernel",
        "SIGKILL from bash (pid 77), si_code 0: took effect",
    )];
    let mut crash = death(
        2,
        4002,
        clock(2, 0, 0),
        Killer::Crash,
        Cause::Crash {
            signal: Some(11),
            says: None,
            shared_memory: false,
        },
    );
    crash.end.signal = Some(11);
    crash.verdict.evidence = vec![piece(
        clock(2, 0, 0),
        "kmsg",
        "ray::hog[4002]: segfault at 8 ip 00007f12 sp 00007ffd error 4 in libtorch_cpu.so",
    )];
    let mut exit = death(
        3,
        4003,
        clock(3, 0, 0),
        Killer::Exit,
        Cause::Exit {
            code: Some(3),
            exception: Some("ValueError: bad batch".into()),
            creating_actor: false,
        },
    );
    (exit.end.exit_code, exit.end.signal, exit.work.attempt) = (Some(3), None, Some(2));
    let mut child = death(
        4,
        4004,
        clock(3, 0, 7),
        Killer::RayCollapse,
        Cause::WorkerEnding {
            worker_pid: Pid(4003),
            by_raylet: true,
        },
    );
    child = titled(
        child,
        Role::Descendant,
        "/usr/bin/python3 /home/lin/loader.py --token=hunter2",
    );
    child.verdict.cause_death_id = Some(EventId(3));
    let mut unknown = death(5, 4005, clock(4, 0, 0), Killer::Unknown, Cause::signal(9));
    unknown.verdict.certainty = Certainty::Unknown;
    unknown.verdict.reason_certainty = Certainty::Unknown;
    unknown.process.ns_pid = Some(Pid(416));
    unknown.verdict.missing = Some(Missing::Sending {
        from_start: false,
        kernel_log: true,
    });
    let mut job = job(Outcome::Running, None, OutcomeReason::Running);
    job.ended = None;
    let mut report = report(vec![job], vec![user, crash, exit, child, unknown]);
    report.recordings[0].mode = Mode::Ebpf;
    report.recordings[0].probes.push(Probe {
        name: "memcg/mod_memcg_lruvec_state".into(),
        state: ProbeState::Missing,
        reason: Some("the kernel has no such tracepoint (it came with Linux 6.12)".into()),
        required: false,
    });
    report.recordings[0].lost_events = 12;
    report.recordings[0].ledgers = vec![Ledger {
        hook: "sched/sched_process_exit".into(),
        ring_full: 12,
        ..Ledger::default()
    }];
    report.recordings[0].clean_end = false;
    let stuck = death(0, 4006, clock(4, 0, 0), Killer::Signal, killed_by_bash(77));
    let mut stuck = titled(stuck, Role::Worker, "ray::Saver.save");
    stuck.when.exit_time = None;
    report.pending = vec![stuck];
    report
}

/// Makes a report with a task name that attacks the terminal, the JSON and the Markdown.
pub(in crate::show) fn hostile() -> Report {
    let attack = format!(
        "\u{1b}[31m\u{1b}]0;owned\u{7}</script>```\n# PWNED @everyone \u{202e}gnp.exe\u{2066}|{}",
        "A".repeat(10_240)
    );
    let mut one = death(1, 66, 0, Killer::Exit, Cause::exit(1));
    (one.end.exit_code, one.end.signal) = (Some(1), None);
    one.process.title = Some(format!("ray::{attack}"));
    one.work.task_name = Some(attack.clone());
    one.process.comm = "\u{1b}[2J\n\u{9b}1m".into();
    one.verdict.cause = Cause::Exit {
        code: Some(1),
        exception: Some(attack.clone()),
        creating_actor: false,
    };
    one.verdict.evidence = vec![
        piece(0, &attack, &attack),
        piece(0, "worker.err", "```\nfenced\n~~~~\n"),
    ];
    let because = OutcomeReason::Driver {
        cause: one.verdict.cause.clone(),
        exited: true,
    };
    let mut job = job(Outcome::Failed, Some(1), because);
    job.entrypoint = Some(attack.clone());
    let mut report = report(vec![job], vec![one]);
    report.recordings[0].host.name = attack.clone();
    report.notes = vec![attack];
    report
}

/// Makes 5,000 short subprocesses and a `ray stop`, which nobody asks about.
pub(in crate::show) fn flood() -> Report {
    let mut deaths: Vec<Death> = (0..5000)
        .map(|number| {
            let mut one = death(
                1000 + u64::from(number),
                10_000 + number,
                clock(5, 0, 0) + i64::from(number) * MS,
                Killer::Exit,
                Cause::exit(0),
            );
            (one.listed, one.end.exit_code, one.end.signal) = (false, Some(0), None);
            titled(one, Role::Descendant, "/bin/true")
        })
        .collect();
    for (number, title) in (0..16).zip(std::iter::repeat("ray::IDLE")) {
        let cause = Cause::RayCommand {
            command: Command::Ray("stop".into()),
            pid: Pid(9),
            by_raylet: true,
        };
        let mut one = death(
            9000 + u64::from(number),
            20_000 + number,
            clock(40, 0, 0),
            Killer::RayIntended,
            cause,
        );
        one.listed = false;
        deaths.push(titled(one, Role::Worker, title));
    }
    let mut report = report(
        vec![job(Outcome::Succeeded, None, OutcomeReason::Succeeded)],
        deaths,
    );
    report.recordings[0].normal_exits = 5016;
    report
}
