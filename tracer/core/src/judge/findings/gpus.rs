//! Finds out whether processes compute on GPUs.
//!
//! If they do, a smaller batch saves no host memory.

use super::{Run, facts::Member, settings::of_framework};
use crate::judge::report::{Growth, GrowthLine};

/// The setting that names the engine of rollouts, and engines that need a GPU.
const ENGINE: (&str, [&str; 2]) = ("rollout.name", ["vllm", "sglang"]);
/// Parts of a frame that computes in torch's layers. Other code there makes or moves a model. And
/// the library that computes on CPUs.
const COMPUTES: [&str; 2] = ["torch/nn/functional.py", ".forward"];
const LAYERS: &str = "torch/nn/";
const CPU: &str = "libtorch_cpu";
/// Layers took at least this share of what has lines.
const LAYERS_SHARE: f64 = 0.1;
/// The setting that names the device.
const DEVICE: &str = "trainer.device";

/// Returns whether these processes use GPUs: NVML saw them there, or the framework or its settings
/// say so, and no model was seen to compute in host memory.
pub(super) fn compute_on_gpus(run: Run<'_>, workers: &[&Member]) -> bool {
    let on_gpu = workers.iter().any(|held| held.on_gpu);
    on_gpu || configured(run) && !workers.iter().any(|held| computes_on_host(run, held))
}

/// Returns whether torch's layers took much of what this class took of the host. On a GPU their
/// results lie in its memory.
fn computes_on_host(run: Run<'_>, held: &Member) -> bool {
    let of_class = |growth: &&Growth| Some(growth.class.as_str()) == held.class.as_deref();
    let Some(growth) = run.report.growth.iter().find(of_class) else {
        return false;
    };
    let bytes = |line: &GrowthLine| line.grown_bytes.gib();
    let in_layer = |line: &&GrowthLine| {
        let inside = line.inside.as_deref().unwrap_or_default();
        let native = line.native.as_deref().unwrap_or_default();
        let computes = COMPUTES.iter().any(|part| inside.contains(part));
        inside.contains(LAYERS) && computes && native.contains(CPU)
    };
    let all: f64 = growth.lines.iter().map(bytes).sum();
    let layers: f64 = growth.lines.iter().filter(in_layer).map(bytes).sum();
    layers > 0.0 && layers >= LAYERS_SHARE * all
}

/// Returns whether processes of a text may use GPUs, which nobody looked at: the settings say so, or
/// the framework generates with vLLM unless a setting that is not known says otherwise.
pub(super) fn may_compute_on_gpus(run: Run<'_>) -> bool {
    let (engine, _) = ENGINE;
    let given = of_framework(run.facts);
    let is_known = given.iter().filter(|one| !one.overruled).any(|one| {
        let on_cpu = one.key.ends_with(DEVICE) && one.value.contains("cpu");
        one.key.ends_with(engine) || on_cpu
    });
    configured(run) || (run.framework.generates_with_vllm() && !is_known)
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
