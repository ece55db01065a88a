//! Tests of the printed comparison.

use super::render;
use crate::{
    ids::Bytes,
    judge::{
        cause::Cause,
        diff::{Fit, compare},
        report::{ActiveWarning, Certainty, Killer, Owner, Report, Setting},
    },
    show::{Style, sample},
};

fn text(a: &Report, b: &Report) -> String {
    text_at(100, a, b)
}

fn text_at(width: usize, a: &Report, b: &Report) -> String {
    let style = Style {
        width,
        ..sample::style()
    };
    let diff = compare(("before.raytrace", a), ("after.raytrace", b));
    anstream::adapter::strip_str(&render(&diff, &style)).to_string()
}

fn run(offload: &str, peak: f64, killed: bool) -> Report {
    let cause = Cause::RayMemoryMonitor {
        used_bytes: None,
        threshold_bytes: None,
    };
    let death = sample::death(9, 41877, 0, Killer::RayMemoryMonitor, cause);
    let mut report = sample::report(Vec::new(), killed.then_some(death).into_iter().collect());
    report.settings = vec![Setting {
        key: "worker.actor.offload.offload_params".into(),
        value: offload.into(),
        source: "command line of driver 690".into(),
        effective: true,
        cluster: None,
        job_id: None,
    }];
    report.owners = vec![Owner {
        class: "WorkerDict".into(),
        processes: 8,
        private_peak_bytes: Some(sample::gib(peak)),
        per_call_bytes: Some(Bytes(3 << 20)),
        ..Owner::default()
    }];
    report
}

#[test]
fn sections_are_written_in_columns() {
    insta::assert_snapshot!(text(&run("true", 64.8, true), &run("false", 3.2, false)), @r"
    A before.raytrace · gpu-07 · 188.0 GiB · 2026-11-20 06:02:11Z, 9,609 s · machine's peak 152.3 of
      188.0 GiB (81.0 %)
    B after.raytrace · gpu-07 · 188.0 GiB · 2026-11-20 06:02:11Z, 9,609 s · machine's peak 152.3 of
      188.0 GiB (81.0 %)

    SETTINGS                               A     B
      worker.actor.offload.offload_params  true  false  command line of driver 690
      1 other is the same in both

    PEAK OF PRIVATE MEMORY  A              B             change
      WorkerDict            64.8 GiB in 8  3.2 GiB in 8  −61.6 GiB

    GROWTH PER CALL  A      B      change
      WorkerDict     3 MiB  3 MiB  0

    DEATHS                         A  B  change
      hog by Ray's memory monitor  1  0  −1

    WHAT EXPLAINS THE CHANGE
      1 worker.actor.offload.offload_params: parameters move from GPU to host memory, in A only;
        WorkerDict held 64.8 GiB in A, 3.2 GiB in B (inferred)
    ");
}

#[test]
fn death_count_includes_warnings() {
    let (mut a, b) = (run("true", 64.8, true), run("true", 64.8, true));
    a.deaths[0].memory.warning = Some(Box::new(ActiveWarning {
        ms_before: 74_000,
        soonest_ms: 60_000,
        latest_ms: 110_000,
        grower: None,
        likely_victim: None,
    }));
    let row = |a: &Report, b: &Report| {
        let shown = text(a, b);
        let row = shown.lines().find(|line| line.contains("hog by"));
        row.expect("a row")
            .split("  ")
            .map(str::trim)
            .collect::<Vec<_>>()
            .join("|")
    };
    assert_eq!(
        row(&a, &b),
        "|hog by Ray's memory monitor|1 (warned 74 s before)|1|0"
    );
    a.deaths.extend([a.deaths[0].clone(), b.deaths[0].clone()]);
    if let Some(warning) = &mut a.deaths[1].memory.warning {
        warning.ms_before = 12_000;
    }
    let counted = row(&b, &a);
    assert!(
        counted.contains("1|3 (2 warned, 12 s before or more)|+2"),
        "{counted}"
    );
}

#[test]
fn long_cells_wrap_in_their_column() {
    let long = |value: &str| {
        let mut report = run("true", 64.8, false);
        report.settings[0].key = "actor_rollout_ref.rollout.log_prob_micro_batch".into();
        report.settings[0].value = value.repeat(4);
        report
    };
    let shown = text(&long("/data/models/a "), &long("/data/models/b "));
    let columns = shown.lines().map(super::sanitize::columns);
    assert!(columns.max() <= Some(100), "{shown}");
    assert_eq!(shown.matches("/data/models/b").count(), 4, "{shown}");
    assert!(shown.contains("command line of driver 690"), "{shown}");
    let key = "actor_rollout_ref.rollout.log_prob_micro_batch";
    assert!(shown.contains(key), "{shown}");
}

/// Returns the settings section for two jobs of verl, on a page of `width` columns.
fn settings_at(width: usize) -> String {
    let long = |batch: &str, model: &str| {
        let mut report = run("true", 64.8, false);
        let mut of_ray = report.settings[0].clone();
        report.settings[0].key = "actor_rollout_ref.rollout.log_prob_micro_batch".into();
        report.settings[0].value = batch.into();
        of_ray.key = "actor_rollout_ref.model.path".into();
        of_ray.value = model.into();
        of_ray.source = "environment of raylet 8907".into();
        report.settings.push(of_ray);
        report
    };
    let shown = text_at(
        width,
        &long("16", "/data/models/Qwen2.5-7B-Instruct"),
        &long("64", "/data/models/Qwen2.5-32B-Instruct"),
    );
    let widest = shown.lines().map(super::sanitize::columns).max();
    assert!(widest <= Some(width), "{shown}");
    let from = shown.find("SETTINGS").unwrap_or_default();
    let section = shown[from..].split("\n\n").next();
    section.unwrap_or_default().to_owned()
}

#[test]
fn narrow_page_puts_sources_below() {
    insta::assert_snapshot!(settings_at(120), @r"
    SETTINGS                                          A                                 B
      actor_rollout_ref.rollout.log_prob_micro_batch  16                                64
        command line of driver 690
      actor_rollout_ref.model.path                    /data/models/Qwen2.5-7B-Instruct  /data/models/Qwen2.5-32B-Instruct
        environment of raylet 8907
      1 other is the same in both
    ");
    insta::assert_snapshot!(settings_at(100), @r"
    SETTINGS                                          A   B
      actor_rollout_ref.rollout.log_prob_micro_batch  16  64
        command line of driver 690
      actor_rollout_ref.model.path (environment of raylet 8907)
        A  /data/models/Qwen2.5-7B-Instruct
        B  /data/models/Qwen2.5-32B-Instruct
      1 other is the same in both
    ");
    insta::assert_snapshot!(settings_at(80), @r"
    SETTINGS                                          A   B
      actor_rollout_ref.rollout.log_prob_micro_batch  16  64
        command line of driver 690
      actor_rollout_ref.model.path (environment of raylet 8907)
        A  /data/models/Qwen2.5-7B-Instruct
        B  /data/models/Qwen2.5-32B-Instruct
      1 other is the same in both
    ");
}

#[test]
fn excluded_setting_keeps_its_whole_key() {
    let key = "actor_rollout_ref.ref.fsdp_config.optimizer_offload";
    let with = |value: &str| {
        let mut report = run(value, 3.2, false);
        report.settings[0].key = key.into();
        report
    };
    let shown = text(&with("True"), &with("False"));
    let expected = format!("Cannot be the reason: {key}: ");
    assert!(shown.contains(&expected), "{shown}");
}

#[test]
fn hostile_names_are_made_harmless() {
    let mut hostile = run("true", 64.8, true);
    hostile.settings[0].value = "\u{1b}[31mred\u{202e}".into();
    hostile.owners[0].class = "\u{1b}]0;owned\u{7}".into();
    let shown = text(&hostile, &run("false", 3.2, false));
    assert!(
        !shown.contains(['\u{1b}', '\u{202e}', '\u{7}']),
        "{shown:?}"
    );
}

/// Settings with the same reason are told together.
#[test]
fn no_reason_is_told_twice() {
    let fit = |key: &str, why: &str| Fit {
        key: key.into(),
        class: None,
        why: why.into(),
        certainty: Certainty::Inferred,
    };
    let told = super::reasons(&[fit("a", "x"), fit("b", "y"), fit("c", "x")]);
    assert_eq!(told, ["a, c: x", "b: y"]);
}
