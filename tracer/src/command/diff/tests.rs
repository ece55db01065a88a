//! Tests with two runs of four nodes each, all made from one golden recording.
//!
//! Each node gets its own name and ids.

use std::path::Path;

use super::{compare, named, of_some, read};
use crate::{
    event::{Event, Observation},
    golden,
    ids::{Bytes, HexId},
    judge::diff::{ComparedWith, Diff},
    recording::Writer,
    show::recording_filter::RecordingFilter,
};

const NAME: &str = "gallery-easyr1";
const NODES: u32 = 4;
/// The node that grows at another rate than the others.
const ODD: u32 = 3;

/// Turns the golden recording into that of node `number`: its calls keep `factor` times as much
/// memory.
fn node(events: &[Event], run: u32, number: u32, factor: f64) -> Vec<Event> {
    let more = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.times(factor));
    let mut events = events.to_vec();
    for event in &mut events {
        match &mut event.what {
            Observation::RecordingStarted(started) => {
                started.host = format!("gpu-{number:02}");
                started.boot_id = format!("{run:04}{number:04}");
            }
            Observation::Cluster(cluster) => {
                cluster.node_id = Some(HexId(format!("{:056x}", run * 100 + number)));
            }
            Observation::Call(call) => {
                call.before = more(call.before);
                call.after = more(call.after);
                call.peak = more(call.peak);
            }
            _ => {}
        }
    }
    events
}

/// Writes a run's recordings, one for each node.
fn write(folder: &Path, events: &[Event], run: u32, odd: f64) {
    std::fs::create_dir(folder).expect("a folder");
    for number in 1..=NODES {
        let factor = if number == ODD { odd } else { 1.0 };
        let path = folder.join(format!("gpu-{number:02}.raytrace"));
        let writer = Writer::create(&path, None).expect("create");
        let sender = writer.sender();
        for event in node(events, run, number, factor) {
            sender.send(event);
        }
        drop(sender);
        let summary = writer.finish();
        assert!(summary.failure.is_none(), "{}", path.display());
    }
}

fn compared(a: &Path, b: &Path) -> Diff {
    let report = |folder: &Path| {
        let (report, damaged) =
            read(&[folder.to_owned()], &RecordingFilter::default()).expect("a report");
        assert!(!damaged, "{:?}", report.notes);
        report
    };
    compare(("before", &report(a)), ("after", &report(b)))
}

#[test]
fn node_that_grew_faster_is_named() {
    let events = golden::read(NAME).events;
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after] = ["before", "after"].map(|run| folder.path().join(run));
    write(&before, &events, 1, 1.0);
    write(&after, &events, 2, 3.0);
    let diff = compared(&before, &after);
    assert_eq!((diff.a.nodes, diff.b.nodes), (NODES, NODES));
    let workers = diff.owners.iter().find(|owner| owner.class == "WorkerDict");
    let of_a = workers.and_then(|owner| owner.a).expect("it ran");
    assert_eq!((of_a.nodes, of_a.processes), (NODES, 4 * NODES));
    let nodes = diff.nodes.expect("several nodes");
    assert_eq!(nodes.both.len(), 4);
    let [one] = nodes.stand_out.as_slice() else {
        panic!("{:?}", nodes.stand_out);
    };
    assert_eq!(
        (one.node.as_str(), one.compared),
        ("gpu-03", ComparedWith::OtherRun)
    );
    assert_eq!(one.class, "WorkerDict");
    assert!(
        (one.factor.unwrap_or_default() - 3.0).abs() < 0.1,
        "{one:?}"
    );

    // A run does not differ from itself, and a single node has no other nodes to compare with.
    let same = compared(&before, &before).nodes.expect("several nodes");
    assert_eq!(same.stand_out, []);
    let filter = RecordingFilter {
        node: Some("gpu-03".into()),
        ..RecordingFilter::default()
    };
    let of_one = |run: &Path| of_some(&[run.to_owned()], &filter).expect("a node").0;
    let diff = compare(("a", &of_one(&before)), ("b", &of_one(&after)));
    assert_eq!(diff.nodes, None);
    assert_eq!(diff.a.host.as_deref(), Some("gpu-03"));
}

#[test]
fn run_is_named_after_its_first_file() {
    let files = ["a.raytrace", "b.raytrace", "c.raytrace"].map(Into::into);
    assert_eq!(named(&files), "a.raytrace and 2 more");
    assert_eq!(named(&files[..1]), "a.raytrace");
}
