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
}

/// A setting to turn: its key as typed, and the value to give. A word in capitals stands for one to choose, nothing for leaving it out.
pub type Lever = (&'static str, &'static str);

/// The levers of a framework for an aim; none where no key is known.
#[must_use]
pub fn levers(framework: Framework, aim: Aim) -> &'static [Lever] {
    match framework {
        Framework::Verl => verl(aim),
        Framework::EasyR1 => easy_r1(aim),
        Framework::SimpleRl => simple_rl(aim),
        Framework::OpenRlhf => openrlhf(aim),
        Framework::Vllm => match aim {
            Aim::LessOnHost => &[("--kv-offloading-size", "0"), ("--cpu-offload-gb", "0")],
            Aim::Gpu => &[("--gpu-memory-utilization", "LOWER")],
            _ => &[],
        },
        Framework::Sglang => match aim {
            Aim::Gpu => &[("--mem-fraction-static", "LOWER")],
            _ => &[],
        },
        Framework::Data | Framework::Train | Framework::Serve | Framework::Ray => &[],
    }
}

fn verl(aim: Aim) -> &'static [Lever] {
    match aim {
        Aim::LessOnHost => &[
            ("actor_rollout_ref.actor.fsdp_config.param_offload", "False"),
            (
                "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
                "False",
            ),
        ],
        Aim::LessInController => &[
            ("data.dataloader_num_workers", "2"),
            ("data.val_batch_size", "64"),
            ("data.return_multi_modal_inputs", "False"),
        ],
        Aim::Fewer => &[
            ("trainer.n_gpus_per_node", "FEWER"),
            ("actor_rollout_ref.rollout.agent.num_workers", "FEWER"),
        ],
        Aim::Load => &[("actor_rollout_ref.model.use_shm", "False")],
        Aim::Save => &[(
            "actor_rollout_ref.actor.checkpoint.save_contents",
            "['model']",
        )],
        Aim::Restart => &[("trainer.save_freq", "N"), ("trainer.resume_mode", "auto")],
        Aim::Gpu => &[
            ("actor_rollout_ref.rollout.gpu_memory_utilization", "LOWER"),
            (
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
                "LOWER",
            ),
            ("actor_rollout_ref.actor.fsdp_config.param_offload", "True"),
        ],
    }
}

fn easy_r1(aim: Aim) -> &'static [Lever] {
    match aim {
        Aim::LessOnHost => &[
            ("worker.ref.fsdp.enable_cpu_offload", "false"),
            ("worker.actor.offload.offload_params", "false"),
            ("worker.actor.offload.offload_optimizer", "false"),
        ],
        Aim::LessInController => &[("data.val_batch_size", "64")],
        Aim::Fewer => &[("trainer.n_gpus_per_node", "FEWER")],
        Aim::Load => &[("worker.actor.fsdp.enable_rank0_init", "true")],
        Aim::Save => &[("trainer.save_model_only", "true")],
        Aim::Restart => &[("trainer.save_freq", "N")],
        Aim::Gpu => &[
            ("worker.rollout.gpu_memory_utilization", "LOWER"),
            (
                "worker.actor.micro_batch_size_per_device_for_update",
                "LOWER",
            ),
            ("worker.actor.offload.offload_params", "true"),
        ],
    }
}

fn simple_rl(aim: Aim) -> &'static [Lever] {
    match aim {
        Aim::LessOnHost => &[("actor_rollout_ref.rollout.swap_space", "0")],
        Aim::Fewer => &[("trainer.n_gpus_per_node", "FEWER")],
        Aim::Restart => &[("trainer.save_freq", "N")],
        Aim::Gpu => &[("actor_rollout_ref.rollout.gpu_memory_utilization", "LOWER")],
        _ => &[],
    }
}

fn openrlhf(aim: Aim) -> &'static [Lever] {
    match aim {
        Aim::LessOnHost => &[("--vllm.enable_sleep", ""), ("--ds.adam_offload", "")],
        Aim::LessInController => &[("--data.dataloader_num_workers", "0")],
        Aim::Gpu => &[
            ("--vllm.gpu_memory_utilization", "LOWER"),
            ("--ds.adam_offload", "on"),
        ],
        _ => &[],
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
        ];
        let mut seen = 0;
        for framework in FRAMEWORKS {
            for lever in aims.into_iter().flat_map(|aim| levers(framework, aim)) {
                assert!(is_known(lever.0.trim_start_matches('-')), "{}", lever.0);
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }
}
