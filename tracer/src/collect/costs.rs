//! Counts the CPU time of the collector's thread by cause, if `RUST_LOG` requests it.
//!
//! `cargo xtask bench scale` uses these counts.

use std::{fmt::Write as _, time::Duration};

use crate::observe::clock;

/// What CPU time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Events of the kernel.
    Events,
    /// Ray's logs and the kernel's.
    Logs,
    /// Identifying processes.
    Identities,
    /// Drivers' logs; also children, where no hook reports them.
    Drivers,
    /// The kernel's records of mappings.
    Mappings,
    /// /proc/meminfo, cgroups, limits.
    Machine,
    /// The memory of processes.
    Processes,
    /// Files of shared memory.
    SharedFiles,
    /// Processes outside Ray.
    Outside,
    /// Work that is due each second.
    Second,
    /// A scan of the whole machine.
    Scan,
}

impl Cause {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Events, "events"),
        (Self::Logs, "logs"),
        (Self::Identities, "identities"),
        (Self::Drivers, "drivers"),
        (Self::Mappings, "mappings"),
        (Self::Machine, "machine"),
        (Self::Processes, "processes"),
        (Self::SharedFiles, "shared-files"),
        (Self::Outside, "outside"),
        (Self::Second, "second"),
        (Self::Scan, "scan"),
    ];
}

/// The CPU time of each cause.
#[derive(Debug)]
pub(super) struct Costs {
    counted: bool,
    times: [Duration; Cause::ALL.len()],
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            counted: tracing::enabled!(tracing::Level::TRACE),
            times: [Duration::ZERO; Cause::ALL.len()],
        }
    }
}

impl Costs {
    /// Does `what`, and charges its time to `cause`.
    pub(super) fn charged<T>(&mut self, cause: Cause, what: impl FnOnce() -> T) -> T {
        let began = self.begin();
        let done = what();
        self.end(cause, began);
        done
    }

    /// Returns the CPU time now, if it is counted.
    pub(super) fn begin(&self) -> Option<Duration> {
        self.counted.then(clock::cpu_time)
    }

    /// Charges the time since `began` to `cause`.
    pub(super) fn end(&mut self, cause: Cause, began: Option<Duration>) {
        if let Some(began) = began {
            self.times[cause as usize] += clock::cpu_time().saturating_sub(began);
        }
    }

    /// Logs all times so far.
    pub(super) fn log(&self) {
        if !self.counted {
            return;
        }
        let mut line = String::from("costs in us:");
        for ((_, name), time) in Cause::ALL.iter().zip(self.times) {
            // Writing to a String cannot fail.
            let _ = write!(line, " {name}={}", time.as_micros());
        }
        tracing::trace!("{line}");
    }
}
