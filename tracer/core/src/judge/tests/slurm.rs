//! Tests signals of slurmstepd: the reason as far as it shows, and what is only cleaned up.

use libc::{SIGKILL, SIGTERM, SIGUSR1};

use super::{
    findings::{fires, sample_machine, sample_memory},
    scene::{RAYLET, Scene, key},
};
use crate::{
    event::{CgroupState, Observation, Role, SlurmJob, Source},
    ids::{Bytes, EventId, Pid, ProcessKey},
    judge::{
        cause::{Cause, SlurmEnd, SlurmReason},
        report::{Certainty, Death, Killer, Relation},
    },
};

/// The slurmstepd, which is not tracked.
const STEPD: u32 = 6;
const CGROUP: &str = "/slurm_n1/uid_1000/job_12/step_";

/// A node in the step of a job: the script or task (pid 8) has started the driver.
fn job(step: &str) -> Scene {
    let mut scene = Scene::new();
    scene.process(8, STEPD, "slurm_script", Role::Descendant);
    for pid in [8, 50, RAYLET] {
        scene.change_process(pid, |process| {
            process.cgroup = Some(format!("{CGROUP}{step}/task_0"));
        });
    }
    scene
}

/// slurmstepd sends a signal to a process, which dies of it or not.
fn sends(scene: &mut Scene, signal: i32, pid: u32, kills: bool) {
    scene.signal(STEPD, pid, signal, 0, kills);
    let sender = scene.last_sender();
    sender.comm = "slurmstepd".into();
    sender.uid = 0;
    sender.process = ProcessKey::new(STEPD, 1);
}

fn end(death: &Death) -> &SlurmEnd {
    match &death.verdict.cause {
        Cause::Slurm(end) => end,
        other => panic!("{other:?}"),
    }
}

#[test]
fn slurm_is_a_workload_manager_that_asked_first() {
    let mut scene = job("0");
    sends(&mut scene, SIGTERM, 8, false);
    scene.after(29_800_000);
    sends(&mut scene, SIGKILL, RAYLET, true);
    scene.after(50).exit(RAYLET, SIGKILL);
    let death = scene.death(RAYLET);
    assert_eq!(death.verdict.killer, Killer::Signal);
    assert_eq!(death.verdict.certainty, Certainty::Proven);
    assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
    assert_eq!(
        death.sender.as_ref().expect("a sender").relation,
        Relation::WorkloadManager
    );
    let end = end(&death);
    assert_eq!(
        (end.job_id.as_deref(), end.step_id.as_deref()),
        (Some("12"), Some("0"))
    );
    assert_eq!(
        (end.asked_ms, &end.reason),
        (Some(29_800), &SlurmReason::NotShown)
    );
    assert!(death.listed);
    let report = scene.report();
    let found = report
        .findings
        .iter()
        .find(|one| one.rule == "slurm-ended")
        .expect("a finding");
    assert!(found.remedy[0].contains("sacct -j 12 "), "{found:?}");
    let sentence = crate::clause::summary(&death);
    assert!(
        sentence.contains("Slurm ended job 12, step 0 (slurmstepd 6)"),
        "{sentence}"
    );
}

/// A job is ended in all its steps, each by its own slurmstepd, and half a minute later what is left.
#[test]
fn steps_of_one_job_end_in_one_act() {
    const OTHER_STEPD: u32 = 5;
    for (job_of_script, acts) in [("12", 1), ("13", 2)] {
        let mut scene = job("0");
        scene.change_process(8, |process| {
            let path = format!("/slurm_n1/uid_1000/job_{job_of_script}/step_batch");
            process.cgroup = Some(path);
        });
        sends(&mut scene, SIGTERM, 50, false);
        scene.signal(OTHER_STEPD, 8, SIGTERM, 0, true);
        let sender = scene.last_sender();
        sender.comm = "slurmstepd".into();
        sender.process = ProcessKey::new(OTHER_STEPD, 1);
        scene.after(50).exit(8, SIGTERM);
        scene.after(29_800_000);
        for pid in [50, RAYLET] {
            sends(&mut scene, SIGKILL, pid, true);
            scene.after(50).exit(pid, SIGKILL);
        }
        let report = scene.report();
        let firsts = report.deaths.iter().filter(|death| {
            let act = death.verdict.act;
            death.verdict.cause_death_id.is_none() && act.is_none_or(|act| act.death_id == death.id)
        });
        assert_eq!(firsts.count(), acts, "{:#?}", report.deaths);
        let found = report.findings.iter();
        assert_eq!(found.filter(|one| one.rule == "slurm-ended").count(), acts);
    }
}

/// After the script ended by itself, Slurm only cleans up. A driver that still ran was ended.
#[test]
fn cleanup_after_the_script_is_no_first_cause() {
    for driver_lives in [false, true] {
        let mut scene = job("batch");
        if !driver_lives {
            scene.exit(50, 0);
        }
        scene.exit(8, 0);
        scene.after(5_000);
        if driver_lives {
            sends(&mut scene, SIGKILL, 50, true);
        }
        sends(&mut scene, SIGKILL, RAYLET, true);
        scene.after(50);
        if driver_lives {
            scene.exit(50, SIGKILL);
        }
        scene.exit(RAYLET, SIGKILL);
        let death = scene.death(RAYLET);
        let reason = &end(&death).reason;
        assert!(
            matches!(reason, SlurmReason::TaskEnded { batch: true, .. }),
            "{reason:?}"
        );
        assert_eq!(death.listed, driver_lives);
    }
}

/// The script that Slurm itself ended is no reason.
#[test]
fn script_that_slurm_ended_is_part_of_the_act() {
    let mut scene = job("batch");
    sends(&mut scene, SIGTERM, 8, true);
    scene.after(3_000).exit(8, SIGTERM);
    scene.after(3_000);
    sends(&mut scene, SIGKILL, RAYLET, true);
    scene.after(50).exit(RAYLET, SIGKILL);
    let death = scene.death(RAYLET);
    assert_eq!(end(&death).reason, SlurmReason::NotShown);
    let script = scene.death(8);
    assert_eq!(
        script.sender.expect("a sender").relation,
        Relation::WorkloadManager
    );
}

#[test]
fn failed_task_is_the_first_cause() {
    let mut scene = job("0");
    scene.process(20, STEPD, "rank.sh", Role::Descendant);
    scene.change_process(20, |process| {
        process.cgroup = Some(format!("{CGROUP}0/task_1"));
    });
    let failed = scene.exit(20, 3 << 8);
    scene.after(200_000);
    sends(&mut scene, SIGKILL, RAYLET, true);
    scene.after(50).exit(RAYLET, SIGKILL);
    let death = scene.death(RAYLET);
    assert_eq!(death.verdict.cause_death_id, Some(failed));
    let expected = SlurmReason::OtherTaskFailed {
        pid: key(20).pid,
        task: Some(1),
        code: 3,
    };
    assert_eq!(end(&death).reason, expected);
}

/// A signal that somebody has Slurm send does not say that Slurm ended a step.
#[test]
fn other_signals_were_requested() {
    let mut scene = job("0");
    sends(&mut scene, SIGUSR1, RAYLET, true);
    scene.after(50).exit(RAYLET, SIGUSR1);
    let death = scene.death(RAYLET);
    assert_eq!(end(&death).reason, SlurmReason::Requested);
}

/// A task that a requested signal ends leaves processes, which Slurm then ends.
#[test]
fn rest_of_a_step_follows_from_a_requested_signal() {
    let mut scene = job("0");
    sends(&mut scene, SIGUSR1, 8, true);
    let first = scene.after(50).exit(8, SIGUSR1);
    scene.after(16_000);
    sends(&mut scene, SIGKILL, RAYLET, true);
    scene.after(50).exit(RAYLET, SIGKILL);
    let death = scene.death(RAYLET);
    assert_eq!(death.verdict.cause_death_id, Some(first));
    assert_eq!(scene.death(8).verdict.act, None);
}

/// Without a cgroup that limits memory, slurmstepd counts and kills. Samples show that it may have.
#[test]
fn memory_above_the_request_is_over_memory_kill() {
    for (requested, over) in [(1, true), (4, false)] {
        let mut scene = Scene::new();
        scene.change_process(RAYLET, |process| {
            process.slurm = Some(Box::new(SlurmJob {
                job: "12".into(),
                memory: Some(Bytes(requested << 30)),
                ..SlurmJob::default()
            }));
        });
        scene.process(7, RAYLET, "ray::A", Role::Worker);
        scene.change_process(7, |process| process.cluster = Some(key(RAYLET)));
        sample_memory(&mut scene, 7, 2048);
        sends(&mut scene, SIGKILL, 7, true);
        scene.after(50).exit(7, SIGKILL);
        let death = scene.death(7);
        let end = end(&death);
        assert_eq!(end.job_id.as_deref(), Some("12"));
        assert_eq!(
            matches!(end.reason, SlurmReason::OverMemory { .. }),
            over,
            "{end:?}"
        );
    }
}

/// Without root, the count of a cgroup is all that shows an OOM kill. It has as many victims as it
/// rose, and was at its own limit only if it was full.
#[test]
fn count_of_a_cgroup_shows_an_oom_kill() {
    for (full, counted, limit) in [
        (true, true, Some(Bytes(3000 << 20))),
        (false, true, None),
        (true, false, None),
    ] {
        let mut scene = Scene::new();
        scene.without_ebpf();
        let path = format!("{CGROUP}0/task_0");
        for (pid, mib) in [(7, 2000), (8, 10)] {
            scene.process(pid, RAYLET, "ray::A", Role::Worker);
            scene.change_process(pid, |process| process.cgroup = Some(path.clone()));
            sample_memory(&mut scene, pid, mib);
        }
        let sample = |usage: u64, kills: u64| {
            Observation::Cgroup(CgroupState {
                path: path.clone(),
                usage: Bytes(usage << 20),
                limit: Some(Bytes(3000 << 20)),
                oom_kills: Some(kills),
                anon: None,
                file: None,
                shmem: None,
                kernel: None,
                swap: None,
                stalled_us: None,
            })
        };
        scene.push(Source::Proc, sample(if full { 2999 } else { 500 }, 0));
        scene.after(300_000);
        scene.push(Source::Proc, sample(900, u64::from(counted)));
        scene.after(300_000);
        scene.exit(7, SIGKILL);
        scene.after(1_000).exit(8, SIGKILL);
        let victim = scene.death(7);
        let expected = match (counted, limit.is_some()) {
            (true, true) => Killer::KernelOomMemcg,
            (true, false) => Killer::KernelOom,
            (false, _) => Killer::Unknown,
        };
        assert_eq!(victim.verdict.killer, expected);
        if counted {
            assert_eq!(victim.verdict.certainty, Certainty::Inferred);
            assert_eq!(victim.memory.oom.expect("a kill").limit_bytes, limit);
            assert!(
                victim
                    .verdict
                    .evidence
                    .iter()
                    .any(|one| one.what.contains("rose from 0 to 1"))
            );
        }
        assert!(!scene.death(8).verdict.killer.is_kernel_oom());
        // One that ended before the largest, in the same second: which one it was is not known.
        let first = scene.events.iter().position(
            |event| matches!(&event.what, Observation::Exit(exit) if exit.process.same(key(7))),
        );
        let mut early = scene.events[first.expect("an exit")].clone();
        if let Observation::Exit(exit) = &mut early.what {
            exit.process = key(9);
        }
        scene.process(9, RAYLET, "ray::A", Role::Worker);
        scene.change_process(9, |process| process.cgroup = Some(path.clone()));
        early.time = early.time.plus(-1_000_000);
        early.id = EventId(1000);
        scene.events.push(early);
        assert!(!scene.death(7).verdict.killer.is_kernel_oom());
    }
}

/// What the kubelet wrote on the node comes before the environment. A container has its own name.
#[test]
fn pod_is_named_by_the_node() {
    let path = "/kubepods/burstable/pod91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0/a";
    for (pod, expected) in [(Some("head-x7k2p"), "team-a"), (None, "env")] {
        let mut scene = Scene::new();
        scene.change_cluster(|cluster| {
            cluster.settings = vec![("RAY_CLUSTER_NAMESPACE".into(), "env".into())];
            cluster.container_id = Some("a".repeat(64));
            cluster.pod = Some(crate::event::PodNames {
                namespace: Some("team-a".into()),
                pod: pod.map(str::to_owned),
                container: Some("ray-head".into()),
            });
        });
        for (pid, container) in [(RAYLET, "a"), (8, "a"), (9, "b")] {
            if pid != RAYLET {
                scene.process(pid, RAYLET, "ray::A", Role::Worker);
            }
            scene.change_process(pid, |process| {
                process.cgroup = Some(path.into());
                process.container_id = Some(container.repeat(64));
            });
        }
        for (pid, container) in [(8, Some("ray-head")), (9, None)] {
            scene.exit(pid, SIGKILL);
            let found = scene.death(pid).process.place.kubernetes.expect("a pod");
            assert_eq!(found.namespace.as_deref(), Some(expected));
            assert_eq!(found.pod.as_deref(), pod);
            assert_eq!(found.container.as_deref(), container);
        }
    }
}

/// The init of a container belongs to no cluster. It has the names of the raylet in the same pod,
/// and of no other pod.
#[test]
fn init_of_a_container_has_the_names_of_its_pod() {
    let own = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
    let other = "11111111-2222-3333-4444-555555555555";
    for (uid, named) in [(own, true), (other, false)] {
        let mut scene = Scene::new();
        let path = |uid: &str| Some(format!("/kubepods/burstable/pod{uid}/a"));
        scene.change_cluster(|cluster| {
            let names = [
                ("RAY_CLUSTER_NAMESPACE", "team-a"),
                ("RAY_CLOUD_INSTANCE_ID", "head"),
            ];
            let names = names.map(|(key, value)| (key.to_owned(), value.to_owned()));
            cluster.settings = names.to_vec();
        });
        scene.change_process(RAYLET, |process| process.cgroup = path(own));
        scene.process(8, 1, "bash", Role::Other);
        scene.change_process(8, |process| process.cgroup = path(uid));
        scene.signal(66, 8, SIGKILL, 0, true);
        scene.last_sender().comm = "runc".into();
        scene.after(50).exit(8, SIGKILL);
        let pod = scene.death(8).process.place.kubernetes.expect("a pod");
        assert_eq!(pod.pod.as_deref(), named.then_some("head"));
        assert_eq!(pod.namespace.as_deref(), named.then_some("team-a"));
        let report = scene.report();
        let found = report.findings.iter().find(|one| one.rule == "pod-stopped");
        let remedy = &found.expect("a finding").remedy[0];
        let by_name = "kubectl get events -n team-a --field-selector involvedObject.name=head";
        assert_eq!(remedy.contains(by_name), named, "{remedy}");
    }
}

/// A pod's init that the runtime kills, with so much memory of the machine available.
fn stopped_pod(available_mib: u64, asked_before_us: Option<u64>, ns_pid: u32) -> Scene {
    let mut scene = Scene::new();
    let path = "/kubepods/burstable/pod91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0/a";
    scene.process(8, 1, "bash", Role::Other);
    scene.change_process(8, |process| {
        process.cgroup = Some(path.into());
        process.ns_pid = Some(Pid(ns_pid));
    });
    sample_machine(&mut scene, 10 * 1024 - available_mib);
    for (signal, after) in [(SIGTERM, asked_before_us), (SIGKILL, Some(50))] {
        if let Some(after) = after {
            scene
                .signal(66, 8, signal, 0, signal == SIGKILL)
                .after(after);
            scene.last_sender().comm = "runc".into();
        }
    }
    scene.exit(8, SIGKILL);
    scene
}

#[test]
fn eviction_is_probable_where_the_machine_was_short_of_memory() {
    for (available, asked, ns_pid, evicted) in [
        (62, None, 1, true),
        (62, Some(1_000_000), 1, true),
        (62, Some(30_000_000), 1, false),
        (120, None, 1, false),
        // The runtime kills what a container's init has left.
        (62, None, 9, false),
    ] {
        let finding = fires(&stopped_pod(available, asked, ns_pid), "pod-stopped");
        let probably = finding
            .summary
            .contains("62 MiB of the machine's memory was available");
        assert_eq!(
            probably, evicted,
            "{available} {asked:?}: {}",
            finding.summary
        );
        assert_eq!(finding.remedy.len(), 1 + usize::from(evicted));
        assert!(finding.remedy[0].contains("kubectl get events -A"));
    }
}

/// A failed probe is one cause: the container's init catches the signal and ends what it started.
#[test]
fn what_ray_start_ends_with_its_container_follows_from_that() {
    for (by, follows) in [("runc", true), ("bash", false)] {
        let mut scene = Scene::new();
        scene.process(RAYLET, 9, "raylet", Role::Raylet);
        scene.process(40, 9, "gcs_server", Role::Gcs);
        scene.signal(66, 9, SIGTERM, 0, false).after(1000);
        scene.last_sender().comm = by.into();
        scene.signal(9, RAYLET, SIGTERM, 0, false).after(1000);
        scene.signal(9, 40, SIGTERM, 0, true).after(1000);
        scene.exit(40, SIGTERM);
        scene.after(1000).exit(RAYLET, 0);
        let starter = scene.after(1000).exit(9, 1 << 8);
        for pid in [40, RAYLET] {
            let cause = scene.death(pid).verdict.cause_death_id;
            assert_eq!(cause, Some(starter).filter(|_| follows), "{by}: {pid}");
        }
    }
}
