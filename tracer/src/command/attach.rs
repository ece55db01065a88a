//! Attaches to the best source that is allowed here, eBPF or else procfs, and says what is missing.

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
    attached.probes.push(log);
    attached.probes.extend(limits());
    for probe in &attached.probes {
        let reason = probe.reason.as_deref().unwrap_or("as it should");
        tracing::debug!("probe {}: {:?}: {reason}", probe.name, probe.state);
    }
    Ok(attached)
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
