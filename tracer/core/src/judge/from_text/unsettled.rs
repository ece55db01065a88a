//! Names what would settle the deaths that texts leave open.

use std::collections::HashMap;

use libc::{SIGKILL, SIGTERM};

use super::{
    claim::{Claim, PidNamespace},
    claims::ProcessClaims,
    notes,
    text_evidence::TextEvidence,
};
use crate::{
    event::Role,
    ids::EventId,
    judge::{
        cause::Cause,
        missing::Missing,
        report::{Certainty, Death, Killer},
    },
    path,
    ray::log::{FileKind, file_name},
};

/// Fills in the missing evidence, for deaths with an unknown killer. `candidates` has what
/// would tell whether a kill that the kernel reports is the same death.
pub(super) fn add(read: ReadLogs, deaths: &mut [Death], candidates: &HashMap<EventId, Missing>) {
    for death in deaths {
        let open = matches!(death.verdict.killer, Killer::Unknown | Killer::KernelOom);
        if open || death.verdict.certainty == Certainty::Unknown {
            let same = candidates.get(&death.id).cloned();
            death.verdict.missing = same.or_else(|| Some(of_text(death, read)));
        }
    }
}

/// Which logs of nodes are among the texts.
#[derive(Clone, Copy)]
pub(super) struct ReadLogs {
    kernel: bool,
    pub(super) raylet: bool,
}

impl ReadLogs {
    pub(super) fn of(gathered: &TextEvidence) -> Self {
        let names = || gathered.texts.iter().map(|text| path::base(&text.name));
        let is_kernels = |name: &str| {
            ["dmesg", "kern.log", "journal"]
                .iter()
                .any(|part| name.contains(part))
        };
        let by_kernel = |claims: &ProcessClaims| {
            claims.subject.pid_namespace == PidNamespace::Host
                && claims.statements.iter().any(
                    |one| matches!(&one.claim, Claim::KernelOom(oom) if oom.reporter.is_none()),
                )
        };
        let is_raylets = |name: &str| {
            file_name::parse(name).is_some_and(|parsed| parsed.kind == FileKind::Raylet)
        };
        Self {
            kernel: names().any(is_kernels) || gathered.claims.deaths().any(by_kernel),
            raylet: names().any(is_raylets),
        }
    }
}

fn of_text(death: &Death, read: ReadLogs) -> Missing {
    if death.memory.oom.is_some() {
        return Missing::OomLines;
    }
    if death.process.role == Role::Raylet {
        // A raylet logs that it received SIGTERM. No log names the sender.
        return match death.verdict.cause {
            Cause::Signal {
                signal: SIGTERM,
                sender: None,
            } => Missing::Sender,
            _ => Missing::RayletEnd,
        };
    }
    if matches!(death.verdict.cause, Cause::ExitOrSigterm { .. }) {
        let mut lines = death.verdict.evidence.iter();
        let guess = lines.any(|line| line.what.contains("K8s pod memory limits"));
        return if guess {
            Missing::SigtermInPod
        } else {
            Missing::Sigterm
        };
    }
    if death.verdict.cause == Cause::NotSeen {
        return Missing::NormalEnd;
    }
    // The kernel's log names no sender either, and of its own kills only SIGKILL.
    if let Cause::Signal { signal, .. } = death.verdict.cause
        && signal != SIGKILL
    {
        return Missing::Sender;
    }
    // Another program's line is not Ray's line for any end, and it may name the process.
    let rays = !matches!(death.process.role, Role::Other | Role::Descendant);
    let open = matches!(death.verdict.cause, Cause::SuddenEnd | Cause::Unexplained);
    Missing::NodeLogs {
        of_any_end: rays && open,
        named: notes::is_named(death) || (!rays && death.work.task_name.is_some()),
        kernel_read: read.kernel,
        raylet_read: read.raylet,
    }
}
