//! Tests of the report as text, at the widths of real terminals.

use crate::{
    explain::Explainer,
    ids::{EventId, HexId},
    judge::{
        fleet, from_text,
        report::{Recovery, Report, SurvivedDeath, TextSource},
    },
    show::{
        Style, sample,
        sanitize::{columns, is_harmless},
        select::{Kill, SelectedReport, Selection, select},
        text::render,
    },
};

fn style(width: usize) -> Style {
    Style {
        width,
        file: Some("raytrace-gpu-07-20261120T060211Z.raytrace".into()),
        ..sample::style()
    }
}

fn plain(shown: &SelectedReport, style: &Style) -> String {
    anstream::adapter::strip_str(&render(shown, style)).to_string()
}

fn whole(report: &Report, width: usize) -> String {
    plain(&SelectedReport::whole(report), &style(width))
}

#[test]
fn verl_job_at_120_columns() {
    insta::assert_snapshot!(whole(&sample::verl(), 120));
}

#[test]
fn verl_job_at_80_columns() {
    insta::assert_snapshot!(whole(&sample::verl(), 80));
}

#[test]
fn survived_first_cause_is_named_once() {
    let mut report = sample::verl();
    let retried = Recovery::TaskRetried { left: None };
    report.jobs[0].survived = [Recovery::WentOn, retried]
        .map(|how| SurvivedDeath {
            death_id: EventId(4100),
            how,
        })
        .into();
    let shown = whole(&report, 200);
    assert!(shown.contains("did not end it: task retried."), "{shown}");
    assert!(!shown.contains("the job went on"), "{shown}");
}

#[test]
fn unknown_killer_may_be_a_memory_kill() {
    let shown = whole(&sample::others(), 100);
    assert!(
        shown.contains("No death is known to be a kill for memory;"),
        "{shown}"
    );
}

fn explained(text: &str) -> String {
    let mut explainer = Explainer::default();
    let read = explainer.read("driver.log", text.as_bytes(), |_| {});
    read.expect("a text in memory");
    whole(&from_text::judge(&explainer.finish(), None), 200)
}

#[test]
fn kills_that_ray_only_counted_have_no_empty_reason() {
    let node = "5a".repeat(28);
    let shown = explained(&format!(
        "[2025-11-20 12:00:01,123 E 61 61] (raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: {node}, IP: 192.0.2.7) over the last time period."
    ));
    assert!(shown.contains("KILL 2"), "{shown}");
    assert!(shown.lines().all(|line| line.trim() != "why"), "{shown}");
}

/// An owner, a peer or a node may have been killed for memory; what followed is no first cause.
#[test]
fn what_is_not_in_the_texts_may_be_a_memory_kill() {
    for (line, untold) in [
        (
            "The actor is dead because its owner has died. Owner Id: 5a5a Owner Ip address: 192.0.2.7 Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's worker process has crashed.",
            "what ended its owner",
        ),
        (
            "[rank1]:[E1 ProcessGroupNCCL.cpp:627] [Rank 1] To avoid data inconsistency, we are taking the entire process down.",
            "whether another rank had ended before",
        ),
        (
            "[2022-11-20 12:00:01,123 E 61 61] (raylet) agent_manager.cc:134: The raylet exited immediately because the Ray agent failed. The raylet fate shares with the agent.",
            "what ended the agent",
        ),
        (
            "[2021-11-20 12:00:01,123 C 61 61] node_manager.cc:170: This node has been marked as dead.",
            "what happened to its node",
        ),
        (
            "[2022-11-20 12:00:01,123 C 61 62] gcs_rpc_client.h:538:  Check failed: absl::ToInt64Seconds(absl::Now() - gcs_last_alive_time_) < limit Failed to connect to GCS within 60 seconds",
            "why the GCS did not answer",
        ),
    ] {
        let shown = explained(line);
        let known = "No death is known to be a kill for memory";
        assert!(
            shown.contains(&format!("{known}; {untold} is not in these logs.")),
            "{shown}"
        );
        assert!(!shown.contains("first cause"), "{shown}");
    }
}

#[test]
fn logs_without_deaths_claim_no_zero_kills() {
    let mut report = sample::quiet();
    report.texts = vec![TextSource {
        name: "driver.log".into(),
        lines: 3,
        utc_offset_s: None,
        clock: "no times".into(),
    }];
    let shown = whole(&report, 100);
    assert!(
        shown.contains("These logs name no abnormal death."),
        "{shown}"
    );
    assert!(!shown.contains("0 kills"), "{shown}");
    report.deaths.clear();
    let shown = whole(&report, 100);
    assert!(
        shown.contains("No line that raytrace knows reports a death."),
        "{shown}"
    );
}

#[test]
fn one_kill_in_full() {
    let selection = Selection {
        kill: Some(Kill::Number(2)),
        ..Selection::default()
    };
    let shown = select(sample::verl(), &selection);
    insta::assert_snapshot!(plain(&shown, &style(100)));
}

#[test]
fn run_without_kills() {
    insta::assert_snapshot!(whole(&sample::quiet(), 100));
}

#[test]
fn nearly_full_pod_without_kills() {
    insta::assert_snapshot!(whole(&sample::pod(), 100));
}

#[test]
fn thirty_kills_in_a_second() {
    insta::assert_snapshot!(whole(&sample::burst(), 100));
}

#[test]
fn group_lines_hold_what_differs() {
    insta::assert_snapshot!(whole(&sample::scattered(), 100));
}

#[test]
fn other_deaths_and_a_recording_with_gaps() {
    insta::assert_snapshot!(whole(&sample::others(), 100));
}

#[test]
fn lost_renames_lose_no_death() {
    let mut report = sample::others();
    report.recordings[0].ledgers[0].hook = "task/task_rename".into();
    let text = whole(&report, 200);
    let line = "12 events were lost (task/task_rename 12): calls and memory may be incomplete, no death is missing";
    assert!(text.contains(line), "{text}");
}

#[test]
fn lost_acts_of_others_lose_no_death() {
    for hook in [
        "fexit/mm_access",
        "tracers and writers of user 1000",
        "signals of user 1000",
    ] {
        let mut report = sample::others();
        report.recordings[0].ledgers[0].hook = hook.into();
        let text = whole(&report, 200);
        let line = format!(
            "12 events were lost ({hook} 12): who signalled or changed a process may be missing, no death is"
        );
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn hostile_name_stays_on_a_bounded_line() {
    let text = whole(&sample::hostile(), 100);
    insta::assert_snapshot!(text);
}

#[test]
fn lines_fit_the_width_and_are_harmless() {
    let reports = [
        sample::verl(),
        sample::quiet(),
        sample::burst(),
        sample::scattered(),
        sample::others(),
        sample::hostile(),
    ];
    for report in &reports {
        for width in [80, 100, 120] {
            for all in [false, true] {
                let selection = Selection {
                    all,
                    ..Selection::default()
                };
                for line in plain(&select(report.clone(), &selection), &style(width)).lines() {
                    // A command is not broken, so that it can be copied.
                    let is_command = line
                        .trim_start_matches("See")
                        .trim()
                        .starts_with("raytrace ");
                    assert!(is_command || columns(line) <= width, "{width}: {line}");
                    assert!(line.chars().all(is_harmless), "{line:?}");
                }
            }
        }
    }
}

#[test]
fn thousands_of_normal_exits_are_one_count() {
    let text = whole(&sample::flood(), 100);
    assert!(text.lines().count() < 40, "{text}");
    assert!(
        text.contains("5,016 normal exits not listed (--all)"),
        "{text}"
    );
}

#[test]
fn all_lists_every_death() {
    let selection = Selection {
        all: true,
        ..Selection::default()
    };
    let text = plain(&select(sample::flood(), &selection), &style(100));
    assert!(text.lines().count() > 5016);
    let text = plain(&select(sample::burst(), &selection), &style(100));
    assert_eq!(
        text.matches("KILL ").count(),
        31,
        "the first one leads, too"
    );
}

#[test]
fn colours_are_the_only_escape_sequences() {
    let coloured = render(&SelectedReport::whole(&sample::hostile()), &style(100));
    for sequence in coloured.split('\u{1b}').skip(1) {
        let end = sequence.find('m').expect("a colour sequence");
        let body = &sequence[1..end];
        assert!(sequence.starts_with('['), "{sequence:?}");
        assert!(
            body.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b';')
        );
    }
}

#[test]
fn thousand_nodes_fit_a_screen() {
    let reports = (0..1000).map(|number| {
        let mut report = match number % 10 {
            0 => sample::verl(),
            _ => sample::quiet(),
        };
        let host = &mut report.recordings[0].host;
        host.name = format!("gpu-{number:04}");
        host.boot_id = format!("boot-{number}");
        for cluster in &mut report.clusters {
            cluster.node_id = HexId::parse(&format!("{number:056x}"));
        }
        report
    });
    let report = fleet::join(reports.collect());
    assert_eq!(report.nodes.len(), 1000);
    let text = whole(&report, 100);
    let screen = text.lines().take_while(|line| !line.is_empty()).count();
    assert!((10..=45).contains(&screen), "{screen} lines:\n{text}");
    assert!(text.contains("900 nodes ("), "{text}");
}

/// The stamps of such a log have no year, and the order of its lines is no time.
#[test]
fn no_time_between_two_kills_is_made_up() {
    let kill = |stamp: &str, pid: u32| {
        format!(
            "{stamp} node1 kernel: Out of memory: Killed process {pid} (python3) total-vm:11892kB, anon-rss:4292kB, file-rss:3428kB, shmem-rss:0kB\n"
        )
    };
    let text = kill("Nov 21 03:09:27", 31) + &kill("Nov 21 19:09:27", 32);
    let shown = explained(&text);
    assert!(shown.contains("KILL 2"), "{shown}");
    assert!(!shown.contains("after KILL 1"), "{shown}");
}

#[test]
fn a_container_that_the_kubelet_restarts_is_not_evicted() {
    let shown = explained(
        "  Normal   Killing    2m    kubelet  Container ray-head failed liveness probe, will be restarted\n",
    );
    assert!(
        shown.contains("ray-head was killed by the kubelet"),
        "{shown}"
    );
    assert!(!shown.contains("evicted"), "{shown}");
}
