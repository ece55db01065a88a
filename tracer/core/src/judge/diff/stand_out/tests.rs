//! Tests which nodes stand out and which do not.

use super::{ComparedWith, StandOut, all};
use crate::{
    ids::Bytes,
    judge::diff::rates::{Rate, RateKey, Rates, Table},
};

/// How many calls, or hours, a run has.
const TIMES: f64 = 40.0;

/// Returns a table with one kind of growth on the nodes gpu-01, gpu-02 and so on, in MiB in A and
/// in B.
fn table(task: Option<&str>, nodes: &[(Option<u64>, Option<u64>)]) -> Table {
    let measured = RateKey {
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
fn only_faster_node_is_named() {
    let found = all(&both(&[(100, 101), (100, 98), (100, 210), (102, 100)]));
    let [one] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((one.node.as_str(), one.others), ("gpu-03", 3));
    assert_eq!(one.compared, ComparedWith::OtherRun);
    assert!((one.factor.unwrap_or_default() - 2.1).abs() < 0.001);
    assert_eq!(
        one.why,
        "gpu-03 alone: WorkerDict.update grew 2.1 × as fast in B (100 MiB → 210 MiB a call); on the other 3 nodes 1.0 × as fast (median 100 MiB → 100 MiB)"
    );
}

#[test]
fn nothing_stands_out_if_all_are_faster() {
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
fn node_without_improvement_is_named() {
    let found = said(&both(&[(200, 99), (200, 101), (200, 198), (200, 100)]));
    assert_eq!(
        found,
        [
            "gpu-03 alone: WorkerDict.update grew 1.0 × as fast in B (200 MiB → 198 MiB a call); on the other 3 nodes 0.5 × as fast (median 200 MiB → 100 MiB)"
        ]
    );
}

#[test]
fn new_growth_has_no_factor() {
    let found = all(&both(&[(0, 0), (0, 50), (0, 0)]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].factor, None);
    assert_eq!(
        found[0].why,
        "gpu-02 alone: WorkerDict.update grew in B and not in A (0 → 50 MiB a call); on the other 2 nodes it did not grow"
    );
}

/// If both of two nodes changed, neither is named.
#[test]
fn changed_one_of_two_nodes_is_named() {
    assert_eq!(said(&both(&[(100, 101), (100, 210)])).len(), 1);
    // Here either may be the odd one.
    assert_eq!(said(&both(&[(100, 50), (100, 210)])), [""; 0]);
}

#[test]
fn always_faster_node_is_named_once() {
    let found = all(&both(&[(100, 100), (100, 101), (210, 212), (100, 99)]));
    let [one] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(one.compared, ComparedWith::NodesOfB);
    assert_eq!(
        one.why,
        "gpu-03 alone: in B WorkerDict.update grew by 212 MiB a call, 2.1 × the median of the other 3 nodes (100 MiB); in A by 210 MiB (100 MiB)"
    );
}

#[test]
fn unmatched_nodes_compare_within_their_run() {
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

/// If all nodes differ, none stands out. Little growth is not reported.
#[test]
fn spread_or_small_growth_is_not_named() {
    assert_eq!(
        said(&both(&[(100, 60), (100, 120), (100, 230), (100, 170)])),
        [""; 0]
    );
    // 1 MiB more a call, 40 times.
    assert_eq!(said(&both(&[(1, 1), (1, 1), (1, 2), (1, 1)])), [""; 0]);
}

/// None of them is said to be alone.
#[test]
fn several_faster_nodes_are_named() {
    let mut nodes = vec![(100, 100); 14];
    nodes.extend([(100, 220), (100, 210)]);
    let found = said(&both(&nodes));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("gpu-15: "), "{found:?}");
}

#[test]
fn growth_per_call_precedes_growth_per_hour() {
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
fn compares_a_thousand_nodes() {
    let mut nodes: Vec<(u64, u64)> = (0..1000).map(|at| (100 + at % 7, 100 + at % 5)).collect();
    nodes[700] = (100, 400);
    let found = said(&both(&nodes));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("gpu-701 alone: "), "{found:?}");
}
