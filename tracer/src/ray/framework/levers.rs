//! What to turn, in the keys of each framework: the version table of remedies. Every key here is one that [`super::is_known`] knows.

use super::Framework;

/// What a remedy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Less host memory in each rank: no copies of what lies on the GPU.
    LessOnHost,
    /// Less host memory in the process that holds the data: verl's `TaskRunner`.
    LessInController,
    /// Fewer processes at the same time.
    Fewer,
    /// A smaller peak while the model is loaded.
    Load,
    /// A smaller peak while a checkpoint is written.
    Save,
    /// A restart before a leak reaches the limit.
    Restart,
    /// Less GPU memory.
    Gpu,
    /// An engine that sleeps without a copy of its weights on the host.
    Sleep,
}

/// A setting to turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lever {
    /// Its key as typed.
    pub key: &'static str,
    /// Its key before the framework renamed it.
    pub old: Option<&'static str>,
    /// The value to give. A word in capitals stands for one to choose, nothing for leaving it out.
    pub value: &'static str,
    /// Whether the framework has this value where nobody gives another.
    pub default: bool,
}

fn turn(key: &'static str, value: &'static str) -> Lever {
    Lever {
        key,
        old: None,
        value,
        default: false,
    }
}

fn back(key: &'static str, value: &'static str) -> Lever {
    Lever {
        default: true,
        ..turn(key, value)
    }
}

fn renamed(lever: Lever, old: &'static str) -> Lever {
    Lever {
        old: Some(old),
        ..lever
    }
}

/// The levers of a framework for an aim; none where no key is known.
#[must_use]
pub fn levers(framework: Framework, aim: Aim) -> Vec<Lever> {
    match framework {
        Framework::Verl => verl(aim),
        Framework::EasyR1 => easy_r1(aim),
        Framework::SimpleRl => simple_rl(aim),
        Framework::OpenRlhf => openrlhf(aim),
        Framework::Vllm => match aim {
            Aim::LessOnHost => vec![
                back("--kv-offloading-size", "0"),
                back("--cpu-offload-gb", "0"),
            ],
            Aim::Gpu => vec![turn("--gpu-memory-utilization", "LOWER")],
            _ => Vec::new(),
        },
        Framework::Sglang => match aim {
            Aim::Gpu => vec![turn("--mem-fraction-static", "LOWER")],
            _ => Vec::new(),
        },
        Framework::Data | Framework::Train | Framework::Serve | Framework::Ray => Vec::new(),
    }
}

fn verl(aim: Aim) -> Vec<Lever> {
    match aim {
        Aim::LessOnHost => vec![
            back("actor_rollout_ref.actor.fsdp_config.param_offload", "False"),
            back(
                "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
                "False",
            ),
        ],
        Aim::LessInController => vec![
            turn("data.dataloader_num_workers", "2"),
            turn("data.val_batch_size", "64"),
            turn("data.return_multi_modal_inputs", "False"),
        ],
        Aim::Fewer => vec![
            turn("trainer.n_gpus_per_node", "FEWER"),
            turn("actor_rollout_ref.rollout.agent.num_workers", "FEWER"),
        ],
        Aim::Load => vec![back("actor_rollout_ref.model.use_shm", "False")],
        Aim::Save => vec![turn(
            "actor_rollout_ref.actor.checkpoint.save_contents",
            "['model']",
        )],
        Aim::Restart => vec![
            turn("trainer.save_freq", "N"),
            turn("trainer.resume_mode", "auto"),
        ],
        Aim::Gpu => vec![
            turn("actor_rollout_ref.rollout.gpu_memory_utilization", "LOWER"),
            turn(
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
                "LOWER",
            ),
            turn("actor_rollout_ref.actor.fsdp_config.param_offload", "True"),
        ],
        Aim::Sleep => Vec::new(),
    }
}

fn easy_r1(aim: Aim) -> Vec<Lever> {
    match aim {
        Aim::LessOnHost => vec![
            turn("worker.ref.fsdp.enable_cpu_offload", "false"),
            turn("worker.actor.offload.offload_params", "false"),
            turn("worker.actor.offload.offload_optimizer", "false"),
        ],
        Aim::LessInController => vec![turn("data.val_batch_size", "64")],
        Aim::Fewer => vec![turn("trainer.n_gpus_per_node", "FEWER")],
        Aim::Load => vec![turn("worker.actor.fsdp.enable_rank0_init", "true")],
        Aim::Save => vec![turn("trainer.save_model_only", "true")],
        Aim::Restart => vec![turn("trainer.save_freq", "N")],
        Aim::Gpu => vec![
            turn("worker.rollout.gpu_memory_utilization", "LOWER"),
            turn(
                "worker.actor.micro_batch_size_per_device_for_update",
                "LOWER",
            ),
            turn("worker.actor.offload.offload_params", "true"),
        ],
        Aim::Sleep => Vec::new(),
    }
}

fn simple_rl(aim: Aim) -> Vec<Lever> {
    match aim {
        Aim::LessOnHost => vec![turn("actor_rollout_ref.rollout.swap_space", "0")],
        Aim::Fewer => vec![turn("trainer.n_gpus_per_node", "FEWER")],
        Aim::Restart => vec![turn("trainer.save_freq", "N")],
        Aim::Gpu => vec![turn(
            "actor_rollout_ref.rollout.gpu_memory_utilization",
            "LOWER",
        )],
        _ => Vec::new(),
    }
}

/// Renamed on 2026-04-19: dots for the groups.
fn openrlhf(aim: Aim) -> Vec<Lever> {
    match aim {
        Aim::LessOnHost => vec![
            renamed(back("--vllm.enable_sleep", ""), "--vllm_enable_sleep"),
            renamed(back("--ds.adam_offload", ""), "--adam_offload"),
            renamed(back("--ds.enable_sleep", ""), "--deepspeed_enable_sleep"),
            renamed(back("--ref.offload", ""), "--ref_reward_offload"),
            back("--reward.offload", ""),
        ],
        Aim::LessInController => vec![back("--data.dataloader_num_workers", "0")],
        Aim::Fewer => vec![renamed(
            turn("--vllm.num_engines", "FEWER"),
            "--vllm_num_engines",
        )],
        Aim::Gpu => vec![
            renamed(
                turn("--vllm.gpu_memory_utilization", "LOWER"),
                "--vllm_gpu_memory_utilization",
            ),
            renamed(turn("--ds.adam_offload", "on"), "--adam_offload"),
        ],
        // Its level is always 1.
        Aim::Sleep => vec![renamed(
            turn("--vllm.enable_sleep", ""),
            "--vllm_enable_sleep",
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::is_known, *};

    const FRAMEWORKS: [Framework; 6] = [
        Framework::Verl,
        Framework::EasyR1,
        Framework::SimpleRl,
        Framework::OpenRlhf,
        Framework::Vllm,
        Framework::Sglang,
    ];

    #[test]
    fn no_remedy_names_a_key_that_the_table_does_not_know() {
        let aims = [
            Aim::LessOnHost,
            Aim::LessInController,
            Aim::Fewer,
            Aim::Load,
            Aim::Save,
            Aim::Restart,
            Aim::Gpu,
            Aim::Sleep,
        ];
        let mut seen = 0;
        for framework in FRAMEWORKS {
            for lever in aims.into_iter().flat_map(|aim| levers(framework, aim)) {
                for key in [Some(lever.key), lever.old].into_iter().flatten() {
                    assert!(is_known(key.trim_start_matches('-')), "{key}");
                }
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
