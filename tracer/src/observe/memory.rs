//! Memory of one process and of the machine, from /proc.

use crate::{
    event::{MemorySplit, NodeMemory},
    ids::{Bytes, Pid},
};

/// The machine's memory, from /proc/meminfo.
#[must_use]
pub fn node() -> Option<NodeMemory> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |key: &str| kilobytes(&text, key).unwrap_or_default();
    Some(NodeMemory {
        total: field("MemTotal:"),
        available: field("MemAvailable:"),
        free: field("MemFree:"),
        shmem: field("Shmem:"),
        swap_used: Bytes(field("SwapTotal:").0.saturating_sub(field("SwapFree:").0)),
    })
}

/// A process's memory, from /proc/PID/status; `None` when it is gone or a kernel thread.
#[must_use]
pub fn process(pid: Pid) -> Option<MemorySplit> {
    split(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn split(status: &str) -> Option<MemorySplit> {
    Some(MemorySplit {
        anon: Some(kilobytes(status, "RssAnon:")?),
        file: kilobytes(status, "RssFile:"),
        shmem: kilobytes(status, "RssShmem:"),
        swap: kilobytes(status, "VmSwap:"),
        peak: kilobytes(status, "VmHWM:"),
    })
}

fn kilobytes(text: &str, key: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kilobytes| Bytes(kilobytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_this_machine_have_memory() {
        let own = process(Pid(std::process::id())).expect("status");
        assert!(own.anon.expect("anon").0 > 0);
        assert!(own.peak.expect("peak") >= own.anon.expect("anon"));
        let node = node().expect("meminfo");
        assert!(node.total > node.available && node.available.0 > 0);
    }

    #[test]
    fn a_kernel_thread_has_none() {
        assert_eq!(split("Name:\tkthreadd\nUmask:\t0000\n"), None);
    }
}
