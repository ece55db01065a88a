//! Whose limit an OOM kill hit: by the kernel's word, else by its counts, else it is not known.

use super::{
    findings::{monitor_started, sample_memory},
    scene::{MEMCG, Scene, key},
};
use crate::{
    assert_verdict, clause,
    event::{
        CgroupLevel, KernelLog, MemorySplit, Observation, OomVictim, OutsideMemory, Process,
        ShortOf, Source,
    },
    ids::{Bytes, Pid},
    judge::{
        missing::Missing,
        report::{Certainty, Death, Killer},
    },
};

const MIB: u64 = 1 << 20;
/// Between two kills: longer than a task waits for the kernel's `oom_lock`.
const LATER: u64 = 11_000_000;

/// A level: id, path, use and limit in MiB, and how often the limit was met.
type Level = (u64, &'static str, u64, Option<u64>, u64);

const ROOT: Level = (1, "/", 9000, None, 0);

fn cgroups(levels: &[Level]) -> Vec<CgroupLevel> {
    let level = |(id, path, usage, limit, oom_events): &Level| CgroupLevel {
        id: *id,
        path: (*path).to_owned(),
        usage: Bytes(usage * MIB),
        limit: limit.map(|limit| Bytes(limit * MIB)),
        oom_events: *oom_events,
    };
    levels.iter().map(level).collect()
}

fn victims(scene: &mut Scene) -> impl Iterator<Item = &mut OomVictim> {
    scene
        .events
        .iter_mut()
        .filter_map(|event| match &mut event.what {
            Observation::OomVictim(victim) => Some(victim),
            _ => None,
        })
}

/// The kernel kills worker `pid` at a cgroup's limit. Which one it was is not seen.
fn kill(scene: &mut Scene, pid: u32, levels: &[Level]) {
    scene.ray_worker(pid).ray_worker(pid + 1).after(10);
    scene.signal(pid + 1, pid, 9, 128, true).after(4);
    scene.oom_victim(pid, pid + 1, true, &MEMCG).after(900);
    let last = victims(scene).last().expect("a victim");
    last.cgroups = cgroups(levels);
    last.short_of = None;
    scene.exit(pid, 9);
}

fn killed(levels: &[Level], short_of: Option<ShortOf>) -> Scene {
    let mut scene = Scene::new();
    kill(&mut scene, 7, levels);
    victims(&mut scene).for_each(|victim| victim.short_of = short_of);
    scene
}

fn logged(scene: &mut Scene, path: &str) {
    logged_of(scene, 7, path);
}

fn logged_of(scene: &mut Scene, pid: u32, path: &str) {
    scene.kmsg(KernelLog::OomKill {
        constraint: "CONSTRAINT_MEMCG".into(),
        oom_memcg: Some(path.into()),
        task_memcg: Some(path.into()),
        comm: "ray::hog".into(),
        pid: Pid(pid),
        uid: 0,
    });
}

/// Returns the path of the cgroup whose limit was hit, that limit in MiB, and how sure it is.
fn limit(death: &Death) -> (Option<&str>, Option<u64>, Certainty) {
    let oom = death.memory.oom.as_ref().expect("context");
    let limit = oom.limit_bytes.map(|limit| limit.0 / MIB);
    (oom.cgroup.as_deref(), limit, death.verdict.reason_certainty)
}

fn is_not_known(scene: &Scene, pid: u32) -> Death {
    let death = assert_verdict!(scene, pid, KernelOomMemcg, Proven);
    assert_eq!(limit(&death), (None, None, Certainty::Unknown));
    assert_eq!(death.verdict.missing, Some(Missing::Limit));
    let summary = clause::summary(&death);
    assert!(summary.contains("which one is not known"), "{summary}");
    death
}

/// The child is within 2 % of its limit when its parent is full.
const NEARLY_FULL_CHILD: [Level; 3] = [
    (3, "/job/step", 400, Some(404), 0),
    (2, "/job", 400, Some(400), 0),
    ROOT,
];

#[test]
fn kernel_names_the_group_that_was_full() {
    let scene = killed(&NEARLY_FULL_CHILD, Some(ShortOf::Cgroup { id: 2 }));
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Proven);
    assert_eq!(limit(&death), (Some("/job"), Some(400), Certainty::Proven));
    let mut evidence = death.verdict.evidence.iter();
    assert!(evidence.any(|piece| piece.what.ends_with("out_of_memory was called for /job")));
    let scene = killed(&NEARLY_FULL_CHILD, Some(ShortOf::Cgroup { id: 3 }));
    let limit_of_child = (Some("/job/step"), Some(404), Certainty::Proven);
    assert_eq!(limit(&scene.death(7)), limit_of_child);
}

#[test]
fn nearly_full_group_is_not_blamed() {
    let mut scene = killed(&NEARLY_FULL_CHILD, None);
    // Ray counts more than these limits, so it would see neither of them.
    monitor_started(&mut scene, 900 * MIB, 1000 * MIB);
    is_not_known(&scene, 7);
    assert_eq!(scene.report().findings, []);
    victims(&mut scene).for_each(|victim| victim.short_of = Some(ShortOf::Cgroup { id: 2 }));
    let mut findings = scene.report().findings.into_iter();
    assert!(findings.any(|finding| finding.rule == "hidden-limit"));
}

#[test]
fn only_group_that_met_its_limit_is_inferred() {
    let mut levels = NEARLY_FULL_CHILD;
    levels[1].4 = 1;
    let death = killed(&levels, None).death(7);
    assert_eq!(
        limit(&death),
        (Some("/job"), Some(400), Certainty::Inferred)
    );
    let said = "only /job had met its own limit";
    let mut evidence = death.verdict.evidence.iter();
    assert!(evidence.any(|piece| piece.what.contains(said)));
}

/// Each task that waits for `oom_lock` has raised the count of its own cgroup.
#[test]
fn two_groups_that_met_their_limits_decide_nothing() {
    let mut levels = NEARLY_FULL_CHILD;
    (levels[0].4, levels[1].4) = (1, 2);
    is_not_known(&killed(&levels, None), 7);
}

#[test]
fn earlier_counts_are_subtracted() {
    let mut levels = NEARLY_FULL_CHILD;
    levels[0].4 = 5;
    let mut scene = Scene::new();
    kill(&mut scene, 7, &levels);
    levels[1].4 = 1;
    scene.after(LATER);
    kill(&mut scene, 17, &levels);
    let first = (Some("/job/step"), Some(404), Certainty::Inferred);
    assert_eq!(limit(&scene.death(7)), first);
    let second = (Some("/job"), Some(400), Certainty::Inferred);
    assert_eq!(limit(&scene.death(17)), second);
}

/// A task of the job had raised its count before the first kill, and kills only after it.
#[test]
fn recent_count_may_be_of_a_task_that_still_waits() {
    let mut levels = NEARLY_FULL_CHILD;
    (levels[0].4, levels[1].4) = (1, 1);
    let mut scene = Scene::new();
    kill(&mut scene, 7, &levels);
    levels[0].4 = 2;
    scene.after(1000);
    kill(&mut scene, 17, &levels);
    is_not_known(&scene, 17);
}

/// The new cgroup has the path of one that was removed.
#[test]
fn counts_of_a_removed_group_are_not_subtracted() {
    let mut levels = NEARLY_FULL_CHILD;
    levels[0].4 = 1;
    let mut scene = Scene::new();
    kill(&mut scene, 7, &levels);
    scene.after(LATER);
    levels[0].0 = 33;
    kill(&mut scene, 17, &levels);
    let again = (Some("/job/step"), Some(404), Certainty::Inferred);
    assert_eq!(limit(&scene.death(17)), again);
}

#[test]
fn kernel_log_wins_over_counts() {
    let mut levels = NEARLY_FULL_CHILD;
    levels[0].4 = 1;
    let mut scene = killed(&levels, None);
    logged(&mut scene, "/job");
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Proven);
    assert_eq!(limit(&death), (Some("/job"), Some(400), Certainty::Proven));
}

#[test]
fn only_limit_on_the_path_is_inferred() {
    let levels = [
        (3, "/job/step", 30, None, 0),
        (2, "/job", 30, Some(64), 0),
        ROOT,
    ];
    let death = killed(&levels, None).death(7);
    assert_eq!(limit(&death), (Some("/job"), Some(64), Certainty::Inferred));
}

/// Above the levels that were read there may be more with limits.
#[test]
fn path_that_was_not_read_to_the_root_is_not_printed() {
    let levels = [(3, "/b/c", 30, Some(30), 1), (2, "/b", 30, None, 0)];
    let death = is_not_known(&killed(&levels, None), 7);
    assert_eq!(death.memory.oom.expect("context").task_cgroup, None);
    assert_eq!(death.memory.at_death, None);
    let death = killed(&levels, Some(ShortOf::Cgroup { id: 3 })).death(7);
    assert_eq!(limit(&death), (None, Some(30), Certainty::Proven));
    let mut scene = killed(&levels, Some(ShortOf::Cgroup { id: 3 }));
    logged(&mut scene, "/a/b/c");
    let with_path = (Some("/a/b/c"), Some(30), Certainty::Proven);
    assert_eq!(limit(&scene.death(7)), with_path);
}

/// Recordings of earlier builds have at most 95 bytes of a name.
#[test]
fn name_that_may_be_cut_is_not_printed() {
    let path = format!("/{}", "n".repeat(95));
    let of = |id: u64| {
        let mut scene = killed(&[(3, "/x", 30, Some(30), 0), ROOT], None);
        victims(&mut scene).for_each(|victim| {
            victim.cgroups[0].id = id;
            victim.cgroups[0].path.clone_from(&path);
        });
        scene.death(7).memory.oom.expect("context").cgroup
    };
    assert_eq!(of(0), None);
    assert_eq!(of(3), Some(path.clone()));
}

#[test]
fn what_was_short_needs_no_stack_and_no_log() {
    for (short_of, killer) in [
        (ShortOf::Cgroup { id: 2 }, Killer::KernelOomMemcg),
        (ShortOf::Machine, Killer::KernelOomGlobal),
        (ShortOf::Cpuset, Killer::KernelOomGlobal),
    ] {
        let mut scene = killed(&NEARLY_FULL_CHILD, Some(short_of));
        victims(&mut scene).for_each(|victim| victim.stack.clear());
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, killer);
        assert_eq!(death.verdict.reason_certainty, Certainty::Proven);
    }
}

/// Worker 7 is killed at a cgroup's limit. Beside it are worker 20 in the same step, worker 21 in
/// the same job, and two processes outside the job.
fn with_others(short_of: Option<ShortOf>, levels: &[Level]) -> Death {
    let mut scene = Scene::new();
    let others = [(20, "/job/step"), (21, "/job/other"), (22, "/elsewhere")];
    for (pid, cgroup) in others.into_iter().chain([(7, "/job/step")]) {
        scene.ray_worker(pid);
        scene.change_process(pid, |process: &mut Process| {
            process.cgroup = Some(cgroup.into());
        });
        sample_memory(&mut scene, pid, u64::from(pid) * 10);
    }
    let outside = OutsideMemory {
        process: key(90),
        name: "postgres".into(),
        cgroup: Some("/system".into()),
        memory: MemorySplit {
            anon: Some(Bytes(900 * MIB)),
            ..MemorySplit::default()
        },
    };
    scene.push(Source::Proc, Observation::Outside(outside));
    scene.signal(20, 7, 9, 128, true).after(4);
    scene.oom_victim(7, 20, true, &MEMCG).after(900);
    let last = victims(&mut scene).last().expect("a victim");
    last.cgroups = cgroups(levels);
    last.short_of = short_of;
    scene.anon_at_exit = Bytes(70 * MIB);
    scene.exit(7, 9);
    scene.death(7)
}

fn listed(death: &Death) -> (Vec<u32>, Option<(u32, u64)>) {
    let outside = death.memory.top_outside.as_ref();
    let outside = outside.map(|one| (one.processes, one.private_bytes.0 / MIB));
    let top = death.memory.top.iter().map(|one| one.pid.0);
    (top.collect(), outside)
}

#[test]
fn only_processes_of_the_full_group_are_listed() {
    let full = |id| Some(ShortOf::Cgroup { id });
    let of_job = with_others(full(2), &NEARLY_FULL_CHILD);
    assert_eq!(listed(&of_job), (vec![21, 20, 7], Some((2, 1120))));
    let minute = of_job.memory.last_minute.as_ref().expect("samples");
    let rows = minute.top.iter().map(|row| row.pid.0);
    assert_eq!(rows.collect::<Vec<_>>(), [21, 20]);
    let of_step = with_others(full(3), &NEARLY_FULL_CHILD);
    assert_eq!(listed(&of_step), (vec![20, 7], Some((3, 1330))));
}

/// If which group was full is known only by its counts, the list is of that group too. If it is not
/// known, the list is of the machine.
#[test]
fn list_is_of_the_machine_if_the_full_group_is_not_known() {
    let mut levels = NEARLY_FULL_CHILD;
    let unknown = with_others(None, &levels);
    assert_eq!(listed(&unknown), (vec![90, 22, 21, 20, 7], None));
    levels[0].4 = 1;
    let inferred = with_others(None, &levels);
    assert_eq!(listed(&inferred), (vec![20, 7], Some((3, 1330))));
}

/// Within seconds, another process may get the pid of a victim.
#[test]
fn line_about_an_earlier_process_with_that_pid_is_not_taken() {
    // The nearest line counts.
    let mut scene = Scene::new();
    logged(&mut scene, "/before");
    scene.after(4_000_000);
    kill(&mut scene, 7, &NEARLY_FULL_CHILD);
    logged(&mut scene, "/job");
    assert_eq!(
        limit(&scene.death(7)),
        (Some("/job"), Some(400), Certainty::Proven)
    );
    // A line from before the process.
    for (seconds, killer) in [(0, Killer::Unknown), (2, Killer::KernelOomMemcg)] {
        let mut scene = Scene::new();
        scene.after(seconds * 1_000_000);
        logged_of(&mut scene, 200, "/before");
        // It starts in the second second.
        scene.ray_worker(200).after(1_500_000).exit(200, 9);
        assert_eq!(scene.death(200).verdict.killer, killer);
    }
}
