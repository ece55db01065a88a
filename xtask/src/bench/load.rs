//! The loads: what a training job does to the kernel, without anything else.

use std::{process::Command, time::Instant};

use anyhow::{Context as _, Result};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use serde::{Deserialize, Serialize};

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Load {
    /// Touches fresh pages.
    PageFault,
    /// Allocates and frees blocks of all sizes.
    MallocFree,
    /// Starts short processes.
    ForkExec,
}

/// Seconds that a load took, its children included.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Cost {
    /// User and system time.
    pub(super) cpu: f64,
    /// Wall time.
    pub(super) wall: f64,
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::PageFault, Self::MallocFree, Self::ForkExec];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PageFault => "page-fault",
            Self::MallocFree => "malloc-free",
            Self::ForkExec => "fork-exec",
        }
    }

    /// Runs it on the last CPU and prints its cost.
    pub(crate) fn run(self) -> Result<()> {
        pin()?;
        let (started, before) = (Instant::now(), cpu_time());
        match self {
            Self::PageFault => page_faults()?,
            Self::MallocFree => malloc_free(),
            Self::ForkExec => fork_exec()?,
        }
        let cost = Cost {
            cpu: cpu_time() - before,
            wall: started.elapsed().as_secs_f64(),
        };
        println!("{}", serde_json::to_string(&cost)?);
        Ok(())
    }
}

fn pin() -> Result<()> {
    let count = std::thread::available_parallelism()?.get();
    let mut cpus = CpuSet::new();
    cpus.set(count - 1);
    let own = Pid::from_raw(std::process::id().cast_signed());
    sched_setaffinity(own, &cpus).context("cannot pin the load to a CPU")
}

fn page_faults() -> Result<()> {
    const SIZE: usize = 128 << 20;
    for _ in 0..6 {
        let flags = MapFlags::PRIVATE;
        // SAFETY: a fresh mapping of this function's own; nothing else points into it.
        unsafe {
            let memory = mmap_anonymous(
                std::ptr::null_mut(),
                SIZE,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )?;
            for offset in (0..SIZE).step_by(4096) {
                memory.cast::<u8>().add(offset).write_volatile(1);
            }
            munmap(memory, SIZE)?;
        }
    }
    Ok(())
}

fn malloc_free() {
    let mut kept: Vec<Vec<u8>> = vec![Vec::new(); 256];
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200_000 {
        let place = random.usize(..kept.len());
        // Mostly small, now and then above malloc's mmap threshold.
        let size = 1 << random.u32(4..20);
        let mut block = vec![0; size];
        block[size / 2] = 1;
        kept[place] = std::hint::black_box(block);
    }
}

fn fork_exec() -> Result<()> {
    for _ in 0..600 {
        let status = Command::new("/bin/true")
            .status()
            .context("cannot run /bin/true")?;
        anyhow::ensure!(status.success(), "/bin/true ended with {status}");
    }
    Ok(())
}

/// User and system time of this process and of its children that have ended.
fn cpu_time() -> f64 {
    let of = |who| {
        // SAFETY: getrusage fills the whole struct; zeros are valid for it.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}
