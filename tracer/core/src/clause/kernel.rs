//! What the kernel ends processes for, and who kills for memory, in words.

use super::{ClauseContext, party};
use crate::{
    judge::cause::{Cause, KernelOom, Resource, Scope},
    signals,
    size::{size, sizes},
};

pub(super) fn by_memory(cause: &Cause) -> Option<String> {
    Some(match cause {
        Cause::KernelOom(oom) => kernel_oom(oom),
        Cause::SharedVictimsMemory { victim_pid } => {
            format!("was killed by the kernel with pid {victim_pid}, whose memory it shared")
        }
        Cause::OomReaped => "was marked by the kernel's OOM killer, which took its memory; whether that killed it or it was dying already is not known".into(),
        Cause::RayMemoryMonitor {
            used_bytes: Some(used),
            threshold_bytes: Some(threshold),
        } => {
            let (used, threshold) = sizes(*used, *threshold);
            format!(
                "was killed by Ray's memory monitor: the node was at {used}, Ray's threshold is {threshold}"
            )
        }
        Cause::RayMemoryMonitor { .. } => "was killed by Ray's memory monitor".into(),
        Cause::RayMemoryMonitorOrKernelOom => "was claimed by Ray's memory monitor and by the kernel's OOM killer, which killed all of a cgroup; which came first is not known".into(),
        Cause::RayMemoryTable => "ended; Ray's table of memory users would be its memory monitor's, but the kill itself is not in the text".into(),
        Cause::RayMemoryDigit => "ended; disconnect_type=4 would be Ray's memory monitor, but nothing beside that one digit says so".into(),
        Cause::MemoryDaemon { name, says } if name == "kubelet" => {
            format!("was evicted by the kubelet: {says}")
        }
        Cause::MemoryDaemon { name, says } => format!("was killed by {name}: {says}"),
        _ => return None,
    })
}

impl ClauseContext {
    /// What the kernel does on its own account, or on somebody's arrangement.
    pub(super) fn by_kernel(&self, cause: &Cause) -> Option<String> {
        let ended = self.ended;
        Some(match cause {
            Cause::Terminal { signal } => {
                format!("was {ended} by its terminal ({})", signals::name(*signal))
            }
            Cause::Timer {
                signal,
                created: true,
            } => format!(
                "was {ended} by {} from a timer of its own (timer_create), arranged by itself",
                signals::name(*signal)
            ),
            Cause::Timer { .. } => format!("was {ended} by a timer that ran out"),
            Cause::MessageQueue { signal, sent_by } => format!(
                "was {ended} by {} at a message in a queue (mq_notify), arranged by itself; {} sent the message",
                signals::name(*signal),
                party(sent_by)
            ),
            Cause::FileReady { signal, running } => format!(
                "was {ended} by {} for a file that had become ready (fcntl F_SETSIG); who arranged that was not seen, {} ran then",
                signals::name(*signal),
                party(running)
            ),
            Cause::KernelSignal { signal } => {
                format!("was {ended} by the kernel with {}", signals::name(*signal))
            }
            Cause::ResourceLimit { limit } => {
                format!("was {ended} by the kernel {}", resource(*limit))
            }
            Cause::Seccomp => {
                format!("was {ended} by the kernel for a system call that seccomp forbids (SIGSYS)")
            }
            Cause::HardwareMemoryError => format!(
                "was {ended} by the kernel for a hardware memory error (SIGBUS, BUS_MCEERR)"
            ),
            Cause::PidNamespaceExit { init_pid } => format!(
                "was killed by the kernel because the init of its pid namespace (pid {init_pid}) ended"
            ),
            Cause::TracerExit { tracer_pid } => {
                format!("was killed by the kernel because its tracer (pid {tracer_pid}) ended")
            }
            Cause::StoppedAndLeft { ended: last } => format!(
                "was {ended} by the kernel with SIGHUP: it was stopped, and {}, the last process that could have continued it, ended",
                party(last)
            ),
            Cause::KernelUnexplained => {
                "was killed by the kernel itself (SIGKILL, si_code 128); nothing seen says why"
                    .into()
            }
            _ => return None,
        })
    }
}

fn kernel_oom(oom: &KernelOom) -> String {
    let by = oom.reported_by.as_ref();
    let by = by.map_or_else(String::new, |by| format!(", as {by} reports"));
    let full = match (oom.scope, &oom.cgroup) {
        (Some(Scope::Global), _) => "the machine was out of memory".into(),
        (Some(Scope::Cpuset), _) => "the memory nodes of its cpuset were full".into(),
        (Some(Scope::Mempolicy), _) => "the memory nodes of its memory policy were full".into(),
        (Some(Scope::Sysrq), _) => {
            return "was killed by the kernel's OOM killer, which somebody asked for (sysrq f); no allocation had failed".into();
        }
        (Some(Scope::Memcg) | None, Some(cgroup)) => match oom.limit_bytes {
            Some(limit) => format!("cgroup {cgroup} reached its limit of {}", size(limit)),
            None => format!("cgroup {cgroup} reached its limit"),
        },
        (Some(Scope::Memcg), None) => "a memory cgroup reached its limit".into(),
        (None, None) => {
            return format!(
                "was killed by the kernel's OOM killer{by}; whether a cgroup or the machine was full is not known"
            );
        }
    };
    format!("was killed by the kernel{by}: {full}")
}

fn resource(limit: Resource) -> &'static str {
    match limit {
        Resource::CpuTime => "at its CPU time limit (SIGXCPU, RLIMIT_CPU)",
        Resource::CpuTimeHard => "at its hard CPU time limit (RLIMIT_CPU)",
        Resource::FileSize => "at its limit on the size of a file (SIGXFSZ, RLIMIT_FSIZE)",
    }
}
