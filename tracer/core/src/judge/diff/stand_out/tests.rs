//! Tests which nodes stand out and which do not.

use super::{Compared, StandOut, all};
use crate::{
    ids::Bytes,
    judge::diff::rates::{Measured, Rate, Rates, Table},
};

/// How many calls, or hours, a run has.
const TIMES: f64 = 40.0;

/// Returns a table with one kind of growth on the nodes gpu-01, gpu-02 and so on, in MiB in A and
/// in B.
fn table(task: Option<&str>, nodes: &[(Option<u64>, Option<u64>)]) -> Table {
    let measured = Measured {
        class: "WorkerDict".into(),
        task: task.map(str::to_owned),
    };
    let rate = |mib: Option<u64>| {
        mib.map(|mib| Rate {
            each: Bytes(mib << 20),
            times: TIMES,
        })
    };
    let named = (1..).zip(nodes).map(|(number, (a, b))| {
        let rates = Rates {
            a: rate(*a),
            b: rate(*b),
        };
        (format!("gpu-{number:02}"), rates)
    });
    Table::from([(measured, named.collect())])
}

const UPDATE: Option<&str> = Some("WorkerDict.update");

/// Returns a table with figures of both runs.
fn both(nodes: &[(u64, u64)]) -> Table {
    let nodes: Vec<_> = nodes.iter().map(|(a, b)| (Some(*a), Some(*b))).collect();
    table(UPDATE, &nodes)
}

fn said(table: &Table) -> Vec<String> {
    all(table).into_iter().map(|one| one.why).collect()
}

#[test]
fn a_node_that_alone_became_faster_is_named() {
    let found = all(&both(&[(100, 101), (100, 98), (100, 210), (102, 100)]));
    let [one] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((one.node.as_str(), one.others), ("gpu-03", 3));
    assert_eq!(one.compared, Compared::OtherRun);
    assert!((one.factor.unwrap_or_default() - 2.1).abs() < 0.001);
    assert_eq!(
        one.why,
        "gpu-03 alone: WorkerDict.update grew 2.1 × as fast in B (100 MiB → 210 MiB a call); on the other 3 nodes 1.0 × as fast (median 100 MiB → 100 MiB)"
    );
}

#[test]
fn where_all_became_faster_none_stands_out() {
    assert_eq!(
        said(&both(&[(100, 201), (100, 198), (100, 210), (102, 200)])),
        [""; 0]
    );
    assert_eq!(
        said(&both(&[(100, 100), (100, 98), (100, 104), (102, 100)])),
        [""; 0]
    );
}

#[test]
fn the_node_that_a_change_did_not_help_is_named() {
    let found = said(&both(&[(200, 99), (200, 101), (200, 198), (200, 100)]));
    assert_eq!(
        found,
        [
            "gpu-03 alone: WorkerDict.update grew 1.0 × as fast in B (200 MiB → 198 MiB a call); on the other 3 nodes 0.5 × as fast (median 200 MiB → 100 MiB)"
        ]
    );
}

#[test]
fn growth_that_is_new_has_no_factor() {
    let found = all(&both(&[(0, 0), (0, 50), (0, 0)]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].factor, None);
    assert_eq!(
        found[0].why,
        "gpu-02 alone: WorkerDict.update grew in B and not in A (0 → 50 MiB a call); on the other 2 nodes it did not grow"
    );
}

#[test]
fn of_two_nodes_the_one_that_changed_is_named_where_the_other_did_not() {
    assert_eq!(said(&both(&[(100, 101), (100, 210)])).len(), 1);
    // Here either may be the odd one.
    assert_eq!(said(&both(&[(100, 50), (100, 210)])), [""; 0]);
}

#[test]
fn a_node_that_was_always_faster_is_named_once() {
    let found = all(&both(&[(100, 100), (100, 101), (210, 212), (100, 99)]));
    let [one] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(one.compared, Compared::NodesOfB);
    assert_eq!(
        one.why,
        "gpu-03 alone: in B WorkerDict.update grew by 212 MiB a call, 2.1 × the median of the other 3 nodes (100 MiB); in A by 210 MiB (100 MiB)"
    );
}

#[test]
fn nodes_without_a_match_are_compared_within_their_run() {
    let only_b: Vec<_> = [100, 98, 250, 101].map(|mib| (None, Some(mib))).into();
    assert_eq!(
        said(&table(None, &only_b)),
        [
            "gpu-03 alone: in B WorkerDict grew by 250 MiB an hour, 2.5 × the median of the other 3 nodes (100 MiB)"
        ]
    );
    let only_a: Vec<_> = [0, 0, 250, 0].map(|mib| (Some(mib), None)).into();
    assert_eq!(
        said(&table(None, &only_a)),
        [
            "gpu-03 alone: in A WorkerDict grew by 250 MiB an hour; on most of the other 3 nodes it did not grow"
        ]
    );
    let pair: Vec<_> = [100, 250].map(|mib| (None, Some(mib))).into();
    assert_eq!(said(&table(None, &pair)), [""; 0]);
}

#[test]
fn where_all_differ_none_stands_out_and_little_growth_is_not_told() {
    assert_eq!(
        said(&both(&[(100, 60), (100, 120), (100, 230), (100, 170)])),
        [""; 0]
    );
    // 1 MiB more a call, 40 times.
    assert_eq!(said(&both(&[(1, 1), (1, 1), (1, 2), (1, 1)])), [""; 0]);
}

#[test]
fn several_are_named_and_none_is_alone() {
    let mut nodes = vec![(100, 100); 14];
    nodes.extend([(100, 220), (100, 210)]);
    let found = said(&both(&nodes));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("gpu-15: "), "{found:?}");
}

#[test]
fn a_class_is_told_by_its_calls_before_its_hours() {
    let nodes = [
        (Some(100), Some(100)),
        (Some(100), Some(100)),
        (Some(100), Some(300)),
    ];
    let mut table_of_both = table(UPDATE, &nodes);
    table_of_both.extend(table(None, &nodes));
    let found: Vec<StandOut> = all(&table_of_both);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].task.as_deref(), UPDATE);
}

#[test]
fn a_thousand_nodes_are_compared_at_once() {
    let mut nodes: Vec<(u64, u64)> = (0..1000).map(|at| (100 + at % 7, 100 + at % 5)).collect();
    nodes[700] = (100, 400);
    let found = said(&both(&nodes));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("gpu-701 alone: "), "{found:?}");
}
