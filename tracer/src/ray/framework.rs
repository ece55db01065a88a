//! What a framework's settings do to memory, by their keys.
//!
//! Keys of verl 0.7, OpenRLHF of 2026 (dotted names since 2026-04-19, older ones too), `EasyR1`, simpleRL-reason and vLLM. A setting
//! is spoken of only when it stands on a command line or in a configuration that the framework printed; a remedy names no key that
//! is not in this table.

mod levers;
mod which;

pub use levers::{Aim, Lever, levers};
pub use which::Framework;

/// Where a setting puts memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// More host memory, less GPU memory: the wrong way against a RAM OOM.
    MovesToHost,
    /// GPU memory only: neither helps nor harms the host.
    GpuOnly,
    /// Host memory that is pinned for each GPU or engine, in GiB as given.
    Pinned,
    /// What remedies may turn; its value alone is no fault.
    Lever,
    /// Nothing at all.
    Nothing,
}

/// What is known of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// The end of its key.
    key: &'static str,
    /// The values with this effect; empty for any.
    values: &'static [&'static str],
    effect: Effect,
    why: &'static str,
    /// What to give instead, where that helps against a RAM OOM.
    instead: Option<&'static str>,
}

const ON: &[&str] = &["True", "true", "1", ""];
const OFF: &[&str] = &["False", "false", "0"];

const fn to_host(key: &'static str, why: &'static str, instead: &'static str) -> Known {
    Known {
        key,
        values: ON,
        effect: Effect::MovesToHost,
        why,
        instead: Some(instead),
    }
}

const fn gpu_only(key: &'static str, values: &'static [&'static str], why: &'static str) -> Known {
    Known {
        key,
        values,
        effect: Effect::GpuOnly,
        why,
        instead: None,
    }
}

/// The first that fits a key counts.
const KNOWN: &[Known] = &[
    Known {
        key: "ref.fsdp_config.optimizer_offload",
        values: ON,
        effect: Effect::Nothing,
        why: "the reference model has no optimizer",
        instead: None,
    },
    Known {
        key: "ref.fsdp_config.param_offload",
        values: ON,
        effect: Effect::Nothing,
        why: "verl keeps the reference model's parameters on the host anyway",
        instead: None,
    },
    to_host(
        "fsdp_config.param_offload",
        "parameters move from GPU to host memory",
        "False",
    ),
    to_host(
        "fsdp_config.optimizer_offload",
        "the optimizer's states move from GPU to host memory",
        "False",
    ),
    to_host(
        "fsdp_config.offload_policy",
        "parameters move to pinned host memory",
        "False",
    ),
    to_host(
        "enable_activation_offload",
        "activations move from GPU to host memory",
        "False",
    ),
    to_host(
        "offload.offload_params",
        "parameters move from GPU to host memory",
        "false",
    ),
    to_host(
        "offload.offload_optimizer",
        "the optimizer's states move from GPU to host memory",
        "false",
    ),
    to_host(
        "fsdp.enable_cpu_offload",
        "the model moves from GPU to host memory",
        "false",
    ),
    to_host(
        "vllm.enable_sleep",
        "each engine keeps a copy of its weights on the host while it sleeps",
        "leave it out",
    ),
    to_host(
        "vllm_enable_sleep",
        "each engine keeps a copy of its weights on the host while it sleeps",
        "leave it out",
    ),
    to_host(
        "ds.adam_offload",
        "the optimizer's states move from GPU to host memory",
        "leave it out",
    ),
    to_host(
        "adam_offload",
        "the optimizer's states move from GPU to host memory",
        "leave it out",
    ),
    to_host(
        "ds.enable_sleep",
        "the model's states move to the host while it sleeps",
        "leave it out",
    ),
    to_host(
        "deepspeed_enable_sleep",
        "the model's states move to the host while it sleeps",
        "leave it out",
    ),
    to_host(
        "ref_reward_offload",
        "the reference and reward models move to the host",
        "leave it out",
    ),
    to_host(
        "ref.offload",
        "the reference model moves to the host",
        "leave it out",
    ),
    to_host(
        "reward.offload",
        "the reward model moves to the host",
        "leave it out",
    ),
    gpu_only(
        "gpu_memory_utilization",
        &[],
        "the share of GPU memory that the engine takes",
    ),
    gpu_only(
        "vllm_gpu_memory_utilization",
        &[],
        "the share of GPU memory that the engine takes",
    ),
    gpu_only("enforce_eager", &[], "CUDA graphs lie in GPU memory"),
    gpu_only(
        "enable_chunked_prefill",
        &[],
        "activations of the prefill lie in GPU memory",
    ),
    gpu_only(
        "free_cache_engine",
        OFF,
        "the KV cache then stays on the GPU; the host gains nothing",
    ),
    Known {
        key: "swap_space",
        values: &[],
        effect: Effect::Pinned,
        why: "so many GiB of host memory are pinned for each GPU (4 was vLLM's old default, removed in 0.18)",
        instead: Some("0"),
    },
    pinned(
        "kv_offloading_size",
        "so many GiB of host memory are pinned for each engine, all its ranks together, in blocks of a power of two",
        "leave it out, or a power of two for each rank",
    ),
    pinned(
        "cpu_offload_gb",
        "so many GiB of weights lie in pinned host memory for each GPU, in blocks of a power of two",
        "leave it out",
    ),
    lever("ppo_micro_batch_size_per_gpu"),
    lever("log_prob_micro_batch_size_per_gpu"),
    lever("micro_batch_size_per_device_for_update"),
    lever("micro_rollout_batch_size"),
    lever("data.dataloader_num_workers"),
    lever("data.val_batch_size"),
    lever("data.return_multi_modal_inputs"),
    lever("data.max_prompt_length"),
    lever("data.max_response_length"),
    lever("checkpoint.save_contents"),
    lever("checkpoint.async_save"),
    lever("trainer.save_freq"),
    lever("trainer.save_model_only"),
    lever("trainer.resume_mode"),
    lever("trainer.n_gpus_per_node"),
    lever("trainer.nnodes"),
    lever("agent.num_workers"),
    lever("rollout.n"),
    lever("rollout.name"),
    lever("rollout.mode"),
    lever("rollout.tensor_model_parallel_size"),
    lever("tensor_parallel_size"),
    lever("vllm_tensor_parallel_size"),
    lever("fsdp.enable_rank0_init"),
    lever("model.use_shm"),
    lever("ray_init.object_store_memory"),
    lever("object_store_memory"),
    lever("mem_fraction_static"),
    lever("vllm.num_engines"),
    lever("vllm_num_engines"),
    lever("max_num_batched_tokens"),
    lever("max_model_len"),
];

const fn pinned(key: &'static str, why: &'static str, instead: &'static str) -> Known {
    Known {
        key,
        values: &[],
        effect: Effect::Pinned,
        why,
        instead: Some(instead),
    }
}

const fn lever(key: &'static str) -> Known {
    Known {
        key,
        values: &[],
        effect: Effect::Lever,
        why: "",
        instead: None,
    }
}

/// Whether a key is in the table.
#[must_use]
pub fn is_known(key: &str) -> bool {
    KNOWN.iter().any(|known| is_key(key, known.key))
}

/// A setting on a command line with what it does to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    /// Its key as given.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Where it puts memory.
    pub effect: Effect,
    /// Why.
    pub why: &'static str,
    /// What to give instead.
    pub instead: Option<&'static str>,
}

/// Of these settings, those that bear on memory.
#[must_use]
pub fn spoken(pairs: &[(String, String)]) -> Vec<Spoken> {
    let known = pairs.iter().filter_map(|(key, value)| {
        let known = KNOWN.iter().find(|known| is_key(key, known.key))?;
        takes(known, value).then(|| Spoken {
            key: key.clone(),
            value: value.clone(),
            effect: known.effect,
            why: known.why,
            instead: known.instead,
        })
    });
    known.collect()
}

/// All that a command line sets: `key=value`, `+key=value`, `--key value`, `--key=value`, `--key`; the value is empty where none follows.
#[must_use]
pub fn pairs(argv: &[String]) -> Vec<(String, String)> {
    let numbered = argv.iter().enumerate();
    numbered
        .filter_map(|(at, argument)| pair(argument, argv.get(at + 1)))
        .collect()
}

fn pair(argument: &str, next: Option<&String>) -> Option<(String, String)> {
    let plain = argument.trim_start_matches('+');
    if let Some((key, value)) = plain.trim_start_matches('-').split_once('=') {
        return Some((key.to_owned(), value.trim_matches(['"', '\'']).to_owned()));
    }
    let key = plain.strip_prefix("--")?;
    let value = next.filter(|next| !next.starts_with('-') && !next.contains('='));
    Some((key.to_owned(), value.cloned().unwrap_or_default()))
}

fn is_key(key: &str, known: &str) -> bool {
    let key = key.replace('-', "_");
    key.strip_suffix(known)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn takes(known: &Known, value: &str) -> bool {
    let nothing = known.effect == Effect::Pinned
        && matches!(value, "0" | "0.0" | "" | "None" | "null" | "none");
    !nothing && (known.values.is_empty() || known.values.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(line: &str) -> Vec<(String, Effect)> {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = spoken(&pairs(&argv)).into_iter();
        let found = found.filter(|spoken| spoken.effect != Effect::Lever);
        found.map(|spoken| (spoken.key, spoken.effect)).collect()
    }

    fn effect(line: &str) -> Option<Effect> {
        effects(line).first().map(|(_, effect)| *effect)
    }

    #[test]
    fn each_advice_that_is_wrong_against_a_ram_oom_is_known() {
        let actor = "actor_rollout_ref.actor.fsdp_config";
        for (line, wanted) in [
            (format!("{actor}.param_offload=True"), Effect::MovesToHost),
            (
                format!("+{actor}.optimizer_offload=true"),
                Effect::MovesToHost,
            ),
            (
                "actor_rollout_ref.ref.fsdp_config.param_offload=True".into(),
                Effect::Nothing,
            ),
            (
                "actor_rollout_ref.ref.fsdp_config.optimizer_offload=True".into(),
                Effect::Nothing,
            ),
            (
                "actor_rollout_ref.rollout.gpu_memory_utilization=0.3".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.enforce_eager=True".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.enable_chunked_prefill=True".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.free_cache_engine=False".into(),
                Effect::GpuOnly,
            ),
            (
                "actor_rollout_ref.rollout.swap_space=40".into(),
                Effect::Pinned,
            ),
            ("--swap-space 4".into(), Effect::Pinned),
            ("--kv-offloading-size 80".into(), Effect::Pinned),
            ("--vllm_enable_sleep --colocate".into(), Effect::MovesToHost),
            ("--vllm.enable_sleep".into(), Effect::MovesToHost),
            ("--adam_offload".into(), Effect::MovesToHost),
            (
                "worker.ref.fsdp.enable_cpu_offload=true".into(),
                Effect::MovesToHost,
            ),
            (
                "worker.actor.offload.offload_params=true".into(),
                Effect::MovesToHost,
            ),
        ] {
            assert_eq!(effect(&line), Some(wanted), "{line}");
        }
    }

    #[test]
    fn what_is_off_or_only_sounds_alike_is_not_spoken_of() {
        for line in [
            "actor_rollout_ref.actor.fsdp_config.param_offload=False",
            "actor_rollout_ref.rollout.free_cache_engine=True",
            "--swap-space 0",
            "my_param_offload=True",
            "data.train_batch_size=1024",
            "python train.py",
        ] {
            assert_eq!(effects(line), [], "{line}");
        }
    }
}
