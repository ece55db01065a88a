//! Tests of the page as text. End-to-end tests cover what a browser makes of it.

use serde_json::Value;

use super::{ChartSeries, render, summary};
use crate::{
    ids::EventId,
    judge::{
        report::{ClockOffset, Node, Report},
        timeline::Timeline,
    },
    show::{
        Style,
        redact::KnownNames,
        sample,
        sanitize::is_harmless,
        select::{SelectedReport, Selection, select},
        view::View,
    },
};

fn style() -> Style {
    Style {
        file: Some("a.raytrace".into()),
        ..sample::style()
    }
}

fn page(report: &Report) -> String {
    render(
        SelectedReport::whole(report),
        &style(),
        &[],
        &KnownNames::default(),
    )
    .expect("a page")
}

/// Returns the data that the scripts read.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").expect("data");
    let (data, _) = rest.split_once("</script>").expect("an end");
    serde_json::from_str(data).expect("JSON")
}

#[test]
fn verl_job_first_screen() {
    let report = sample::verl();
    let shown = SelectedReport::whole(&report);
    let summary = summary::render(&View::new(&shown, &style()));
    insta::assert_snapshot!(summary.top + &summary.sections);
}

#[test]
fn hostile_name_stays_inside_the_data() {
    let mut report = sample::hostile();
    report.deaths[0].work.task_name = Some("</script><script>alert(1)</script>{{script}}".into());
    report.deaths[0].process.title = None;
    report.notes = vec!["<img src=x onerror=alert(1)> {{data}} \u{202e}".into()];
    let page = page(&report);
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("id=\"data\"").count(), 1);
    assert!(page.chars().all(|one| is_harmless(one) || one == '\n'));
    let name = data(&page)["deaths"][0]["name"].clone();
    assert!(
        name.as_str()
            .is_some_and(|name| name.starts_with("</script>")),
        "{name}"
    );
}

#[test]
fn listed_deaths_are_under_their_first_cause() {
    let report = sample::verl();
    let data = data(&page(&report));
    let deaths = data["deaths"].as_array().expect("deaths");
    let listed = report.deaths.iter().filter(|death| death.listed).count();
    assert_eq!(deaths.len(), listed);
    for death in deaths {
        let root = &death["root"];
        let known = deaths.iter().find(|other| &other["id"] == root);
        assert_eq!(known.is_some(), !root.is_null(), "{death}");
        assert_eq!(death["label"] == "", !root.is_null(), "{death}");
    }
}

#[test]
fn page_loads_nothing() {
    let page = page(&sample::verl());
    for loading in [
        "http:", "https:", "url(", "@import", "import(", "fetch(", " src=\"", "XMLHttp",
    ] {
        assert!(!page.contains(loading), "{loading}");
    }
}

#[test]
fn deaths_beyond_the_maximum_are_counted() {
    let mut report = sample::flood();
    let one = report.deaths[0].clone();
    for number in 0..15_100 {
        let mut more = one.clone();
        more.id = EventId(100_000 + number);
        report.deaths.push(more);
    }
    let shown = |report: &Report| {
        let selection = Selection {
            all: true,
            ..Selection::default()
        };
        let page = render(
            select(report.clone(), &selection),
            &style(),
            &[],
            &KnownNames::default(),
        )
        .expect("a page");
        let data = data(&page);
        let deaths = data["deaths"].as_array().map_or(0, Vec::len);
        (deaths, data["deaths_left_out"].as_u64())
    };
    assert_eq!(shown(&report), (20_000, Some(116)));
    assert_eq!(shown(&sample::verl()).1, Some(0));
}

/// Makes a timeline of one hour without processes.
fn hour() -> Timeline {
    Timeline {
        began: sample::at(0),
        ended: sample::at(3_600_000 * sample::MS),
        node: Vec::new(),
        cgroups: Vec::new(),
        processes: Vec::new(),
        addresses: Vec::new(),
    }
}

#[test]
fn lanes_use_the_gcs_nodes_clock() {
    let mut report = sample::verl();
    let mut second = report.recordings[0].clone();
    second.id = 1;
    report.recordings.push(second);
    let ahead = ClockOffset {
        ahead_at_least_ms: Some(1900),
        ahead_at_most_ms: Some(2100),
        corrected_by_ms: 2000,
    };
    let node = |name: &str, recording: u32, clock: Option<ClockOffset>| Node {
        name: name.into(),
        recordings: vec![recording],
        clock,
        ..Node::default()
    };
    report.nodes = vec![node("gpu-01", 0, None), node("gpu-02", 1, Some(ahead))];
    for death in &mut report.deaths {
        death.recording_id = Some(1);
        death.node = Some("gpu-02".into());
    }
    let charts: Vec<Option<ChartSeries>> = (0..2)
        .map(|_| Some(ChartSeries::of(&report, hour(), 2)))
        .collect();
    let shown = SelectedReport::whole(&report);
    let page = render(shown, &style(), &charts, &KnownNames::default()).expect("a page");
    assert!(
        page.contains("gpu-02</time> the kernel killed"),
        "the first screen names the node"
    );
    let data = data(&page);
    let of = |at: usize, key: &str| data["lanes"][at][key].clone();
    assert_eq!(
        (of(0, "name"), of(0, "quiet")),
        ("gpu-02".into(), false.into())
    );
    assert_eq!(
        (of(1, "name"), of(1, "quiet")),
        ("gpu-01".into(), true.into())
    );
    assert_eq!(of(0, "spans"), serde_json::json!([[0, 3_600_000]]));
    assert_eq!(of(1, "spans"), serde_json::json!([[2000, 3_602_000]]));
    let deaths = data["deaths"].as_array().expect("deaths");
    assert!(
        deaths
            .iter()
            .all(|death| death["lane"] == 0 && death["node"] == "gpu-02")
    );
}
