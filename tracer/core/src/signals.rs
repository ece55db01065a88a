//! The usual names of signals.

use libc::{
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGPIPE, SIGPROF, SIGQUIT,
    SIGSEGV, SIGSYS, SIGTERM, SIGTRAP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};

/// What a program exits with that tells the SIGTERM which it caught, as shells do.
pub(crate) const EXIT_AT_SIGTERM: i32 = 128 + SIGTERM;

/// `SIGKILL`; of one without a usual name `signal 40`.
#[must_use]
pub fn name(number: i32) -> String {
    let known = match number {
        SIGHUP => "SIGHUP",
        SIGINT => "SIGINT",
        SIGQUIT => "SIGQUIT",
        SIGILL => "SIGILL",
        SIGTRAP => "SIGTRAP",
        SIGABRT => "SIGABRT",
        SIGBUS => "SIGBUS",
        SIGFPE => "SIGFPE",
        SIGKILL => "SIGKILL",
        SIGUSR1 => "SIGUSR1",
        SIGSEGV => "SIGSEGV",
        SIGUSR2 => "SIGUSR2",
        SIGPIPE => "SIGPIPE",
        SIGALRM => "SIGALRM",
        SIGTERM => "SIGTERM",
        SIGXCPU => "SIGXCPU",
        SIGXFSZ => "SIGXFSZ",
        SIGVTALRM => "SIGVTALRM",
        SIGPROF => "SIGPROF",
        SIGSYS => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    known.to_owned()
}

/// The signal of a fault, by its name or by what shells and the kernel call it: `Segmentation fault (core dumped)`.
#[must_use]
pub fn of_fault(words: &str) -> Option<i32> {
    let known = [
        ("SIGSEGV", SIGSEGV),
        ("Segmentation fault", SIGSEGV),
        ("segfault", SIGSEGV),
        ("SIGBUS", SIGBUS),
        ("Bus error", SIGBUS),
        ("SIGABRT", SIGABRT),
        ("Aborted", SIGABRT),
        ("SIGILL", SIGILL),
        ("Illegal instruction", SIGILL),
        ("SIGFPE", SIGFPE),
    ];
    known
        .iter()
        .find(|(name, _)| words.contains(name))
        .map(|(_, number)| *number)
}
