//! Tests the advice that follows from texts.

use super::explain;
use crate::judge::report::{Finding, Report};

const NODE: &str = "(IP: 192.0.2.9, ID: cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd)";
const CUDA: &str =
    "(WorkerDict pid=31) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
const SLEPT: &str = "(WorkerDict pid=31) INFO CuMemAllocator: sleep freed 34.06 GiB memory in total, of which 17.56 GiB is backed up in CPU and the rest 16.50 GiB is discarded directly.";
const VERL: &str = "+ python3 -m verl.trainer.main_ppo";
const OPENRLHF: &str = "+ python3 -m openrlhf.cli.train_ppo_ray";

/// Returns a kill of one of eight workers of a class, each with `each` GiB.
fn kill(class: &str, each: u32) -> String {
    let mut text = format!(
        "(raylet) Memory on the node {NODE} where the task (task ID: 0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d, name={class}.generate, pid=31, memory used={each}.00GB) was running was 240.00GB / 251.54GB (0.954123), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 02020202020202020202020202020202020202020202020202020202) because it was the most recently scheduled task\nTop 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n"
    );
    for pid in 31..39 {
        text.push_str(&format!("{pid}\t{each}.00\tray::{class}.generate\n"));
    }
    text
}

fn on(lines: &[&str], kill: &str) -> Report {
    let text = format!("{}\n{kill}", lines.join("\n"));
    explain(&[("driver.log", &text)])
}

fn of<'a>(report: &'a Report, rule: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.rule == rule);
    found.unwrap_or_else(|| panic!("{rule}: {:#?}", report.findings))
}

fn remedy(report: &Report, rule: &str) -> String {
    of(report, rule).remedy.join("; ")
}

/// The advised number is also lower than the one that died.
#[test]
fn advised_workers_fit_beside_other_processes() {
    // 240 − 8 × 18 = 96 GiB belong to others; 0.8 × 239 − 96 = 95 GiB have room for five.
    let report = on(&[VERL], &kill("WorkerDict", 18));
    let too_many = remedy(&report, "many-workers");
    assert!(
        too_many.starts_with("a lower trainer.n_gpus_per_node: at most 5 WorkerDict on this node"),
        "{too_many}"
    );
    // The printed settings have no key for it, and Ray does not count a framework's workers.
    let printed = "(TaskRunner pid=11) {'actor_rollout_ref': {'rollout': {'n': 8}}}";
    let report = on(&[printed], &kill("WorkerDict", 18));
    let too_many = remedy(&report, "many-workers");
    assert!(
        too_many.starts_with("at most 5 WorkerDict on this node"),
        "{too_many}"
    );
    let report = on(
        &["+ python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 8"],
        &kill("LLMRayActor", 18),
    );
    let too_many = remedy(&report, "many-workers");
    assert_eq!(
        too_many,
        "a lower --vllm_num_engines (now 8): at most 5 LLMRayActor on this node, to fill at most 80 % of the limit of 239.0 GiB: each takes 18.0 GiB, everything else took 96.0 GiB"
    );
}

/// Ray's list names the call and its processes, and the command line the setting that bounds it.
#[test]
fn setting_of_a_call_in_rays_list_is_named() {
    let key = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu";
    let engine = "actor_rollout_ref.rollout.name";
    let on_engine = |name: &str, command: &str, method: &str| {
        let call = kill("WorkerDict", 18).replace(".generate", method);
        on(&[&format!("{VERL} {name} {command}")], &call)
    };
    let with = |command: &str, method: &str| on_engine(&format!("{engine}=hf"), command, method);
    let report = with(&format!("{key}=64"), ".actor_rollout_compute_log_prob");
    let held = of(&report, "call-held");
    assert!(
        held.summary.starts_with(
            "WorkerDict.actor_rollout_compute_log_prob ran in 8 processes that held 144.0 GiB, 60 %"
        ),
        "{held:?}"
    );
    assert_eq!(held.remedy, [format!("{key}=16 (now 64)")]);
    assert_eq!(
        (held.certainty, held.saving.is_some()),
        (crate::judge::report::Certainty::Inferred, false)
    );
    let is_silent = |report: &Report| {
        let mut findings = report.findings.iter();
        findings.all(|one| one.rule != "call-held")
    };
    // Another call; the least value; an engine that needs a GPU, which is verl's default.
    let set = format!("{key}=64");
    assert!(is_silent(&with(&set, ".generate")));
    let least = format!("{key}=1");
    assert!(is_silent(&with(&least, ".compute_log_prob")));
    for name in [format!("{engine}=vllm"), String::new()] {
        assert!(is_silent(&on_engine(&name, &set, ".compute_log_prob")));
    }
    let micro = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu";
    let report = with(&format!("{micro}=8"), ".actor_rollout_update_actor");
    let cost = of(&report, "call-held").cost.clone().unwrap_or_default();
    assert!(
        cost.contains("does not shrink parameters, gradients"),
        "{cost}"
    );
}

/// The user cannot edit the `@ray.remote` of a library's actor.
#[test]
fn library_actor_gets_no_advice_on_ray_remote() {
    let with = |title: &str| {
        let text = kill(title, 30);
        // A single process that held most of the limit.
        let text = text.replace("memory used=30.00GB", "memory used=200.00GB");
        let lines: Vec<&str> = text.lines().take(4).collect();
        let text = lines.join("\n").replace("31\t30.00", "31\t200.00");
        remedy(&on(&[], &text), "one-process")
    };
    let actor = with("SingleAgentEnvRunner");
    assert_eq!(actor, "");
}

#[test]
fn offloading_needs_room_on_the_host() {
    let both = on(&[VERL, CUDA], &kill("WorkerDict", 18));
    let both = of(&both, "gpu-out-of-memory");
    assert!(
        both.remedy.iter().all(|text| !text.contains("offload")) && both.cost.is_none(),
        "{both:?}"
    );
    let keys = |finding: &Finding| {
        let offload = |text: &&String| text.contains("offload=True");
        finding.remedy.iter().filter(offload).count()
    };
    assert_eq!(keys(both), 0, "{both:?}");
    let gpu = on(&[VERL, CUDA], "");
    assert_eq!(keys(of(&gpu, "gpu-out-of-memory")), 1);
}

#[test]
fn sleep_without_a_host_copy_is_advised() {
    let verl = on(&[VERL, SLEPT], &kill("WorkerDict", 18));
    let verl = remedy(&verl, "offload-to-host");
    assert!(
        verl.starts_with("sleep level 2") && !verl.contains("fsdp"),
        "{verl}"
    );
    for flag in ["--vllm_enable_sleep", "--vllm.enable_sleep"] {
        let report = on(
            &[&format!("{OPENRLHF} {flag}"), SLEPT],
            &kill("LLMRayActor", 18),
        );
        let wanted = format!("leave out {flag}");
        assert_eq!(remedy(&report, "offload-to-host"), wanted);
    }
}

#[test]
fn small_kv_cache_needs_larger_gpu_share() {
    let line = "(WorkerDict pid=31) ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.";
    let command = format!("{VERL} actor_rollout_ref.rollout.gpu_memory_utilization=0.3");
    let report = on(&[&command, line], "");
    assert_eq!(
        remedy(&report, "kv-cache-small"),
        "raise actor_rollout_ref.rollout.gpu_memory_utilization (now 0.3); lower max_num_batched_tokens or max_model_len"
    );
}

/// A flag that is already set is not advised.
#[test]
fn openrlhf_flags_keep_spelling_that_was_used() {
    let with = |flags: &str| {
        let command = format!("{OPENRLHF} {flags}");
        remedy(&on(&[&command, CUDA], ""), "gpu-out-of-memory")
    };
    let old = with("--vllm_gpu_memory_utilization 0.6");
    assert!(
        old.ends_with(
            "lower --vllm_gpu_memory_utilization (now 0.6); --adam_offload: raises host memory by what it frees on the GPU"
        ),
        "{old}"
    );
    let on = with("--adam_offload --vllm_enable_sleep");
    assert!(
        !on.contains("adam_offload") && !on.contains("(now )"),
        "{on}"
    );
    let new = with("--vllm.gpu_memory_utilization 0.6 --ds.adam_offload");
    assert!(
        new.ends_with("lower --vllm.gpu_memory_utilization (now 0.6)"),
        "{new}"
    );
}

#[test]
fn raised_threshold_is_read_from_raylets_log() {
    let with = |threshold: u64| {
        let line = format!(
            "[2026-11-21 00:09:50,000 I 31 31] (raylet) memory_monitor.cc:47: MemoryMonitor initialized with usage threshold at {threshold} bytes (0.98 system memory), total system memory bytes: 100000000000"
        );
        explain(&[("raylet.out", &line)])
    };
    let report = with(98_000_000_000);
    let high = of(&report, "threshold-high");
    assert!(
        high.summary
            .starts_with("RAY_memory_usage_threshold=0.98 leaves 1.9 GiB"),
        "{high:?}"
    );
    assert!(high.remedy[0].contains("=0.95"), "{high:?}");
    assert_eq!(with(95_000_000_000).findings, []);
}

/// Logs say neither what grew nor what was free, but the share at which Ray killed is in them.
#[test]
fn lowered_threshold_is_read_from_a_kill() {
    let with = |threshold: &str| kill("Holder", 1).replace("threshold of 0.95", threshold);
    let low = on(&[], &with("threshold of 0.39"));
    let found = of(&low, "low-threshold");
    assert_eq!(
        found.remedy,
        ["RAY_memory_usage_threshold=0.95 in the environment of ray start (now 0.39)"]
    );
    let not_if = found.not_if.as_deref();
    assert!(
        not_if.is_some_and(|text| text.contains("isolation")),
        "{found:?}"
    );
    assert!(
        found
            .cost
            .as_deref()
            .is_some_and(|cost| cost.contains("it only delays"))
    );
    // Code that a setting names runs in the controller.
    let line = format!("{VERL} custom_reward_function.path=/u/reward.py");
    let advised = |class: &str| {
        let kill = kill(class, 1).replace("threshold of 0.95", "threshold of 0.39");
        remedy(&on(&[&line], &kill), "low-threshold")
    };
    let named = "; see whether custom_reward_function.path=/u/reward.py keeps memory";
    assert!(advised("TaskRunner").contains(named));
    assert!(!advised("WorkerDict").contains(named));
    // The default was 0.9 up to Ray 2.1.
    for usual in ["threshold of 0.95", "threshold of 0.9"] {
        let report = on(&[], &with(usual));
        let mut rules = report.findings.iter().map(|one| one.rule.as_str());
        assert!(rules.all(|rule| rule != "low-threshold"), "{usual}");
    }
}

#[test]
fn refused_option_gets_a_replacement() {
    let report = on(&["Error: No such option: --redis-max-memory"], "");
    let refused = remedy(&report, "setting-refused");
    assert!(refused.contains("--object-store-memory"), "{refused}");
}

#[test]
fn small_shm_is_enlarged_before_the_store() {
    let report = on(
        &[
            "2026-11-21 00:00:00,000 WARNING services.py:1996 -- WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes available. This will harm performance!",
            "(raylet) Spilled 3815 MiB, 8 objects, write throughput 505 MiB/s.",
        ],
        "",
    );
    let store = of(&report, "object-store-pressure");
    assert!(
        store.remedy[1].starts_with("a larger --object-store-memory"),
        "{store:?}"
    );
    assert!(
        store.contradicts[0].contains("enlarge /dev/shm first"),
        "{store:?}"
    );
}

#[test]
fn multiline_and_recipe_command_lines_are_read() {
    let actor = "actor_rollout_ref.actor.fsdp_config";
    let long = [
        "$ python3 -m verl.trainer.main_ppo \\",
        "    data.train_batch_size=1024 \\",
        &format!("    {actor}.param_offload=True \\"),
        "    trainer.n_gpus_per_node=8",
        &format!("    {actor}.optimizer_offload=True"),
    ];
    let report = on(&long, &kill("WorkerDict", 18));
    // The line after the command line does not belong to it.
    let wanted = format!("{actor}.param_offload=False");
    assert_eq!(remedy(&report, "setting-takes-host-memory"), wanted);
    let recipe = format!("+ python3 -m recipe.dapo.main_dapo {actor}.param_offload=True");
    let report = on(&[&recipe], &kill("WorkerDict", 18));
    assert_eq!(remedy(&report, "setting-takes-host-memory"), wanted);
}

/// The cgroup's path tells a pod, a container, a Slurm job or a unit.
#[test]
fn advice_fits_the_owner_of_the_cgroup() {
    let monitor = "[2026-11-21 00:09:50,000 I 31 31] (raylet) memory_monitor.cc:47: MemoryMonitor initialized with usage threshold at 95000000000 bytes (0.95 system memory), total system memory bytes: 100000000000";
    let with = |cgroup: &str| {
        let kernel = format!(
            "[ 2834.779731] memory: usage 3145728kB, limit 3145728kB, failcnt 15342\n[ 2834.779851] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={cgroup},task_memcg={cgroup},task=ray::WorkerDict,pid=18924,uid=0\n[ 2834.779923] Memory cgroup out of memory: Killed process 18924 (ray::WorkerDict) total-vm:2815880kB, anon-rss:1378688kB, file-rss:41764kB, shmem-rss:0kB, UID:0 pgtables:3016kB oom_score_adj:1000"
        );
        remedy(
            &explain(&[("dmesg.txt", &kernel), ("raylet.out", monitor)]),
            "hidden-limit",
        )
    };
    let pod = with("/kubepods/burstable/pod0a1b/4f5e");
    assert!(pod.contains("resources.limits.memory: 3840Mi"), "{pod}");
    let docker = with("/docker/4f5e");
    assert!(docker.contains("docker run --memory=3840M"), "{docker}");
    let slurm = with("/system.slice/slurmstepd.scope/job_7/step_0");
    assert!(slurm.contains("sbatch --mem=3840M"), "{slurm}");
    let unit = with("/system.slice/ray.service");
    assert!(
        unit.contains("systemctl set-property ray.service MemoryMax=3840M"),
        "{unit}"
    );
    assert_eq!(
        with("/job"),
        "raise the limit of /job from 3.0 to 3.8 GiB or more: as root on its node, write 3840M to /sys/fs/cgroup/job/memory.max (cgroup v1: /sys/fs/cgroup/memory/job/memory.limit_in_bytes); where a script makes this cgroup, set the limit there; the value allows for a quarter more"
    );
}

#[test]
fn framework_default_is_not_advised_again() {
    let moved = [
        "(WorkerDict pid=31) Before vllm offload in sharding manager: 66.48 GB / 79.10 GB.",
        "(WorkerDict pid=31) After vllm offload in sharding manager: 7.87 GB / 79.10 GB.",
    ];
    let with = |command: &str| {
        let report = on(&[command, moved[0], moved[1]], &kill("WorkerDict", 18));
        remedy(&report, "offload-to-host")
    };
    assert!(with(VERL).starts_with("a lower trainer.n_gpus_per_node"));
    let key = "actor_rollout_ref.actor.fsdp_config.param_offload";
    assert_eq!(
        with(&format!("{VERL} {key}=True")),
        format!("{key}=False (now True)")
    );
}
