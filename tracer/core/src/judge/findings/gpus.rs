//! Finds out whether processes compute on GPUs.
//!
//! If they do, a smaller batch saves no host memory.

use super::{Run, facts::LimitMember, settings::of_framework};

/// The setting that names the engine of rollouts, and engines that need a GPU.
const ENGINE: (&str, [&str; 2]) = ("rollout.name", ["vllm", "sglang"]);
/// The setting that names the device.
const DEVICE: &str = "trainer.device";

/// Returns whether these processes use GPUs: NVML saw them there, or the framework or its settings
/// say so.
pub(super) fn compute_on_gpus(run: Run<'_>, workers: &[&LimitMember]) -> bool {
    workers.iter().any(|held| held.on_gpu) || configured(run)
}

fn configured(run: Run<'_>) -> bool {
    let given = of_framework(run.facts);
    let has = |key: &str, words: &[&str]| {
        let mut values = given
            .iter()
            .filter(|one| !one.overruled && one.key.ends_with(key));
        values.any(|one| words.iter().any(|word| one.value.contains(word)))
    };
    let (engine, on_gpu) = ENGINE;
    let on_cpu = has(DEVICE, &["cpu"]);
    !on_cpu && (run.framework.needs_gpus() || has(engine, &on_gpu))
}
