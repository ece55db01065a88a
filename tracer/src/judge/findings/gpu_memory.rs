//! Memory of a GPU ran out: an exception in the process, no kill, and no lack of RAM.

use super::Run;
use crate::{
    judge::report::{Certainty, Finding},
    ray::facts::RayFact,
};

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut said: Vec<String> = run
        .world
        .ray_words
        .iter()
        .filter_map(|seen| match &seen.what.fact {
            RayFact::Exception { class, message, .. } if of_gpu(class, message) => {
                Some(format!("{}: {class}: {message}", seen.what.file))
            }
            _ => None,
        })
        .collect();
    let count = said.len();
    said.truncate(3);
    if said.is_empty() {
        return Vec::new();
    }
    let times = if count == 1 {
        String::new()
    } else {
        format!(", {count} times")
    };
    vec![Finding {
        rule: "gpu-out-of-memory".into(),
        certainty: Certainty::Proven,
        summary: format!(
            "memory of a GPU ran out{times}: that is no kill and not the node's memory"
        ),
        evidence: said,
        remedy: vec![
            "lower gpu_memory_utilization or the micro batch size per GPU".into(),
            "offloading parameters or the optimizer to the host helps here".into(),
        ],
        cost: Some("offloading: host memory rises by what the GPU gains".into()),
        deaths: Vec::new(),
    }]
}

fn of_gpu(class: &str, message: &str) -> bool {
    let cuda =
        message.contains("CUDA out of memory") || message.contains("CUDA error: out of memory");
    cuda || class.ends_with("torch.OutOfMemoryError") || class.ends_with("cuda.OutOfMemoryError")
}
