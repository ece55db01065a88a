//! The loads: what a training job demands of the kernel, and nothing else.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::symlink, process::CommandExt as _},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use serde::{Deserialize, Serialize};

use super::statistics::median;

/// A run of a load is the median of this many turns.
const TURNS: usize = 16;

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

impl Cost {
    pub(super) fn mean(self, other: Self) -> Self {
        Self {
            cpu: f64::midpoint(self.cpu, other.cpu),
            wall: f64::midpoint(self.wall, other.wall),
        }
    }
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::PageFault, Self::MallocFree, Self::ForkExec];

    pub(super) const OF_MEMORY: [Self; 2] = [Self::PageFault, Self::MallocFree];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PageFault => "page-fault",
            Self::MallocFree => "malloc-free",
            Self::ForkExec => "fork-exec",
        }
    }

    /// Runs the load on the last CPU and prints its cost, once for each line of input.
    pub(crate) fn serve(self) -> Result<()> {
        pin()?;
        for line in std::io::stdin().lines() {
            line?;
            let costs = (0..TURNS)
                .map(|_| self.turn())
                .collect::<Result<Vec<Cost>>>()?;
            let median_of =
                |what: fn(&Cost) -> f64| median(&mut costs.iter().map(what).collect::<Vec<f64>>());
            let cost = Cost {
                cpu: median_of(|cost| cost.cpu),
                wall: median_of(|cost| cost.wall),
            };
            println!("{}", serde_json::to_string(&cost)?);
        }
        Ok(())
    }

    fn turn(self) -> Result<Cost> {
        let (started, before) = (Instant::now(), cpu_time());
        match self {
            Self::PageFault => page_faults()?,
            Self::MallocFree => malloc_free(),
            Self::ForkExec => fork_exec()?,
        }
        Ok(Cost {
            cpu: cpu_time() - before,
            wall: started.elapsed().as_secs_f64(),
        })
    }
}

/// A process that runs a load when it is told to.
///
/// One process does all runs, with and without the recorder. The place of a process in memory makes
/// it several percent faster or slower than another.
pub(super) struct LoadProcess {
    child: Child,
    answers: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl LoadProcess {
    /// Starts the process. A recorder takes it for a raylet, because of its name and an argument.
    pub(super) fn start(load: Load) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("raylet");
        symlink(std::env::current_exe()?, &program)?;
        let mut command = Command::new(program);
        command
            .args(["bench-load", load.name(), "--raylet_socket_name=none"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // SAFETY: the closure makes one system call between fork and exec.
        unsafe { command.pre_exec(same_addresses) };
        let mut child = command.spawn()?;
        let answers = child.stdout.take().context("no stdout")?;
        Ok(Self {
            child,
            answers: BufReader::new(answers),
            _folder: folder,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs the load once.
    pub(super) fn run(&mut self) -> Result<Cost> {
        let input = self.child.stdin.as_mut().context("no stdin")?;
        input.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("the load did not print its cost")
    }

    pub(super) fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the load ended with {status}");
        Ok(())
    }
}

/// Turns off address space randomisation for this process. All runs then have the same addresses,
/// so it is not left to chance whether a block gets a huge page.
fn same_addresses() -> std::io::Result<()> {
    // SAFETY: personality(2) takes and returns integers.
    let before = unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
    if before < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
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
    // SAFETY: this is a new mapping that only this function uses.
    unsafe {
        let memory = mmap_anonymous(
            std::ptr::null_mut(),
            SIZE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?;
        for offset in (0..SIZE).step_by(4096) {
            memory.cast::<u8>().add(offset).write_volatile(1);
        }
        munmap(memory, SIZE)?;
    }
    Ok(())
}

fn malloc_free() {
    let mut kept: Vec<Vec<u8>> = vec![Vec::new(); 256];
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..25_000 {
        let place = random.usize(..kept.len());
        // Mostly small sizes, and now and then one above malloc's mmap threshold.
        let size = 1 << random.u32(4..20);
        let mut block = vec![0; size];
        block[size / 2] = 1;
        kept[place] = std::hint::black_box(block);
    }
}

fn fork_exec() -> Result<()> {
    for _ in 0..120 {
        let status = Command::new("/bin/true")
            .status()
            .context("cannot run /bin/true")?;
        anyhow::ensure!(status.success(), "/bin/true ended with {status}");
    }
    Ok(())
}

/// Returns user and system time of this process and of its children that have ended.
fn cpu_time() -> f64 {
    let of = |who| {
        // SAFETY: getrusage fills the whole struct, and zeros are valid for it.
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
