//! Finds an OpenRLHF job that asks for more GPUs than the node has.
//!
//! Its tasks wait, and memory is not the cause.

use super::{Run, resources};
use crate::{
    judge::report::{Certainty, Finding},
    ray::framework,
};

/// The parts of OpenRLHF that take GPUs, including the critic.
const ROLES: [&str; 4] = ["actor", "ref", "critic", "reward"];

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.facts.drivers.iter().filter_map(|driver| {
        let is_openrlhf = driver.argv.iter().any(|word| word.contains("openrlhf"));
        let pairs = is_openrlhf.then(|| framework::pairs(&driver.argv))?;
        let asked = asked(&pairs)?;
        let node = run.facts.nodes.get(usize::try_from(driver.cluster?).ok()?)?;
        let here = gpus(&node.argv)?;
        let all: u64 = asked.iter().map(|(_, count)| count).sum();
        if all <= here {
            return None;
        }
        let parts: Vec<String> = asked.iter().map(|(role, count)| format!("{role} {count}")).collect();
        let summary = format!(
            "OpenRLHF asks for {all} GPUs ({}), and this node has {here}: without other nodes its tasks wait; memory is not the cause",
            parts.join(" + ")
        );
        Some(Finding {
            evidence: vec![driver.source.clone(), format!("GPU {here} among the raylet's resources")],
            remedy: vec!["--train.colocate_all (--colocate_all_models before 2026-04-19), or fewer for each part".into()],
            not_if: Some("other nodes of the cluster have the rest".into()),
            ..Finding::new("gpus-short", Certainty::Inferred, summary)
        })
    });
    found.collect()
}

/// Returns the GPUs that each part asks for. `None` if parts share GPUs, or if only one part asks
/// for any.
fn asked(pairs: &[(String, String)]) -> Option<Vec<(&'static str, u64)>> {
    let plain: Vec<(String, Option<u64>)> = pairs
        .iter()
        .map(|(key, value)| (key.replace(['.', '-'], "_"), value.parse().ok()))
        .collect();
    if plain.iter().any(|(key, _)| key.contains("colocate")) {
        return None;
    }
    let value = |key: &str| {
        let found = plain.iter().find(|(known, _)| known == key);
        found.and_then(|(_, value)| *value)
    };
    let of_role = |role: &'static str| {
        let each = value(&format!("{role}_num_gpus_per_node"))?;
        let nodes = value(&format!("{role}_num_nodes")).unwrap_or(1);
        Some((role, each * nodes))
    };
    let mut asked: Vec<(&'static str, u64)> = ROLES.into_iter().filter_map(of_role).collect();
    let engines = value("vllm_num_engines").map(|engines| {
        let each = value("vllm_tensor_parallel_size").unwrap_or(1);
        ("vllm", engines * each)
    });
    asked.extend(engines.filter(|(_, count)| *count > 0));
    (asked.len() > 1).then_some(asked)
}

/// Returns the number of GPUs of a raylet's node.
fn gpus(argv: &[String]) -> Option<u64> {
    let count = resources::of_raylet(argv, "GPU")?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a machine's GPUs are few and not negative"
    )]
    Some(count as u64)
}
