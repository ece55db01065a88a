//! Attaches to the best source that is allowed here, eBPF or else procfs, and says what is missing.

use std::path::Path;

use super::privileges;
use crate::{
    collect::Watch,
    command::{Failure, code, failure},
    event::{Mode, Probe, ProbeState},
    judge::doctor::ADVICE_FOLLOWS,
    observe::{
        cgroup_namespace, cgroups, host,
        kernel::{self, KernelError, Ring},
        kmsg::{self, Kmsg},
    },
};

/// The hook that sees which memory was full.
const OUT_OF_MEMORY: &str = "fentry/out_of_memory";

/// The mode of recording and the sources that could be opened.
pub(super) struct Attached {
    pub(super) mode: Mode,
    pub(super) watch: Watch,
    pub(super) ring: Option<Ring>,
    pub(super) kmsg: Option<Kmsg>,
    pub(super) probes: Vec<Probe>,
    /// Keeps the programs attached.
    pub(super) programs: Option<kernel::AttachedPrograms>,
}

/// Attaches to eBPF, or falls back to procfs. `narrow` is set when only some clusters of the
/// machine are wanted.
pub(super) fn attach(narrow: bool, require_ebpf: bool) -> anyhow::Result<Attached> {
    let opened = Kmsg::open();
    let log = kmsg::probe(&opened);
    let mut attached = match kernel::attach(narrow) {
        Ok(parts) => Attached {
            mode: Mode::Ebpf,
            watch: Watch::Kernel {
                tracked: parts.tracked,
                ledgers: parts.ledgers,
                growth: parts.growth,
            },
            ring: Some(parts.ring),
            kmsg: opened.ok(),
            probes: parts.probes,
            programs: Some(parts.programs),
        },
        Err(error) if require_ebpf => anyhow::bail!(refusal(&error)),
        Err(error) => Attached {
            mode: Mode::Procfs,
            watch: Watch::Pidfds,
            ring: None,
            kmsg: opened.ok(),
            probes: vec![missing(&error)],
            programs: None,
        },
    };
    let has_gpus = Path::new("/proc/driver/nvidia").exists();
    attached
        .probes
        .push(kernel_log(log, &attached.probes, has_gpus));
    attached.probes.extend(limits());
    for probe in &attached.probes {
        let reason = probe.reason.as_deref().unwrap_or("as it should");
        tracing::debug!("probe {}: {:?}: {reason}", probe.name, probe.state);
    }
    Ok(attached)
}

/// Returns the probe of the kernel log. Where a hook sees which memory was full, the log tells
/// nothing else but errors of GPUs, and a container cannot read it.
fn kernel_log(log: Probe, hooks: &[Probe], has_gpus: bool) -> Probe {
    let sees = |hook: &Probe| hook.name == OUT_OF_MEMORY && hook.state == ProbeState::Ok;
    if log.state != ProbeState::Missing || has_gpus || !hooks.iter().any(sees) {
        return log;
    }
    Probe {
        state: ProbeState::Degraded,
        ..log
    }
}

/// Returns a missing probe if not all cgroup limits of the observed processes can be read.
fn limits() -> Option<Probe> {
    cgroup_namespace::enter_machine_namespace();
    cgroups::why_partial().map(|reason| Probe::missing("cgroups", reason, false))
}

/// Fails if a probe is missing, for `--require-all-probes`.
pub(super) fn refuse_missing(probes: &[Probe]) -> anyhow::Result<()> {
    let missing = probes
        .iter()
        .filter(|probe| probe.state == ProbeState::Missing);
    let missing: Vec<String> = missing
        .map(|probe| {
            let reason = probe.reason.as_deref().unwrap_or("missing");
            format!("{}: {reason}", probe.name)
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join("; ");
    let message = format!("--require-all-probes: not every probe could be attached: {list}");
    Err(failure(code::REQUIRE_ALL_PROBES, message))
}

/// Returns the probe that is missing without eBPF.
pub(super) fn missing(error: &KernelError) -> Probe {
    Probe::missing("ebpf", reason(error), true)
}

/// Explains why eBPF cannot be used: which capabilities are missing, and what to type here.
fn reason(error: &KernelError) -> String {
    match error {
        KernelError::NotPermitted(text) => {
            let missing = privileges::missing();
            let missing = if missing.is_empty() {
                text.clone()
            } else {
                format!("missing {}", missing.join(", "))
            };
            format!("{missing}{ADVICE_FOLLOWS}{}", host::advice(host::place()))
        }
        KernelError::PidNamespace(_) => {
            let advice = "on the host, as root: raytrace record; in a container: docker run --pid=host …, or hostPID: true in the pod";
            format!("{error}{ADVICE_FOLLOWS}{advice}")
        }
        other => other.to_string(),
    }
}

fn refusal(error: &KernelError) -> Failure {
    let code = match error {
        KernelError::NotPermitted(_) | KernelError::PidNamespace(_) => code::PRIVILEGE,
        _ => code::KERNEL,
    };
    Failure {
        code,
        message: format!("--require-ebpf: eBPF cannot be used: {}", reason(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::exit_code;

    #[test]
    fn kernel_log_is_missing_only_where_it_is_needed() {
        let hook = |state| Probe {
            name: OUT_OF_MEMORY.into(),
            state,
            reason: None,
            required: false,
        };
        let log = || Probe::missing("/dev/kmsg", "not permitted".into(), false);
        let (there, absent) = ([hook(ProbeState::Ok)], [hook(ProbeState::Missing)]);
        let state = |hooks, has_gpus| kernel_log(log(), hooks, has_gpus).state;
        assert_eq!(state(&there, false), ProbeState::Degraded);
        assert_eq!(state(&there, true), ProbeState::Missing);
        assert_eq!(state(&absent, false), ProbeState::Missing);
        assert_eq!(state(&[], false), ProbeState::Missing);
    }

    /// A degraded probe is accepted.
    #[test]
    fn require_all_probes_refuses_a_missing_probe() {
        let probe = |state| Probe {
            name: "kmsg".into(),
            state,
            reason: Some("no permission".into()),
            required: false,
        };
        let refused = refuse_missing(&[probe(ProbeState::Ok), probe(ProbeState::Missing)]);
        let refused = refused.expect_err("a probe is missing");
        assert_eq!(exit_code(&refused), 7);
        assert!(
            refused.to_string().contains("kmsg: no permission"),
            "{refused}"
        );
        assert!(refuse_missing(&[probe(ProbeState::Degraded)]).is_ok());
    }
}
