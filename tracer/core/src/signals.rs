//! Names signals by their usual names.

use libc::{
    SIGABRT, SIGALRM, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGIO, SIGKILL,
    SIGPIPE, SIGPROF, SIGQUIT, SIGSEGV, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};

/// The exit code of a program that reports the SIGTERM that it caught, as shells do.
pub(crate) const EXIT_AT_SIGTERM: i32 = 128 + SIGTERM;

/// Signals that programs catch in order to end.
pub(crate) const ENDING: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU];

/// Returns whether the kernel sends this signal for what a process has done.
pub(crate) fn is_fault(number: i32) -> bool {
    matches!(
        number,
        SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV
    )
}

/// Returns `SIGKILL`, or `signal 40` for one without a usual name.
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
        SIGCHLD => "SIGCHLD",
        SIGCONT => "SIGCONT",
        SIGSTOP => "SIGSTOP",
        SIGTSTP => "SIGTSTP",
        SIGURG => "SIGURG",
        SIGXCPU => "SIGXCPU",
        SIGXFSZ => "SIGXFSZ",
        SIGVTALRM => "SIGVTALRM",
        SIGPROF => "SIGPROF",
        SIGWINCH => "SIGWINCH",
        SIGIO => "SIGIO",
        SIGSYS => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    known.to_owned()
}

/// Returns whether the default action of a signal is to end the process with a core dump
/// (`SIG_KERNEL_COREDUMP_MASK`, include/linux/signal.h).
pub(crate) fn dumps_core(number: i32) -> bool {
    matches!(
        number,
        SIGQUIT
            | SIGILL
            | SIGTRAP
            | SIGABRT
            | SIGFPE
            | SIGSEGV
            | SIGBUS
            | SIGSYS
            | SIGXCPU
            | SIGXFSZ
    )
}

/// Returns the signal of a fault, from its name or from the words of shells and the kernel:
/// `Segmentation fault (core dumped)`.
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
        ("Floating point exception", SIGFPE),
        ("SIGSYS", SIGSYS),
        ("Bad system call", SIGSYS),
    ];
    known
        .iter()
        .find(|(name, _)| words.contains(name))
        .map(|(_, number)| *number)
}
