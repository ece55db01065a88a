//! Finds a second cluster, started by a plain `ray.init()` beside a running one.
//!
//! Its settings and limits are not those of the first.

use super::{Run, facts::Node};
use crate::{
    judge::report::{Certainty, Finding},
    ray::start::Start,
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let heads = || run.facts.nodes.iter().filter(|node| node.head);
    let beside = |second: &&Node| {
        let Some(own) = second.raylet.filter(|_| by_driver(second)) else {
            return false;
        };
        heads().any(|other| {
            other.raylet.is_some_and(|first| {
                let lives = other.ended.is_none_or(|ended| ended > own.start);
                let shared = is_of_one_user(other, second);
                !first.same(own) && first.start < own.start && lives && shared
            })
        })
    };
    let found = heads().filter(beside).filter_map(|second| {
        let pid = second.raylet?.pid;
        let summary = format!(
            "Raylet {pid} is a second cluster on this machine: a driver's ray.init() started it while another cluster was running"
        );
        Some(Finding {
            evidence: vec![format!("raylet {pid} is a child of a driver; another head was running when it started")],
            remedy: vec!["ray.init(address=\"auto\"), or RAY_ADDRESS=auto in the driver's environment".into()],
            not_if: Some("two clusters are wanted".into()),
            ..Finding::new("second-cluster", Certainty::Proven, summary)
        })
    });
    found.collect()
}

fn by_driver(node: &Node) -> bool {
    matches!(node.started, Start::RayInit | Start::RayInitInContainer)
}

/// Whether the driver could have joined the other cluster: that is no other user's, and of no other
/// Slurm job.
fn is_of_one_user(one: &Node, other: &Node) -> bool {
    one.uid == other.uid && one.slurm_job == other.slurm_job
}
