//! Words the deaths caused by the kernel, and by daemons that kill for memory.

use libc::SIGIO;

use super::{ClauseContext, Number, fatal, party};
use crate::{
    judge::cause::{Cause, KernelOom, Resource, Scope},
    signals,
    size::{size, use_above},
};

pub(super) fn by_memory(cause: &Cause, number: Number) -> Option<String> {
    let Number { was, its, .. } = number;
    Some(match cause {
        Cause::KernelOom(oom) => kernel_oom(oom, number),
        Cause::SharedVictimsMemory { victim_pid } => {
            format!("{was} killed by the kernel because it shared memory with pid {victim_pid}, the OOM victim")
        }
        Cause::OomReaped => format!("{was} marked by the kernel's OOM killer, which reclaimed {its} memory; whether that killed it, or it was already exiting, is unknown"),
        Cause::RayMemoryMonitor {
            used_bytes: Some(used),
            threshold_bytes: Some(threshold),
        } => {
            let (used, threshold) = use_above(*used, *threshold);
            format!(
                "{was} killed by Ray's memory monitor: the node was at {used}, Ray's threshold is {threshold}"
            )
        }
        Cause::RayMemoryMonitor { .. } => format!("{was} killed by Ray's memory monitor"),
        Cause::RayMemoryMonitorOrKernelOom => format!("{was} killed by Ray's memory monitor or by the kernel's OOM killer, which killed a whole cgroup; which came first is unknown"),
        Cause::RayMemoryTable => "ended; Ray's memory monitor printed its table of memory users, but the logs do not name the kill".into(),
        Cause::RayMemoryDigit => "ended; disconnect_type=4 means Ray's memory monitor, but no other line confirms it".into(),
        Cause::MemoryDaemon { name, says, .. } | Cause::SystemProgram { name, says, .. }
            if name == "kubelet" =>
        {
            format!("{was} killed by the kubelet: {says}")
        }
        Cause::SystemProgram { name, says, .. } => format!("{was} ended by {name}: {says}"),
        Cause::MemoryDaemon { name, says, .. } => format!("{was} killed by {name}: {says}"),
        _ => return None,
    })
}

impl ClauseContext {
    /// Returns the clause for what the kernel does by itself, or because somebody arranged it.
    pub(super) fn by_kernel(&self, cause: &Cause) -> Option<String> {
        let Number { was, its, it } = self.number;
        Some(match cause {
            Cause::Terminal { signal } => {
                format!(
                    "{was} {} by {its} terminal ({})",
                    fatal(*signal),
                    signals::name(*signal)
                )
            }
            Cause::Timer {
                signal,
                created: true,
            } => format!(
                "{was} {} by {} from {its} own timer (timer_create)",
                fatal(*signal),
                signals::name(*signal)
            ),
            Cause::Timer { .. } => format!("{was} terminated by an expired timer"),
            Cause::MessageQueue { signal, sent_by } => format!(
                "{was} {} by {}, which {it} had requested for messages in a queue (mq_notify); {} sent the message",
                fatal(*signal),
                signals::name(*signal),
                party(sent_by)
            ),
            Cause::FileReady { signal, running } => {
                let by_number = if *signal == SIGIO {
                    " O_ASYNC"
                } else {
                    " F_SETSIG"
                };
                format!(
                    "{was} {} by {} because a file became ready (fcntl{by_number}); who requested that was not seen; {} was running",
                    fatal(*signal),
                    signals::name(*signal),
                    party(running)
                )
            }
            Cause::ChildExit {
                signal,
                ended: other,
            } => format!(
                "{was} {} by {} as {} exited: a child that {it} had started with this as its exit signal (clone), or the other end of a file (fcntl F_SETSIG)",
                fatal(*signal),
                signals::name(*signal),
                party(other)
            ),
            Cause::KernelSignal { signal } => {
                format!(
                    "{was} {} by the kernel with {}",
                    fatal(*signal),
                    signals::name(*signal)
                )
            }
            Cause::ResourceLimit { limit } => {
                format!("{was} killed by the kernel {}", resource(*limit, its))
            }
            Cause::Seccomp => {
                format!(
                    "{was} killed by the kernel for a system call that seccomp forbids (SIGSYS)"
                )
            }
            Cause::HardwareMemoryError => format!(
                "{was} killed by the kernel for a hardware memory error (SIGBUS, BUS_MCEERR)"
            ),
            Cause::PidNamespaceExit { init_pid } => format!(
                "{was} killed by the kernel because the init of {its} pid namespace (pid {init_pid}) exited"
            ),
            Cause::TracerExit { tracer_pid } => {
                format!("{was} killed by the kernel because {its} tracer (pid {tracer_pid}) exited")
            }
            Cause::StoppedThenOrphaned {
                ended: last,
                itself,
            } => {
                let last = party(last);
                if *itself {
                    format!(
                        "{was} terminated by the kernel with SIGHUP as {last} exited: {it} {was} stopped and no process was left that could have continued {it}, or {it} had blocked the hang-up of {its} terminal"
                    )
                } else {
                    format!(
                        "{was} terminated by the kernel with SIGHUP: a process of {its} group was stopped, and {last}, the last process that could have continued it, exited"
                    )
                }
            }
            Cause::KernelUnexplained => {
                format!(
                    "{was} killed by the kernel itself (SIGKILL, si_code 128); the reason was not recorded"
                )
            }
            _ => return None,
        })
    }
}

fn kernel_oom(oom: &KernelOom, number: Number) -> String {
    let Number { was, its, .. } = number;
    let by = oom.reported_by.as_ref();
    let by = by.map_or_else(String::new, |by| format!(", as {by} reports"));
    let full = match (oom.scope, &oom.cgroup) {
        (Some(Scope::Global), _) => "the machine was out of memory".into(),
        (Some(Scope::Cpuset), _) => format!("the memory nodes of {its} cpuset were full"),
        (Some(Scope::Mempolicy), _) => format!("the memory nodes of {its} memory policy were full"),
        (Some(Scope::Sysrq), _) => {
            return format!(
                "{was} killed by the kernel's OOM killer, which was invoked by hand (sysrq f); no allocation had failed"
            );
        }
        (Some(Scope::Memcg) | None, Some(cgroup)) => match oom.limit_bytes {
            Some(limit) => format!("cgroup {cgroup} hit its limit of {}", size(limit)),
            None => format!("cgroup {cgroup} hit its limit"),
        },
        (Some(Scope::Memcg), None) => match oom.limit_bytes {
            Some(limit) => format!("a memory cgroup hit its limit of {}", size(limit)),
            None => "a memory cgroup hit its limit; which one is not known".into(),
        },
        (None, None) => {
            return format!(
                "{was} killed by the kernel's OOM killer{by}; whether a cgroup or the machine was full is unknown"
            );
        }
    };
    format!("{was} killed by the kernel{by}: {full}")
}

fn resource(limit: Resource, its: &str) -> String {
    match limit {
        Resource::CpuTime => format!(
            "at {its} CPU time limit (SIGXCPU; RLIMIT_CPU, or under real-time scheduling RLIMIT_RTTIME or the runtime of SCHED_DEADLINE)"
        ),
        Resource::CpuTimeHard => format!(
            "at {its} hard CPU time limit (RLIMIT_CPU, or RLIMIT_RTTIME under real-time scheduling)"
        ),
        Resource::FileSize => {
            format!("at {its} limit on the size of a file (SIGXFSZ, RLIMIT_FSIZE)")
        }
    }
}
