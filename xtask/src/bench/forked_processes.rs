//! The many processes of `bench scale` that need no Ray.
//!
//! They are forks of one program, so that thousands fit on a small machine.

use std::{ffi::CStr, fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use rustix::{
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous},
    process::{Signal, set_parent_process_death_signal},
    thread::set_name,
};

/// How often a process wakes.
const WAKE: Duration = Duration::from_millis(100);
/// Wakes of a process in a second. In each second it sets two titles, and some processes grow or
/// fork.
const SECOND: u32 = 10;
/// One process in this many grows each second, and one in this many forks.
const GROWS: u32 = 50;
const FORKS: u32 = 100;
/// A process grows by this step, this many times, and then frees all of it.
const STEP: usize = 2 << 20;
const STEPS: usize = 16;
/// Memory that each process has of its own.
const OWN: usize = 1 << 20;

/// What the processes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Wake, rename themselves, and some grow and fork.
    Awake,
    /// Sleep for ever.
    Asleep,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Awake => "awake",
            Self::Asleep => "asleep",
        }
    }

    /// Runs `count` of these processes until standard input ends.
    pub(crate) fn run(self, count: u32) -> Result<()> {
        for number in 0..count {
            // SAFETY: this process has one thread. Its child continues in `member` and never
            // returns.
            let pid = unsafe { libc::fork() };
            ensure!(pid >= 0, "cannot fork: {}", std::io::Error::last_os_error());
            if pid == 0 {
                let failed = self.member(number);
                eprintln!("a member ended: {failed:?}");
                std::process::exit(1);
            }
        }
        // The death of this parent ends the processes that are left.
        let _end = std::io::read_to_string(std::io::stdin())?;
        Ok(())
    }

    fn member(self, number: u32) -> Result<std::convert::Infallible> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let own = fresh(OWN)?;
        touch(own, OWN);
        if self == Self::Asleep {
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        let title = Title::own()?;
        let grown = fresh(STEP * STEPS)?;
        let mut steps = 0;
        for wake in number % SECOND.. {
            std::thread::sleep(WAKE);
            if !wake.is_multiple_of(SECOND) {
                continue;
            }
            title.set(c"ray::Member.step")?;
            if number.is_multiple_of(GROWS) {
                // SAFETY: the step is within the mapping.
                touch(unsafe { grown.byte_add(steps * STEP) }, STEP);
                steps += 1;
            }
            if steps == STEPS {
                // SAFETY: only this function uses the mapping.
                unsafe { madvise(grown, STEP * STEPS, Advice::LinuxDontNeed)? };
                steps = 0;
            }
            if number.is_multiple_of(FORKS) {
                fork_once();
            }
            title.set(c"ray::Member")?;
        }
        unreachable!("a count of wakes that ends")
    }
}

/// Forks a child that ends at once.
fn fork_once() {
    // SAFETY: the process has one thread, and its child ends without running anything else.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(0);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

fn fresh(size: usize) -> Result<*mut std::ffi::c_void> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: this is a new mapping, so nothing else points into it.
    Ok(unsafe { mmap_anonymous(std::ptr::null_mut(), size, access, MapFlags::PRIVATE)? })
}

fn touch(memory: *mut std::ffi::c_void, size: usize) {
    for offset in (0..size).step_by(4096) {
        // SAFETY: the offset is within a mapping that only the caller uses.
        unsafe { memory.cast::<u8>().add(offset).write_volatile(1) };
    }
}

/// The argument strings of this process. `setproctitle` writes a title over them.
struct Title {
    start: *mut u8,
    length: usize,
}

impl Title {
    fn own() -> Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        // `arg_start` and `arg_end` are fields 48 and 49. The fields here begin with the third, the
        // state.
        let numbers: Vec<usize> = fields
            .skip(45)
            .take(2)
            .filter_map(|field| field.parse().ok())
            .collect();
        let [start, end] = numbers.as_slice() else {
            anyhow::bail!("no arg_start in /proc/self/stat");
        };
        Ok(Self {
            start: std::ptr::with_exposed_provenance_mut(*start),
            length: end.checked_sub(*start).context("no arguments")?,
        })
    }

    fn set(&self, title: &CStr) -> Result<()> {
        let bytes = title.to_bytes_with_nul();
        ensure!(bytes.len() <= self.length, "no room for a title");
        // SAFETY: the kernel put the arguments there, they are writable, and the title fits.
        unsafe {
            self.start
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        };
        // The kernel keeps its first 15 bytes.
        set_name(title).context("cannot set the name")?;
        Ok(())
    }
}
