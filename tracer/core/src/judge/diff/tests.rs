//! Tests what a comparison says and what it must not say.

use super::{Diff, compare};
use crate::{
    ids::{Bytes, Pid},
    judge::{
        judge,
        report::{Certainty, Finding, Job, Outcome, OutcomeReason, Owner, Report, Saving, Setting},
    },
};

const MIB: u64 = 1 << 20;

/// Returns a report with these settings and these classes: processes, peak and growth per call in
/// MiB.
fn report(settings: &[(&str, &str)], owners: &[(&str, u32, u64, Option<u64>)]) -> Report {
    let mut report = judge(&[]);
    report.settings = settings
        .iter()
        .map(|(key, value)| Setting {
            key: (*key).into(),
            value: (*value).into(),
            source: "environment of raylet 7".into(),
            effective: true,
            cluster: None,
            job_id: None,
        })
        .collect();
    report.owners = owners
        .iter()
        .map(|(class, processes, peak, per_call)| Owner {
            class: (*class).into(),
            processes: *processes,
            private_peak_bytes: Some(Bytes(peak * MIB)),
            per_call_bytes: per_call.map(|mib| Bytes(mib * MIB)),
            ..Owner::default()
        })
        .collect();
    report
}

fn compared(a: &Report, b: &Report) -> Diff {
    compare(("a", a), ("b", b))
}

const OFFLOAD: &str = "worker.actor.offload.offload_params";
const UTILIZATION: &str = "worker.rollout.gpu_memory_utilization";

#[test]
fn disabled_offload_fits_less_memory() {
    let a = report(
        &[(OFFLOAD, "true"), (UTILIZATION, "0.6")],
        &[("WorkerDict", 2, 1600, None)],
    );
    let b = report(
        &[(OFFLOAD, "false"), (UTILIZATION, "0.5")],
        &[("WorkerDict", 2, 400, None)],
    );
    let diff = compared(&a, &b);
    let [fit] = diff.explains.as_slice() else {
        panic!("{:?}", diff.explains);
    };
    assert_eq!(
        (fit.key.as_str(), fit.class.as_deref()),
        (OFFLOAD, Some("WorkerDict"))
    );
    assert!(
        fit.why
            .ends_with("WorkerDict held 1.6 GiB in A, 0.4 GiB in B"),
        "{}",
        fit.why
    );
    assert_eq!(diff.cannot_explain.len(), 1, "{:?}", diff.cannot_explain);
    assert_eq!(diff.cannot_explain[0].key, UTILIZATION);
}

#[test]
fn disabled_offload_does_not_fit_more_memory() {
    let a = report(&[(OFFLOAD, "true")], &[("WorkerDict", 2, 400, None)]);
    let b = report(&[(OFFLOAD, "false")], &[("WorkerDict", 2, 1600, None)]);
    let fits = compared(&a, &b).explains;
    assert!(
        fits.iter().all(|fit| !fit.why.contains("GPU to host")),
        "{fits:?}"
    );
}

#[test]
fn number_proportional_to_call_growth_fits() {
    let a = report(
        &[("batch", "1024"), ("seed", "1")],
        &[("Rollout", 1, 900, Some(200))],
    );
    let b = report(
        &[("batch", "512"), ("seed", "7")],
        &[("Rollout", 1, 500, Some(104))],
    );
    let diff = compared(&a, &b);
    let [fit] = diff.explains.as_slice() else {
        panic!("{:?}", diff.explains);
    };
    assert_eq!(fit.key, "batch");
    assert!(
        fit.why
            .contains("the growth per call of Rollout fell from 0.2 GiB to 0.1 GiB (× 0.52)"),
        "{}",
        fit.why
    );
}

#[test]
fn doubled_cpus_fit_half_the_processes() {
    let a = report(
        &[("num-cpus", "1"), ("seed", "1")],
        &[("allocate_memory", 15, 3000, None)],
    );
    let b = report(
        &[("num-cpus", "2"), ("seed", "7")],
        &[("allocate_memory", 7, 1400, None)],
    );
    let fits = compared(&a, &b).explains;
    let keys: Vec<&str> = fits.iter().map(|fit| fit.key.as_str()).collect();
    assert_eq!(keys, ["num-cpus"], "{fits:?}");
    assert!(
        fits[0]
            .why
            .ends_with("the number of processes of allocate_memory fell from 15 to 7 (× 0.47)"),
        "{fits:?}"
    );
}

/// They are listed as changes that may explain it.
#[test]
fn several_unknown_changes_explain_nothing() {
    let a = report(&[("one", "x"), ("two", "x")], &[("Rollout", 1, 900, None)]);
    let b = report(&[("one", "y"), ("two", "y")], &[("Rollout", 1, 300, None)]);
    let diff = compared(&a, &b);
    assert_eq!(diff.explains, []);
    let may: Vec<&str> = (diff.may_explain.iter())
        .map(|fit| fit.key.as_str())
        .collect();
    assert_eq!(may, ["one", "two"]);
}

/// A number that rose by the factor of the fall does not explain it either.
#[test]
fn raised_batch_cannot_explain_a_lower_peak() {
    let batch = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu";
    let of = |steps, batch_size, path, peak| {
        let settings = [
            ("trainer.total_training_steps", steps),
            (batch, batch_size),
            ("actor_rollout_ref.model.path", path),
        ];
        report(&settings, &[("WorkerDict", 2, peak, None)])
    };
    let diff = compared(&of("1", "1", "/a", 6600), &of("6", "16", "/b", 1000));
    // Another model is the first thing to name.
    assert_eq!(diff.explains[0].key, "actor_rollout_ref.model.path");
    assert_eq!(
        diff.explains[0].why,
        "another model; WorkerDict held 6.4 GiB in A, 1.0 GiB in B"
    );
    let keys =
        |fits: &[super::Fit]| -> Vec<String> { fits.iter().map(|fit| fit.key.clone()).collect() };
    assert_eq!(keys(&diff.cannot_explain), [batch]);
    assert_eq!(
        diff.cannot_explain[0].why,
        "it was raised; WorkerDict held 6.4 GiB in A, 1.0 GiB in B"
    );
    assert_eq!(keys(&diff.may_explain), ["trainer.total_training_steps"]);
}

#[test]
fn possible_setting_is_listed_beside_a_fit() {
    let dtype = "actor_rollout_ref.actor.fsdp_config.model_dtype";
    let of = |ranks, settings: &[(&'static str, &'static str)], processes, peak| {
        let settings = [&[("trainer.n_gpus_per_node", ranks)], settings].concat();
        report(&settings, &[("WorkerDict", processes, peak, None)])
    };
    let diff = compared(
        &of("2", &[], 2, 4300),
        &of("1", &[(dtype, "bf16")], 1, 3700),
    );
    assert_eq!(diff.explains[0].key, "trainer.n_gpus_per_node");
    assert_eq!(diff.may_explain[0].key, dtype);
}

/// The setting brings in the line that keeps the memory. A size that bounds the same class is then
/// no explanation of its own.
#[test]
fn setting_named_by_a_finding_fits_first() {
    let (key, length) = ("custom_reward_function.path", "data.max_prompt_length");
    let a = report(&[(length, "128")], &[("TaskRunner", 1, 400, None)]);
    let settings = [(key, "/home/me/reward.py"), (length, "256")];
    let mut b = report(&settings, &[("TaskRunner", 1, 4500, None)]);
    b.findings = vec![Finding {
        remedy: vec![format!(
            "reward.py:5 (from {key}=/home/me/reward.py): keep less"
        )],
        saving: Some(Saving {
            class: Some("TaskRunner".into()),
            task: None,
            bytes: Bytes(3400 * MIB),
        }),
        ..Finding::new(
            "controller",
            Certainty::Inferred,
            "3.4 GiB is kept by reward.py:5",
        )
    }];
    let diff = compared(&a, &b);
    let [fit] = diff.explains.as_slice() else {
        panic!("{:?}", diff.explains);
    };
    assert_eq!(fit.key, key);
    assert_eq!(fit.why, "in B only; 3.4 GiB is kept by reward.py:5");
}

/// A child made by fork has its parent's memory, which no setting of the parent's class bounds.
#[test]
fn setting_does_not_act_on_children_made_by_fork() {
    let child = "TaskRunner.run (subprocess)";
    let with = |length| [("data.max_prompt_length", length), ("seed", length)];
    let a = report(&with("128"), &[(child, 2, 900, None)]);
    let b = report(&with("256"), &[(child, 2, 6900, None)]);
    let fits = compared(&a, &b).explains;
    assert!(
        fits.iter().all(|fit| !fit.why.contains("bounds")),
        "{fits:?}"
    );
    let with = |path| [("actor_rollout_ref.model.path", path)];
    let a = report(
        &with("small"),
        &[(child, 2, 6900, None), ("WorkerDict", 2, 900, None)],
    );
    let b = report(
        &with("large"),
        &[(child, 2, 900, None), ("WorkerDict", 2, 5900, None)],
    );
    let diff = compared(&a, &b);
    assert_eq!(diff.explains[0].class.as_deref(), Some("WorkerDict"));
    assert_eq!(diff.owners[0].class, "WorkerDict");
}

#[test]
fn sole_change_fits_only_if_memory_moved() {
    let a = report(&[("one", "x")], &[("Rollout", 1, 900, None)]);
    let b = report(&[("one", "y")], &[("Rollout", 1, 300, None)]);
    assert_eq!(compared(&a, &b).explains.len(), 1);
    let c = report(&[("one", "y")], &[("Rollout", 1, 905, None)]);
    assert_eq!(compared(&a, &c).explains, []);
}

#[test]
fn ineffective_setting_explains_nothing() {
    let mut a = report(
        &[("RAY_object_store_memory", "30")],
        &[("Rollout", 1, 900, None)],
    );
    let mut b = report(
        &[("RAY_object_store_memory", "20")],
        &[("Rollout", 1, 300, None)],
    );
    a.settings[0].effective = false;
    b.settings[0].effective = false;
    let diff = compared(&a, &b);
    assert_eq!(diff.explains, []);
    assert_eq!(diff.cannot_explain.len(), 1);
}

#[test]
fn driver_arguments_are_compared_without_pid() {
    let with = |pid: u32, entrypoint: &str| {
        let mut report = report(&[], &[]);
        report.jobs.push(job(pid, entrypoint));
        report
    };
    let a = with(
        10,
        "python3 -m verl.trainer.main_ppo data.train_batch_size=8 trainer.nnodes=1",
    );
    let b = with(
        20,
        "python3 -m verl.trainer.main_ppo data.train_batch_size=4 trainer.nnodes=1",
    );
    let diff = compared(&a, &b);
    let keys: Vec<&str> = diff
        .settings
        .iter()
        .map(|change| change.key.as_str())
        .collect();
    assert_eq!(keys, ["data.train_batch_size"]);
    assert_eq!(diff.same_settings, 1);
}

#[test]
fn expected_saving_is_shown_beside_seen() {
    let mut a = report(&[], &[("Trainer", 1, 1200, None)]);
    let b = report(&[], &[("Trainer", 1, 200, None)]);
    a.findings = vec![Finding {
        saving: Some(Saving {
            class: Some("Trainer".into()),
            task: None,
            bytes: Bytes(900 * MIB),
        }),
        remedy: vec!["batch_size=8 (now 32)".into()],
        ..Finding::new("call-grew", Certainty::Inferred, "it grew")
    }];
    // If its remedy was not applied, a lower peak says nothing about it.
    assert_eq!(compared(&a, &b).savings, []);
    let set = |report: &mut Report, value| {
        let entrypoint = format!("python train.py batch_size={value} size=1");
        report.jobs = vec![job(10, &entrypoint)];
    };
    let mut b = b;
    set(&mut a, 32);
    for (value, applied) in [(8, 1), (16, 1), (32, 0), (64, 0)] {
        set(&mut b, value);
        assert_eq!(compared(&a, &b).savings.len(), applied, "{value}");
    }
    set(&mut b, 8);
    let savings = compared(&a, &b).savings;
    assert_eq!(savings[0].finding, 1);
    assert_eq!(savings[0].expected_bytes, Bytes(900 * MIB));
    assert_eq!(savings[0].seen_bytes, Some((1000 * MIB).cast_signed()));
    // The second run goes on where the first was killed. A run that got less far, or has another
    // framework, says nothing about the remedy.
    let calls = |first: u64, second: u64, processes: u32| {
        let (mut a, mut b) = (a.clone(), b.clone());
        (a.owners[0].calls, a.owners[0].processes) = (first, 2);
        (b.owners[0].calls, b.owners[0].processes) = (second, processes);
        compared(&a, &b).savings[0].seen_bytes.is_some()
    };
    assert!(calls(6, 40, 2));
    assert!(!calls(6, 5, 2));
    // Half as many ranks got as far.
    assert!(calls(6, 3, 1));
    assert!(!calls(6, 0, 1));
    let mut verl = b.clone();
    verl.jobs = vec![job(10, "python3 -m verl.trainer.main_ppo batch_size=8")];
    assert_eq!(compared(&a, &verl).savings, []);
    let with_model = |report: &Report, value, model: &str| {
        let command = format!("python train.py batch_size={value} size=1 model.path={model}");
        let mut report = report.clone();
        report.jobs = vec![job(10, &command)];
        report
    };
    let small = with_model(&a, 32, "/small");
    assert_eq!(
        compared(&small, &with_model(&b, 8, "/small")).savings.len(),
        1
    );
    assert_eq!(compared(&small, &with_model(&b, 8, "/large")).savings, []);
    // A class that did not run in both tells nothing.
    assert_eq!(compared(&a, &report(&[], &[])).savings, []);
}

#[test]
fn line_keeping_less_is_an_applied_remedy() {
    let line = |held: Option<u64>| crate::judge::report::GrowthLine {
        file: "/home/u/reward.py".into(),
        line: Some(8),
        function: "score".into(),
        user_line: None,
        inside: None,
        native: None,
        grown_bytes: Bytes(900 * MIB),
        shared_bytes: Bytes(0),
        held_bytes: held.map(|held| Bytes(held * MIB)),
    };
    let of = |peak, held| {
        let mut report = report(&[], &[("TaskRunner", 1, peak, None)]);
        report.growth = vec![crate::judge::report::Growth {
            recording_id: None,
            class: "TaskRunner".into(),
            processes: 1,
            grown_bytes: Bytes(900 * MIB),
            lines: vec![line(held)],
            functions: Vec::new(),
            unsampled: Vec::new(),
        }];
        report.findings = vec![Finding {
            saving: Some(Saving {
                class: Some("TaskRunner".into()),
                task: None,
                bytes: Bytes(800 * MIB),
            }),
            remedy: vec!["reward.py:8 score: keep less".into()],
            ..Finding::new("leak", Certainty::Inferred, "it grew")
        }];
        report
    };
    let a = of(1900, Some(900));
    assert_eq!(compared(&a, &of(1000, Some(0))).savings.len(), 1);
    assert_eq!(compared(&a, &of(1000, Some(800))).savings, []);
}

#[test]
fn batch_size_fits_the_class_it_bounds() {
    let key = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu";
    let with =
        |value, owner: (&'static str, u32, u64, Option<u64>)| report(&[(key, value)], &[owner]);
    let a = with("16", ("WorkerDict", 2, 3000, None));
    let fits = compared(&a, &with("64", ("WorkerDict", 2, 5900, None))).explains;
    assert_eq!(fits.len(), 1, "{fits:?}");
    assert!(
        fits[0].why.starts_with("it bounds what WorkerDict takes"),
        "{fits:?}"
    );
    let other = with("16", ("TaskRunner", 1, 900, None));
    let fits = compared(&other, &with("64", ("TaskRunner", 1, 2000, None))).explains;
    assert!(
        fits.iter().all(|fit| !fit.why.contains("bounds")),
        "{fits:?}"
    );
}

/// Adds a job with this command line to a report.
fn ran(mut report: Report, entrypoint: &str) -> Report {
    report.jobs = vec![job(10, entrypoint)];
    report
}

fn job(pid: u32, entrypoint: &str) -> Job {
    Job {
        cluster: Some(0),
        job_id: crate::ids::HexId("01000000".into()),
        entrypoint: Some(entrypoint.into()),
        framework: None,
        last_step: None,
        outcome: Outcome::Failed,
        ended: None,
        ended_by_death_id: None,
        recording_id: None,
        ended_by_recording_id: None,
        driver_pid: Some(Pid(pid)),
        survived: Vec::new(),
        because: OutcomeReason::Running,
    }
}

#[test]
fn changed_command_precedes_monitor_interval() {
    const REFRESH: &str = "RAY_memory_monitor_refresh_ms";
    let a = report(&[(REFRESH, "250")], &[("hog", 1, 100, None)]);
    let b = report(&[(REFRESH, "100")], &[("hog", 1, 900, None)]);
    let a = ran(a, "/v/bin/python leak.py 4 --steps=3");
    let b = ran(b, "/v/bin/python leak.py 16 --steps=3");
    let diff = compared(&a, &b);
    let keys: Vec<&str> = diff.settings.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["command", REFRESH]);
    let fits: Vec<&str> = diff.explains.iter().map(|fit| fit.key.as_str()).collect();
    assert_eq!(fits, ["command"], "{:?}", diff.explains);
    assert!(
        diff.explains[0]
            .why
            .starts_with("the command changed (leak.py 4 in A, leak.py 16 in B)"),
        "{:?}",
        diff.explains
    );
}

#[test]
fn options_do_not_change_the_command() {
    let owners = [("hog", 1, 100, None)];
    let a = ran(report(&[], &owners), "python train.py --batch=4");
    let b = ran(report(&[], &owners), "/v/bin/python3 train.py --batch=8");
    let keys: Vec<String> = compared(&a, &b)
        .settings
        .into_iter()
        .map(|one| one.key)
        .collect();
    assert_eq!(keys, ["batch"]);
}
