//! The best mode that is allowed here: eBPF, else procfs; and what is missing for more.

use super::RecordArgs;
use crate::{
    collect::Watch,
    command::{Failure, code},
    event::{Mode, Probe, ProbeState},
    observe::{
        host,
        kernel::{self, KernelError, Ring},
        kmsg::{self, Kmsg},
    },
};

/// What observing can rely on.
pub(super) struct Attached {
    pub(super) mode: Mode,
    pub(super) watch: Watch,
    pub(super) ring: Option<Ring>,
    pub(super) kmsg: Option<Kmsg>,
    pub(super) probes: Vec<Probe>,
    /// Keeps the programs attached.
    _keep: Option<kernel::Keep>,
}

pub(super) fn attach(args: &RecordArgs) -> anyhow::Result<Attached> {
    let opened = Kmsg::open();
    let log = kmsg::probe(&opened);
    let mut attached = match kernel::attach(args.session_dir.is_some() || args.raylet_pid.is_some())
    {
        Ok(parts) => Attached {
            mode: Mode::Ebpf,
            watch: Watch::Kernel {
                tracked: parts.tracked,
                ledgers: parts.ledgers,
            },
            ring: Some(parts.ring),
            kmsg: opened.ok(),
            probes: parts.probes,
            _keep: Some(parts.keep),
        },
        Err(error) if args.require_ebpf => anyhow::bail!(refusal(&error)),
        Err(error) => Attached {
            mode: Mode::Procfs,
            watch: Watch::Pidfds,
            ring: None,
            kmsg: opened.ok(),
            probes: vec![Probe {
                name: "ebpf".into(),
                state: ProbeState::Missing,
                reason: Some(reason(&error)),
                required: true,
            }],
            _keep: None,
        },
    };
    attached.probes.push(log);
    let missing: Vec<&Probe> = attached
        .probes
        .iter()
        .filter(|probe| probe.state == ProbeState::Missing)
        .collect();
    if args.strict && !missing.is_empty() {
        let list: Vec<String> = missing
            .iter()
            .map(|probe| {
                format!(
                    "{}: {}",
                    probe.name,
                    probe.reason.as_deref().unwrap_or("missing")
                )
            })
            .collect();
        anyhow::bail!(Failure {
            code: code::STRICT,
            message: format!(
                "--strict, and not every probe could be attached: {}",
                list.join("; ")
            )
        });
    }
    Ok(attached)
}

/// Why there is no eBPF, with the capabilities that are missing and what to type in this place.
pub(in crate::command) fn reason(error: &KernelError) -> String {
    match error {
        KernelError::NotPermitted(text) => {
            let missing = host::missing_capabilities();
            let missing = if missing.is_empty() {
                text.clone()
            } else {
                format!("missing {}", missing.join(", "))
            };
            format!("{missing}. For full sight, {}", host::advice(host::place()))
        }
        other => other.to_string(),
    }
}

fn refusal(error: &KernelError) -> Failure {
    let code = match error {
        KernelError::NotPermitted(_) => code::PRIVILEGE,
        _ => code::KERNEL,
    };
    Failure {
        code,
        message: format!("--require-ebpf, and eBPF cannot be used: {}", reason(error)),
    }
}
