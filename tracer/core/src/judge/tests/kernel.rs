//! Kills by the kernel: for memory, and kills that only look like that.

use super::scene::{MEMCG, Scene, key};
use crate::{
    assert_verdict, clause,
    event::{KernelLog, Ledger, Observation, Probe, ProbeState, Role, Source},
    ids::{Bytes, Pid},
    judge::{
        cause::Scope,
        report::{Certainty, Killer, Mechanism},
    },
};

const GLOBAL: [&str; 3] = [
    "oom_kill_process",
    "out_of_memory",
    "__alloc_pages_slowpath",
];

#[test]
fn oom_kill_names_the_lowest_full_cgroup() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).after(10);
    scene
        .signal(8, 7, 9, 128, true)
        .after(4)
        .oom_victim(7, 8, true, &MEMCG)
        .after(900);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Proven);
    let oom = death.memory.oom.expect("context");
    assert_eq!(oom.cgroup.as_deref(), Some("/job"));
    assert_eq!(oom.limit_bytes, Some(Bytes(64 << 20)));
    assert_eq!(oom.task_cgroup.as_deref(), Some("/job/worker"));
    assert_eq!(oom.charging.as_deref(), Some("anonymous memory"));
    assert_eq!(oom.invoker_pid, Some(Pid(8)));
    assert!(
        death.sender.is_none(),
        "whoever ran on that CPU is no sender"
    );
}

#[test]
fn stack_without_memcg_is_a_global_oom() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(7, 7, 9, 128, true)
        .oom_victim(7, 7, true, &GLOBAL)
        .after(50);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOomGlobal, Proven);
    assert_eq!(death.memory.oom.expect("context").cgroup, None);
}

/// The summary does not say that the machine was out of memory.
#[test]
fn sysrq_oom_kill_needs_no_full_memory() {
    let mut scene = Scene::new();
    let stack = ["oom_kill_process", "out_of_memory", "moom_callback"];
    scene
        .ray_worker(7)
        .signal(7, 7, 9, 128, true)
        .oom_victim(7, 7, true, &stack)
        .kmsg(KernelLog::OomKill {
            constraint: "CONSTRAINT_NONE".into(),
            oom_memcg: None,
            task_memcg: None,
            comm: "ray::hog".into(),
            pid: Pid(7),
            uid: 0,
        })
        .after(50);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOther, Proven);
    let oom = death.memory.oom.as_ref().expect("context");
    assert_eq!(oom.constraint, Some(Scope::Sysrq));
    assert!(
        !clause::summary(&death).contains("machine was out of memory"),
        "{}",
        clause::summary(&death)
    );
    let mut evidence = death.verdict.evidence.iter();
    assert!(evidence.any(|piece| piece.what.contains("ran the OOM killer for sysrq f")));
    assert_eq!(scene.report().findings, []);
}

#[test]
fn mark_after_user_kill_is_no_oom() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, 7, 9, 0, true)
        .after(460_000)
        .oom_victim(7, 8, false, &MEMCG)
        .after(10);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert!(
        death
            .verdict
            .evidence
            .iter()
            .any(|piece| piece.what.contains("already exiting"))
    );
}

#[test]
fn process_with_shared_memory_follows_victim() {
    let mut scene = Scene::new();
    scene.ray_worker(7).process(8, 7, "child", Role::Descendant);
    scene
        .signal(7, 7, 9, 128, true)
        .after(4)
        .oom_victim(7, 7, true, &MEMCG)
        .after(3000);
    scene.signal(7, 8, 9, 128, true).after(50);
    scene.exit(7, 9);
    let first = scene.death(7).id;
    scene.exit_sharing(8, 9, 7);
    let death = assert_verdict!(scene, 8, KernelOomMemcg, Proven);
    assert_eq!(death.verdict.cause_death_id, Some(first));
}

#[test]
fn end_of_namespace_init_is_the_cause() {
    let mut scene = Scene::new();
    scene.process(6, 1, "init", Role::Other).ray_worker(7);
    scene.exiting = true;
    scene.signal(6, 7, 9, 128, true).after(5);
    scene.exit(7, 9);
    let init = scene.exit(6, 0);
    let death = assert_verdict!(scene, 7, KernelOther, Proven);
    assert_eq!(death.verdict.cause_death_id, Some(init));
    assert_eq!(
        death.sender.expect("sender").mechanism,
        Mechanism::PidNamespaceExit
    );
}

/// There is no kernel stack and no line in the kernel log.
#[test]
fn cgroup_with_room_is_not_blamed() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).signal(8, 7, 9, 128, true);
    scene.after(4).oom_victim(7, 8, true, &[]);
    for event in &mut scene.events {
        if let Observation::OomVictim(victim) = &mut event.what {
            victim.cgroups[1].usage = Bytes(20 << 20);
        }
    }
    scene.after(900).exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOom, Proven);
    assert!(death.verdict.missing.is_some() && death.memory.oom.is_some());
}

#[test]
fn unexplained_kernel_kill_is_unknown() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 9, 128, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Unknown, Unknown);
    assert!(death.verdict.missing.is_some());
}

/// It makes the verdict inferred, not proven.
#[test]
fn kernel_log_replaces_a_lost_mark() {
    // Another process (66) asked for memory, or the victim itself did.
    for sender in [66, 7] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(sender, 7, 9, 128, true).after(5);
        scene.exit(7, 9);
        scene.kmsg(KernelLog::Killed {
            pid: Pid(7),
            comm: "ray::hog".into(),
            memcg: true,
            anon: Bytes(1),
            file: Bytes(1),
            shmem: None,
            score_adj: None,
        });
        assert_verdict!(scene, 7, KernelOomMemcg, Inferred);
    }
}

#[test]
fn reaped_memory_counts_for_the_victim() {
    let mut scene = Scene::new();
    scene.ray_worker(7).after(10);
    scene.anon_at_mark = Some(Bytes(5 << 30));
    scene.anon_at_exit = Bytes(8192);
    scene
        .signal(7, 7, 9, 128, true)
        .after(4)
        .oom_victim(7, 7, true, &MEMCG)
        .after(900);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Proven);
    assert_eq!(death.memory.own.anon_bytes, Some(Bytes(5 << 30)));
}

/// What an unprivileged recorder sees on a kernel before 6.15, which does not report the status of
/// processes that have exited.
fn gone_and_logged() -> Scene {
    let mut scene = Scene::new();
    scene.ray_worker(7).after(5);
    scene.without_ebpf().exit_without_status(7, Source::Pidfd);
    scene.kmsg(KernelLog::OomKill {
        constraint: "CONSTRAINT_MEMCG".into(),
        oom_memcg: Some("/job".into()),
        task_memcg: Some("/job".into()),
        comm: "ray::hog".into(),
        pid: Pid(7),
        uid: 0,
    });
    scene
}

#[test]
fn kernel_log_explains_exit_without_status() {
    let scene = gone_and_logged();
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Inferred);
    let oom = death.memory.oom.expect("context");
    assert_eq!(oom.cgroup.as_deref(), Some("/job"));
}

#[test]
fn kernel_log_is_ignored_in_pid_namespace() {
    let mut scene = gone_and_logged();
    scene.in_pid_namespace(4_026_532_000);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

/// Without the probe, the kernel's SIGKILL may be an OOM kill.
#[test]
fn missing_mark_probe_rules_out_cpu_limit() {
    let mut scene = Scene::new();
    scene.push(
        Source::Kernel,
        Observation::Probe(Probe {
            name: "oom/mark_victim".into(),
            state: ProbeState::Missing,
            reason: None,
            required: true,
        }),
    );
    scene.ray_worker(7).signal(7, 7, 9, 128, true).after(5);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

#[test]
fn cpu_time_limit_is_no_memory_kill() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 9, 128, true).after(5);
    scene.exit(7, 9);
    // A BPF program's signal (`bpf_send_signal`) looks the same.
    let death = assert_verdict!(scene, 7, KernelOther, Inferred);
    assert_eq!(death.sender.expect("how").mechanism, Mechanism::RlimitCpu);
}

/// After a loss, the kernel's SIGKILL may be an OOM kill.
#[test]
fn lost_marks_rule_out_cpu_limit() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 9, 128, true).after(5);
    let lost = Ledger {
        hook: "oom/mark_victim".into(),
        ring_full: 1,
        ..Ledger::default()
    };
    scene.push(Source::Recorder, Observation::Ledger(lost));
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

#[test]
fn one_thread_sigkill_is_no_cpu_limit() {
    let mut scene = Scene::new();
    scene.to_thread_group = false;
    scene.ray_worker(7).signal(7, 7, 9, 128, true).after(5);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

/// The mark did not see the kill before it, but belongs to it.
#[test]
fn mark_that_missed_its_kill_is_oom() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 9, 128, true).after(4);
    scene.oom_victim(7, 7, false, &MEMCG).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Proven);
    let evidence = &death.verdict.evidence;
    let dying = |piece: &crate::judge::report::Evidence| piece.what.contains("already exiting");
    assert!(!evidence.iter().any(dying), "{evidence:?}");
}

/// No line of the kernel log is needed.
#[test]
fn thirty_fast_kills_keep_their_own_context() {
    let mut scene = Scene::new();
    for pid in 1000..1030 {
        scene
            .ray_worker(pid)
            .signal(pid, pid, 9, 128, true)
            .after(4)
            .oom_victim(pid, pid, true, &MEMCG)
            .after(20_000);
        scene.exit(pid, 9);
    }
    for pid in 1000..1030 {
        let death = assert_verdict!(scene, pid, KernelOomMemcg, Proven);
        assert_eq!(
            death.memory.oom.and_then(|oom| oom.limit_bytes),
            Some(Bytes(64 << 20))
        );
        assert_eq!(death.verdict.cause_death_id, None);
    }
}

#[test]
fn group_kill_has_one_first_cause() {
    let mut scene = Scene::new();
    scene.kmsg(KernelLog::OomGroup {
        cgroup: "/job".into(),
    });
    for pid in [1001, 1002, 1003] {
        scene
            .ray_worker(pid)
            .signal(1001, pid, 9, 128, true)
            .oom_victim(pid, 1001, true, &MEMCG)
            .after(10);
    }
    let ids: Vec<_> = [1001, 1002, 1003]
        .into_iter()
        .map(|pid| scene.exit(pid, 9))
        .collect();
    assert_eq!(scene.death(1001).verdict.cause_death_id, None);
    assert_eq!(scene.death(1002).verdict.cause_death_id, Some(ids[0]));
    assert_eq!(scene.death(1003).verdict.cause_death_id, Some(ids[0]));
    let _ = key(1);
}

fn xid(pid: u32, code: u32) -> KernelLog {
    KernelLog::Xid {
        gpu: "0000:0a:00".into(),
        instance: None,
        code,
        pid: Some(Pid(pid)),
        comm: Some("ray::Rollout".into()),
        text: "Ch 00000010, intr 00000000. MMU Fault".into(),
    }
}

#[test]
fn xid_near_the_end_is_evidence() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).kmsg(xid(7, 31));
    scene.after(2_000_000).signal(7, 7, 6, -6, true).after(50);
    scene.exit(7, 6);
    scene.after(1_000).kmsg(xid(7, 45)).after(10);
    scene.exit(8, 1 << 8);
    scene.kmsg(xid(6, 31)).after(1_000_000).kmsg(xid(6, 31));
    let death = assert_verdict!(scene, 7, Crash, Proven);
    let told = |death: &crate::judge::report::Death| -> Vec<String> {
        let evidence = death.verdict.evidence.iter();
        let told = evidence.filter(|one| one.what.contains("Xid"));
        told.map(|one| format!("{}: {}", one.source, one.what))
            .collect()
    };
    assert_eq!(
        told(&death),
        [
            "kmsg: NVIDIA's driver: Xid 31 (GPU memory page fault) on GPU 0000:0a:00: Ch 00000010, intr 00000000. MMU Fault",
            "kmsg: NVIDIA's driver: Xid 45 (Preemptive cleanup, due to previous errors) on GPU 0000:0a:00: Ch 00000010, intr 00000000. MMU Fault",
        ]
    );
    // No Xid names worker 8.
    assert!(told(&scene.death(8)).is_empty());
    let errors = scene.report().gpu_errors;
    let counted: Vec<_> = errors
        .iter()
        .map(|error| (error.code, error.count))
        .collect();
    assert_eq!(counted, [(31, 1), (45, 1), (31, 2)]);
    assert!(errors[0].first.is_some());
}

/// It comes long before the end, or from an earlier process with that pid.
#[test]
fn old_xid_is_no_evidence() {
    let mut scene = Scene::new();
    scene.ray_worker(7).kmsg(xid(7, 31)).after(61_000_000);
    scene.exit(7, 1 << 8);
    // Worker 200 starts 2 s after boot. The Xid at 1.5 s belongs to another process with that pid.
    let mut reused = Scene::new();
    reused.after(500_000).kmsg(xid(200, 31)).after(1_000_000);
    reused.ray_worker(200).after(1_000_000);
    reused.exit(200, 1 << 8);
    for (scene, pid) in [(scene, 7), (reused, 200)] {
        let evidence = scene.death(pid).verdict.evidence;
        assert!(
            evidence.iter().all(|one| !one.what.contains("Xid")),
            "{evidence:?}"
        );
        assert_eq!(scene.report().gpu_errors.len(), 1);
    }
}

/// The kernel uses the address of a dead process's memory again.
#[test]
fn older_mark_is_of_another_process() {
    let mut scene = Scene::new();
    scene.ray_worker(30).oom_victim(30, 30, true, &MEMCG);
    scene.exit_sharing(30, 9, 77);
    scene
        .after(2_000_000)
        .ray_worker(250)
        .signal(66, 250, 9, 0, true);
    scene.exit_sharing(250, 9, 30);
    let evidence = scene.death(250).verdict.evidence;
    assert!(
        !evidence
            .iter()
            .any(|piece| piece.what.contains("OOM victim")),
        "{evidence:?}"
    );
}

/// Only one code of SIGSYS is seccomp's.
#[test]
fn call_that_the_process_catches_itself_is_no_seccomp() {
    for (code, killer) in [(1, Killer::KernelOther), (2, Killer::Crash)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(7, 7, 31, code, false).after(10);
        scene.delivered(7, 31, code);
        scene.exit(7, 31);
        let verdict = scene.death(7).verdict;
        assert_eq!(
            (verdict.killer, verdict.certainty),
            (killer, Certainty::Proven)
        );
    }
}

/// SIGIO is for files that became ready. Why the kernel sent another signal is not known.
#[test]
fn signal_of_the_kernels_names_no_reason_but_a_file() {
    let ended = |number| {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, 7, number, 128, true);
        scene.after(10).exit(7, number);
        scene.death(7)
    };
    let file = ended(29);
    assert_eq!(file.verdict.killer, Killer::KernelOther);
    let said = clause::summary(&file);
    assert!(said.contains("a file became ready"), "{said}");
    let other = ended(30).verdict;
    assert_eq!(
        (other.certainty, other.reason_certainty),
        (Certainty::Proven, Certainty::Unknown)
    );
}
