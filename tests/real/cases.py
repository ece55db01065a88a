"""The jobs of `real.py`: real frameworks, each on a machine with its own memory size."""

import os
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
MIB = 1 << 20
RANKS = "actor_rollout_ref"


@dataclass
class Case:
    """One job. `killer` should end it. If `killer` is empty, the job should finish."""

    killer: str
    job: list
    # The memory of the machine as Ray sees it, and the share of it above which its monitor kills.
    machine: int
    threshold: float = 0.95
    # A limit below the machine's that Ray cannot see.
    unseen: int = 0
    # A job prints this if it did all its work.
    finished: str = "finished"
    # If the remedy is a change of the user's code: that line, and the job with the change.
    line: str = ""
    changed: list = field(default_factory=list)
    start: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)


def job(name, *arguments):
    return [os.path.join(HERE, "jobs", name), *arguments]


def verl(models, model, steps, *settings):
    """Returns the arguments that start verl's own entry point. Later settings win."""
    data = os.path.join(models, model)
    return [
        "-m",
        "verl.trainer.main_ppo",
        "algorithm.adv_estimator=grpo",
        f"data.train_files={data}/train.parquet",
        f"data.val_files={data}/test.parquet",
        "data.train_batch_size=32",
        "data.max_prompt_length=128",
        "data.max_response_length=64",
        "data.dataloader_num_workers=2",
        f"{RANKS}.model.path={data}/model",
        f"{RANKS}.model.enable_gradient_checkpointing=False",
        f"{RANKS}.actor.ppo_mini_batch_size=16",
        f"{RANKS}.actor.ppo_micro_batch_size_per_gpu=8",
        f"{RANKS}.actor.use_kl_loss=True",
        f"{RANKS}.actor.use_torch_compile=False",
        f"{RANKS}.rollout.name=hf",
        f"{RANKS}.rollout.n=4",
        f"{RANKS}.rollout.tensor_model_parallel_size=1",
        f"{RANKS}.rollout.log_prob_micro_batch_size_per_gpu=16",
        f"{RANKS}.ref.log_prob_micro_batch_size_per_gpu=16",
        "trainer.n_gpus_per_node=2",
        "trainer.nnodes=1",
        "trainer.logger=[console]",
        "trainer.val_before_train=False",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
        "trainer.resume_mode=disable",
        "trainer.total_epochs=10",
        f"trainer.total_training_steps={steps}",
        *settings,
    ]


def openrlhf(models, way, *more, model="served"):
    """Returns the arguments that start OpenRLHF's own entry point.

    `way` says whether the reward function keeps memory: `keeps` or `lets_go`.
    The algorithm is REINFORCE, with rollouts by vLLM. Later arguments win.
    """
    data = os.path.join(models, model)
    return [
        "-m",
        "openrlhf.cli.train_ppo_ray",
        f"--actor.model_name_or_path={data}/model",
        "--actor.num_gpus_per_node=1",
        "--ref.num_gpus_per_node=1",
        "--train.colocate_actor_ref",
        f"--reward.remote_url={HERE}/jobs/reward_{way}.py",
        "--vllm.num_engines=1",
        "--vllm.sync_backend=gloo",
        "--vllm.enforce_eager",
        f"--data.prompt_dataset={data}/train.parquet",
        "--data.input_key=prompt",
        "--data.apply_chat_template",
        "--data.max_len=256",
        "--rollout.max_new_tokens=32",
        "--rollout.n_samples_per_prompt=4",
        "--rollout.batch_size=32",
        "--rollout.micro_batch_size=16",
        "--train.batch_size=128",
        "--train.micro_batch_size=16",
        "--algo.advantage.estimator=reinforce",
        "--ds.attn_implementation=sdpa",
        *more,
    ]


# One answer per rank. Without AVX-512's bfloat16, a backward pass of four answers takes five
# minutes.
MEDIUM = (
    "data.train_batch_size=2",
    "data.max_prompt_length=64",
    "data.max_response_length=16",
    f"{RANKS}.rollout.n=1",
    f"{RANKS}.actor.ppo_mini_batch_size=2",
    f"{RANKS}.actor.ppo_micro_batch_size_per_gpu=1",
    f"{RANKS}.rollout.log_prob_micro_batch_size_per_gpu=1",
    f"{RANKS}.ref.log_prob_micro_batch_size_per_gpu=1",
)
# One pass has logits of 32 × 128 tokens × Qwen's vocabulary.
LOGITS = (
    "data.train_batch_size=16",
    "data.max_prompt_length=96",
    "data.max_response_length=32",
    f"{RANKS}.rollout.log_prob_micro_batch_size_per_gpu=32",
    f"{RANKS}.ref.log_prob_micro_batch_size_per_gpu=32",
)
# verl 0.9 generates with vLLM servers, and keeps its data in separate actors.
SERVED = (
    f"{RANKS}.rollout.name=vllm",
    f"{RANKS}.rollout.enforce_eager=True",
    f"{RANKS}.rollout.free_cache_engine=False",
    f"+{RANKS}.rollout.enable_sleep_mode=False",
    f"{RANKS}.rollout.max_model_len=512",
    f"{RANKS}.rollout.max_num_seqs=32",
    f"{RANKS}.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    f"{RANKS}.rollout.checkpoint_engine.update_weights_bucket_megabytes=256",
    f"+{RANKS}.model.override_config.attn_implementation=sdpa",
    f"{RANKS}.model.use_remove_padding=False",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "trainer.device=cpu",
)
# One rank with one engine, and 16 answers of 32 tokens a step: what two cores can do in a minute.
ONE_ENGINE = (
    "trainer.n_gpus_per_node=1",
    "data.train_batch_size=4",
    "data.max_prompt_length=64",
    "data.max_response_length=32",
    f"{RANKS}.actor.ppo_mini_batch_size=4",
)
LATER = {"VERL_PLATFORM": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
OPENRLHF = {**LATER, "DS_ACCELERATOR": "cpu"}
# 64 answers of 64 tokens a step, all in one pass of a rank.
MANY_ANSWERS = (
    "data.train_batch_size=16",
    "data.max_response_length=64",
    f"{RANKS}.actor.ppo_mini_batch_size=16",
    f"{RANKS}.actor.ppo_micro_batch_size_per_gpu=64",
    f"{RANKS}.rollout.log_prob_micro_batch_size_per_gpu=64",
    f"{RANKS}.ref.log_prob_micro_batch_size_per_gpu=64",
)
RANK_PAIR = {"cpus": 8, "num_gpus": 2, "object_store_memory": 512 * MIB}
ONE_RANK = {**RANK_PAIR, "cpus": 16, "num_gpus": 1}


def cases(models):
    """Returns the jobs by name. `models` is the folder that `make_model.py` wrote."""
    monitor, kernel = "ray-memory-monitor", "kernel-oom-memcg"

    def keeps(way):
        return verl(models, "small", 6, f"custom_reward_function.path={HERE}/jobs/reward_{way}.py")

    def served(way):
        reward = f"reward.custom_reward_function.path={HERE}/jobs/reward_{way}.py"
        return verl(models, "served", 12, *SERVED, *ONE_ENGINE, "data.train_batch_size=32", f"{RANKS}.actor.ppo_mini_batch_size=32", reward)

    return {
        "a": Case("", verl(models, "small", 4), 10 * GIB, finished="step:4 ", start=RANK_PAIR),
        "b": Case(monitor, verl(models, "medium", 1, *MEDIUM), 8 * GIB, 0.7, finished="step:1 ", start=RANK_PAIR),
        "c": Case(kernel, verl(models, "medium", 1, *MEDIUM), 16 * GIB, unseen=8 * GIB, finished="step:1 ", start=RANK_PAIR),
        "d": Case(
            monitor,
            keeps("keeps"),
            4 * GIB,
            0.95,
            finished="step:6 ",
            line="reward_keeps.py:8",
            changed=keeps("lets_go"),
            start=RANK_PAIR,
        ),
        "e": Case(monitor, verl(models, "logits", 1, *LOGITS), 5 * GIB, 0.85, finished="step:1 ", start=RANK_PAIR),
        "later-a": Case(
            "",
            verl(models, "served", 3, *SERVED, *ONE_ENGINE),
            16 * GIB,
            finished="step:3 ",
            start=ONE_RANK,
            environment=LATER,
        ),
        # It is killed while its two vLLM engines allocate 1 GiB each for their caches.
        "later": Case(
            monitor,
            verl(models, "served", 2, *SERVED),
            10 * GIB,
            finished="step:2 ",
            start={**RANK_PAIR, "cpus": 16},
            environment=LATER,
        ),
        "later-keeps": Case(
            monitor,
            served("keeps"),
            11 * GIB,
            finished="step:12 ",
            line="reward_keeps.py:8",
            changed=served("lets_go"),
            start=ONE_RANK,
            environment=LATER,
        ),
        # One pass over the answers of a step has logits of 150,000 words for each of their tokens.
        "later-logits": Case(
            monitor,
            verl(models, "served-logits", 3, *SERVED, *ONE_ENGINE, *MANY_ANSWERS),
            11 * GIB,
            0.8,
            finished="step:3 ",
            start=ONE_RANK,
            environment=LATER,
        ),
        "openrlhf-a": Case(
            "", openrlhf(models, "lets_go"), 16 * GIB, finished="Episode [1/1]: 100%", start=RANK_PAIR, environment=OPENRLHF
        ),
        "openrlhf": Case(
            monitor,
            openrlhf(models, "keeps"),
            7 * GIB,
            finished="Episode [1/1]: 100%",
            line="reward_keeps.py:8",
            changed=openrlhf(models, "lets_go"),
            start=RANK_PAIR,
            environment=OPENRLHF,
        ),
        "openrlhf-logits": Case(
            monitor,
            openrlhf(models, "lets_go", "--train.micro_batch_size=64", "--rollout.micro_batch_size=64", model="served-logits"),
            10 * GIB,
            finished="Episode [1/1]: 100%",
            start=RANK_PAIR,
            environment=OPENRLHF,
        ),
        "a2": Case("", verl(models, "medium", 2, *MEDIUM, "trainer.save_freq=1"), 16 * GIB, finished="step:2 ", start=RANK_PAIR),
        "rllib": Case(
            monitor, job("rllib.py", "keep"), 4 * GIB, 0.8, line="rllib.py:25", changed=job("rllib.py", "let-go"), start={"cpus": 3}
        ),
        "data": Case(
            kernel, job("data.py", "keep"), 8 * GIB, unseen=2 * GIB, line="data.py:17", changed=job("data.py", "let-go"), start={"cpus": 2}
        ),
        "train": Case(
            monitor, job("train.py", "keep"), 4 * GIB, 0.8, line="train.py:24", changed=job("train.py", "let-go"), start={"cpus": 4}
        ),
        "tasks": Case(monitor, job("tasks.py"), 4 * GIB, 0.8, start={"cpus": 8}),
        "tune-a": Case("", job("tune.py", "let-go"), 4 * GIB, 0.8, start={"cpus": 4}),
        "tune": Case(
            monitor, job("tune.py", "keep"), 4 * GIB, 0.8, line="tune.py:23", changed=job("tune.py", "let-go"), start={"cpus": 4}
        ),
        "tune-many": Case(monitor, job("tune.py", "large"), 4 * GIB, 0.8, start={"cpus": 8}),
        "serve-a": Case("", job("serve.py", "let-go"), 4 * GIB, 0.8, start={"cpus": 4}),
        "serve": Case(
            monitor, job("serve.py", "keep"), 4 * GIB, 0.8, line="serve.py:29", changed=job("serve.py", "let-go"), start={"cpus": 4}
        ),
        # The kernel kills the largest process, so Serve's controller stays and gives up in the end.
        "serve-many": Case(kernel, job("serve.py", "large"), 8 * GIB, unseen=3 * GIB, start={"cpus": 4}),
    }
