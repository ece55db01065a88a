//! Tests settings that only a text contains: printed by a framework, or on a command line.

use super::explain;
use crate::judge::report::{Certainty, Finding, Report};

/// `EasyR1` configured by a YAML file alone: the settings are on no command line.
const RUNNER: &str = "\
+ python3 -m verl.trainer.main config=examples/config.yaml
(Runner pid=2413) {
(Runner pid=2413)   \"data\": {
(FSDPWorker pid=31) loading
(Runner pid=2413)     \"val_batch_size\": 1024
(Runner pid=2413)   },
(Runner pid=2413)   \"worker\": {
(Runner pid=2413)     \"actor\": {\"offload\": {\"offload_params\": true, \"offload_optimizer\": true}},
(Runner pid=2413)     \"ref\": {\"fsdp\": {\"enable_cpu_offload\": true}}
(Runner pid=2413)   }
(Runner pid=2413) }
(FSDPWorker pid=31) Before vllm offload in sharding manager: 66.48 GB / 79.10 GB.
(FSDPWorker pid=31) After vllm offload in sharding manager: 7.87 GB / 79.10 GB.
";
const KILL: &str = "(raylet) Memory on the node (IP: 192.0.2.9, ID: cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd) where the task (task ID: 0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d, name=FSDPWorker.update, pid=31, memory used=90.00GB) was running was 240.04GB / 251.54GB (0.954282), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 02020202020202020202020202020202020202020202020202020202) because it was the most recently scheduled task
Top 10 memory users:
PID\tMEM(GB)\tCOMMAND
31\t56.00\tray::FSDPWorker.update
32\t56.00\tray::FSDPWorker.update
33\t55.00\tray::FSDPWorker.update
34\t55.00\tray::FSDPWorker.update
";

fn finding<'a>(report: &'a Report, rule: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.rule == rule);
    found.unwrap_or_else(|| panic!("{rule}: {:#?}", report.findings))
}

/// The settings come from a YAML file and are on no command line.
#[test]
fn printed_configuration_is_diagnosed() {
    let report = explain(&[("driver.log", &format!("{RUNNER}{KILL}"))]);
    let costly = finding(&report, "setting-takes-host-memory");
    assert!(costly.summary.starts_with("EasyR1 is set"), "{costly:?}");
    assert_eq!(
        costly.remedy,
        [
            "worker.actor.offload.offload_params=false worker.actor.offload.offload_optimizer=false worker.ref.fsdp.enable_cpu_offload=false: set all"
        ]
    );
    assert_eq!(
        costly.evidence,
        ["printed by Runner (pid 2413), driver.log:3"]
    );
    let offload = finding(&report, "offload-to-host");
    assert!(
        offload.summary.contains("moved 58.6 GiB off the GPU"),
        "{offload:?}"
    );
    // The text does not say how much of it went to the host.
    assert_eq!(offload.certainty, Certainty::Unknown);
    let too_many = finding(&report, "many-workers");
    assert!(
        too_many
            .summary
            .starts_with("4 FSDPWorker of 55.5 GiB each"),
        "{too_many:?}"
    );
    let setting = |key: &str| report.settings.iter().find(|setting| setting.key == key);
    let setting = setting("worker.ref.fsdp.enable_cpu_offload").expect("the setting");
    assert!(setting.source.contains("Runner (pid 2413)"), "{setting:?}");
}

#[test]
fn configuration_without_a_kill_gives_no_finding() {
    let report = explain(&[("driver.log", RUNNER)]);
    assert_eq!(report.findings, []);
    assert!(report.settings.len() > 3, "{:?}", report.settings);
}

#[test]
fn verl_command_line_is_read_without_print() {
    let command =
        "+ python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.param_offload=True";
    let report = explain(&[("driver.log", &format!("{command}\n{KILL}"))]);
    let costly = finding(&report, "setting-takes-host-memory");
    assert_eq!(costly.evidence, ["command line, driver.log:1"]);
    let plain = explain(&[(
        "driver.log",
        &format!("{}\n{KILL}", command.replace("True", "False")),
    )]);
    assert!(
        plain
            .findings
            .iter()
            .all(|finding| finding.rule != costly.rule)
    );
}
