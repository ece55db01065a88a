//! Memory of one process and of the machine, from /proc.

use procfs::Current as _;

use crate::{
    event::{MemorySplit, NodeMemory},
    ids::{Bytes, Pid},
};

/// The machine's memory, from /proc/meminfo.
#[must_use]
pub fn node() -> Option<NodeMemory> {
    let info = procfs::Meminfo::current().ok()?;
    Some(NodeMemory {
        total: Bytes(info.mem_total),
        available: Bytes(info.mem_available.unwrap_or(info.mem_free)),
        free: Bytes(info.mem_free),
        shmem: Bytes(info.shmem.unwrap_or_default()),
        swap_used: Bytes(info.swap_total.saturating_sub(info.swap_free)),
    })
}

/// `SwapTotal`.
#[must_use]
pub fn swap_total() -> Bytes {
    let info = procfs::Meminfo::current().ok();
    Bytes(info.map_or(0, |info| info.swap_total))
}

/// `vm.overcommit_memory`: 2 refuses allocations instead of killing.
#[must_use]
pub fn overcommit() -> Option<u8> {
    let text = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").ok()?;
    text.trim().parse().ok()
}

/// A process's memory, from /proc/PID/status; `None` when it is gone or a kernel thread.
#[must_use]
pub fn process(pid: Pid) -> Option<MemorySplit> {
    split(&status(pid)?)
}

/// /proc/PID/status as text. The name in it is the process's own choice and need not be UTF-8, which a stricter parser takes
/// for an error of the whole file.
pub(super) fn status(pid: Pid) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
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
