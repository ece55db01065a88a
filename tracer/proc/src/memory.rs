//! Reads the memory of one process and of the machine from /proc.

use std::{fs::File, os::unix::fs::FileExt as _};

use crate::{
    bounded,
    event::{MemorySplit, NodeMemory},
    ids::{Bytes, Pid},
};

/// /proc/PID/status has some 1.5 KiB; the lines about memory are in its first half.
const STATUS_BYTES: usize = 4096;

/// Reads the machine's memory from /proc/meminfo and /proc/pressure/memory. The caller fills in
/// `cpu_lists`.
pub fn node() -> Option<NodeMemory> {
    let mut node = counted(&bounded::text("/proc/meminfo", bounded::SMALL).ok()?)?;
    let pressure = bounded::text("/proc/pressure/memory", bounded::SMALL).ok();
    node.stalled_us = pressure.as_deref().and_then(stalled);
    Some(node)
}

/// Reads the free pages in the per-CPU lists from /proc/zoneinfo, which is long on a machine with
/// many CPUs.
pub fn cpu_lists() -> Option<Bytes> {
    let zones = bounded::text("/proc/zoneinfo", bounded::LARGE).ok()?;
    Some(Bytes(listed(&zones) * rustix::param::page_size() as u64))
}

fn counted(info: &str) -> Option<NodeMemory> {
    let all = |names: &[&str]| {
        let sizes = names.iter().filter_map(|name| kilobytes(info, name));
        sizes.map(|size| size.0).sum::<u64>()
    };
    let free = kilobytes(info, "MemFree:")?;
    let shmem = all(&["Shmem:"]);
    let cache = all(&["Buffers:", "Cached:", "SwapCached:"]);
    // Stacks are vmalloc memory, except on kernels without CONFIG_VMAP_STACK.
    let vmalloc = all(&["VmallocUsed:"]).max(all(&["KernelStack:"]));
    let kernel = all(&["Slab:", "PageTables:", "SecPageTables:", "Percpu:"]) + vmalloc;
    Some(NodeMemory {
        total: kilobytes(info, "MemTotal:")?,
        available: kilobytes(info, "MemAvailable:").unwrap_or(free),
        free,
        shmem: Bytes(shmem),
        swap_used: Bytes(all(&["SwapTotal:"]).saturating_sub(all(&["SwapFree:"]))),
        swap_total: kilobytes(info, "SwapTotal:"),
        anon: kilobytes(info, "AnonPages:"),
        file: Some(Bytes(cache.saturating_sub(shmem))),
        kernel: Some(Bytes(kernel)),
        huge: Some(Bytes(all(&["Hugetlb:"]))),
        cpu_lists: None,
        stalled_us: None,
        others: None,
    })
}

/// Adds up the pages in the lists of all CPUs: each `count:` in /proc/zoneinfo is one list.
fn listed(zones: &str) -> u64 {
    let lines = zones
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("count:"));
    lines
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .sum()
}

/// Parses the total of the line `some` of a pressure file, in µs.
pub(super) fn stalled(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

/// The open files for one process's memory. To read an open file costs a tenth of opening it, and
/// it never reads a later process with the same pid.
pub struct MemoryFiles {
    statm: File,
    status: File,
}

/// The figures of /proc/PID/statm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCounts {
    /// Anonymous pages.
    pub anon: Bytes,
    /// File and shared memory together.
    pub shared: Bytes,
}

impl MemoryFiles {
    /// Opens the files.
    pub fn open(pid: Pid) -> std::io::Result<Self> {
        Ok(Self {
            statm: File::open(format!("/proc/{pid}/statm"))?,
            status: File::open(format!("/proc/{pid}/status"))?,
        })
    }

    /// Reads the two figures that cost least; `None` when the process is gone or has no memory.
    pub fn count(&self) -> Option<PageCounts> {
        let mut buffer = [0; 128];
        let length = self.statm.read_at(&mut buffer, 0).ok()?;
        statm(std::str::from_utf8(&buffer[..length]).ok()?)
    }

    /// Reads all figures.
    pub fn split(&self) -> Option<MemorySplit> {
        let mut buffer = [0; STATUS_BYTES];
        let length = self.status.read_at(&mut buffer, 0).ok()?;
        split(&String::from_utf8_lossy(&buffer[..length]))
    }
}

/// Reads the two figures of a process that is not read again soon.
pub fn count(pid: Pid) -> Option<PageCounts> {
    statm(&bounded::text_of_process(pid, "statm", bounded::SMALL).ok()?)
}

/// Parses `size resident shared …`, in pages.
fn statm(text: &str) -> Option<PageCounts> {
    let mut figures = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let resident = figures.next()?.ok().filter(|pages| *pages > 0)?;
    let shared = figures.next()?.ok()?;
    let bytes = |pages: u64| Bytes(pages * rustix::param::page_size() as u64);
    Some(PageCounts {
        anon: bytes(resident.saturating_sub(shared)),
        shared: bytes(shared),
    })
}

/// Reads `vm.overcommit_memory`: 2 refuses allocations instead of killing.
pub fn overcommit() -> Option<u8> {
    let text = bounded::text("/proc/sys/vm/overcommit_memory", bounded::SMALL).ok()?;
    text.trim().parse().ok()
}

/// Reads a process's memory from /proc/PID/status; `None` when it is gone or is a kernel thread.
pub fn process(pid: Pid) -> Option<MemorySplit> {
    split(&status(pid)?)
}

/// Reads /proc/PID/status as text. The name in it is the process's own choice and need not be
/// UTF-8. A stricter parser would report an error for the whole file.
pub(super) fn status(pid: Pid) -> Option<String> {
    bounded::text_of_process(pid, "status", bounded::SMALL).ok()
}

fn split(status: &str) -> Option<MemorySplit> {
    Some(MemorySplit {
        anon: Some(kilobytes(status, "RssAnon:")?),
        file: kilobytes(status, "RssFile:"),
        shmem: kilobytes(status, "RssShmem:"),
        swap: kilobytes(status, "VmSwap:"),
        peak: kilobytes(status, "VmHWM:"),
        own: None,
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
        let files = MemoryFiles::open(Pid(std::process::id())).expect("files");
        let (count, split) = (
            files.count().expect("statm"),
            files.split().expect("status"),
        );
        let whole = split.resident().expect("resident").0;
        assert!(
            (count.anon.0 + count.shared.0).abs_diff(whole) < 8 << 20,
            "{count:?} {split:?}"
        );
    }

    #[test]
    fn counted_parts_add_up_to_memory_in_use() {
        // Linux 6.18 at rest.
        let info = "MemTotal: 24684092 kB\nMemFree: 5762248 kB\nMemAvailable: 21354788 kB\nBuffers: 61056 kB\nCached: 15771044 kB\n\
            SwapCached: 0 kB\nSwapTotal: 8388608 kB\nSwapFree: 7340032 kB\nAnonPages: 2176248 kB\nShmem: 8856 kB\nSlab: 714636 kB\nKernelStack: 2704 kB\n\
            PageTables: 13328 kB\nSecPageTables: 0 kB\nVmallocUsed: 32672 kB\nPercpu: 1488 kB\nHugetlb: 0 kB\n";
        let zones = "Node 0, zone   Normal\n  pagesets\n    cpu: 0\n              count:    9957\n              high:     22088\n    cpu: 1\n              count:    25217\n";
        let mut node = counted(info).expect("a node");
        assert_eq!(node.remainder(), None, "a head is not known yet");
        assert_eq!(node.swap_total, Some(Bytes(8 << 30)));
        assert_eq!(node.swap_used, Bytes(1 << 30));
        node.cpu_lists = Some(Bytes(listed(zones) * 4096));
        let (used, rest) = (
            node.total.0 - node.free.0,
            node.remainder().expect("all heads"),
        );
        assert!(
            rest >= 0 && rest.cast_unsigned() * 50 < used,
            "{rest} of {used}"
        );
    }

    #[test]
    fn gone_process_has_no_memory() {
        assert_eq!(statm("0 0 0 0 0 0 0\n"), None);
        assert_eq!(
            stalled("some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=5\n"),
            Some(1234)
        );
    }

    #[test]
    fn open_files_of_a_gone_process_read_nothing() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let files = MemoryFiles::open(Pid(child.id())).expect("files");
        assert!(files.count().is_some());
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert_eq!((files.count(), files.split()), (None, None));
    }

    #[test]
    fn kernel_thread_has_no_memory() {
        assert_eq!(split("Name:\tkthreadd\nUmask:\t0000\n"), None);
    }
}
