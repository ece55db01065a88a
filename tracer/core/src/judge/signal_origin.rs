//! Finds the origin of a signal: requested by a process, arranged before, or of the kernel's own.
//!
//! A `si_code` alone does not tell. A process may queue any negative code to another (except
//! `SI_TKILL`), and any code to itself (`do_rt_sigqueueinfo`, kernel/signal.c). The system call
//! that the running task was in tells: only those of [`asks`] send on request.

use libc::{
    BUS_MCEERR_AO, BUS_MCEERR_AR, CLD_DUMPED, CLD_EXITED, CLD_KILLED, SI_ASYNCIO, SI_KERNEL,
    SI_MESGQ, SI_QUEUE, SI_SIGIO, SI_TIMER, SI_TKILL, SI_USER, SIGALRM, SIGBUS, SIGFPE, SIGHUP,
    SIGILL, SIGINT, SIGIO, SIGKILL, SIGPROF, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP, SIGVTALRM, SIGXCPU,
    SIGXFSZ,
};

use super::report::{Certainty, Mechanism};
use crate::event::Signal;

/// Sent to the thread that touched the page, and to every process that has it.
const BUS_MCEERR: [i32; 2] = [BUS_MCEERR_AR, BUS_MCEERR_AO];

/// The codes that tell a parent how its child ended (`do_notify_parent`, kernel/signal.c).
const CHILD_ENDS: [i32; 3] = [CLD_EXITED, CLD_KILLED, CLD_DUMPED];

/// `TRAP_PERF`: an event of `perf_event_open` has come. Anybody who may trace the thread may have
/// arranged it.
const TRAP_PERF: i32 = 6;

/// `SYS_SECCOMP`. The other code of SIGSYS is for a call that the process itself has the kernel
/// catch (`PR_SET_SYSCALL_USER_DISPATCH`).
const SYS_SECCOMP: i32 = 1;

/// `PTRACE_KILL`: since Linux 5.19 it sends SIGKILL (`ptrace_request`, kernel/ptrace.c).
const PTRACE_KILL: i64 = 8;

/// Calls that can write to `cgroup.kill`. The numbers are those of `pwritev2` and `io_submit` on
/// x86-64 and aarch64.
const WRITES: [&str; 11] = [
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "#328",
    "#287",
    "#209",
    "#2",
    "sendfile",
    "splice",
    "io_uring_enter",
];

/// Signals that a thread's own instruction raises.
const FAULTS: [i32; 5] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV];

/// Signals that the kernel itself sends to the process that runs: of its terminal, at its limits of
/// CPU time, at its timers, and where it allocates when memory is full.
const SENT_TO_RUNNING: [i32; 8] = [
    SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU,
];

/// Codes of signals that the kernel may send in an interrupt: of a timer, a device, a file.
const BY_INTERRUPT: [i32; 3] = [SI_TIMER, SI_ASYNCIO, SI_SIGIO];

/// Calls in which the kernel may raise a fault in the calling thread: `execve`, `execveat` and
/// `rt_sigreturn`, by their numbers on x86-64 and aarch64.
const MAY_FAULT: [&str; 6] = ["#59", "#322", "#15", "#221", "#281", "#139"];

/// What made the kernel send a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A process asked for it, by this call.
    Requested(Mechanism),
    /// Somebody wrote into `cgroup.kill`.
    CgroupKill,
    /// The target had requested it for its parent's end (`PR_SET_PDEATHSIG`).
    ParentDeath,
    /// A timer of the target's own (`timer_create`).
    Timer,
    /// The target had requested it for a message (`mq_notify`).
    MessageQueue,
    /// A process had arranged it for when a file becomes ready (`F_SETSIG`, `F_SETOWN`).
    Descriptor,
    /// A process ended. It may be a child that the target had cloned with this as its exit signal.
    ChildExit,
    /// The kernel sent it for a reason of its own (`SI_KERNEL`).
    Kernel,
    /// A fault of the target's own instruction.
    Fault,
    /// A system call that seccomp forbids.
    Seccomp,
    /// The limit on the size of a file.
    FileLimit,
    /// A hardware memory error.
    Hwpoison,
    /// None of these explains it.
    Unknown,
}

/// The origin of a signal, and whether it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SignalOrigin {
    pub(super) kind: Origin,
    pub(super) is_certain: bool,
}

impl SignalOrigin {
    /// Returns how sure it is.
    pub(super) fn certainty(self) -> Certainty {
        if self.is_certain {
            Certainty::Proven
        } else {
            Certainty::Inferred
        }
    }

    /// Whether the kernel sent it, even if somebody had arranged that. Then the process that ran is
    /// no sender.
    pub(super) fn is_from_kernel(self) -> bool {
        !matches!(
            self.kind,
            Origin::Requested(_) | Origin::CgroupKill | Origin::Unknown
        )
    }
}

/// Returns the origin of this signal.
pub(super) fn of(signal: &Signal) -> SignalOrigin {
    let own = signal.sender.process.same(signal.target);
    if let Some(mechanism) = asked(signal) {
        return if own || !BY_INTERRUPT.contains(&signal.code) {
            certain(Origin::Requested(mechanism))
        } else {
            asked_or_interrupted(signal, mechanism)
        };
    }
    match signal.code {
        // The kernel also uses this for `cgroup.kill`, `PR_SET_PDEATHSIG` and `RLIMIT_FSIZE`.
        SI_USER => by_nobodys_code(signal, own),
        // A file that became ready, for the signal that has no other use (`O_ASYNC`).
        SI_KERNEL if signal.signal == SIGIO => SignalOrigin {
            kind: Origin::Descriptor,
            is_certain: !own,
        },
        SI_KERNEL => by_the_kernels_code(signal, own),
        // A timer of `timer_create`.
        SI_TIMER => of_known_call(signal, Origin::Timer),
        // A notification of `mq_notify`.
        SI_MESGQ => of_known_call(signal, Origin::MessageQueue),
        // A file that became ready, for a signal that has other codes of its own (fs/fcntl.c,
        // `send_sigio_to_task`).
        SI_SIGIO => of_known_call(signal, Origin::Descriptor),
        // No process may queue this to another.
        SI_TKILL if signal.call.is_none() => certain(Origin::Requested(Mechanism::Tgkill)),
        // The kernel never makes this by itself.
        SI_QUEUE if signal.call.is_none() => certain(Origin::Requested(Mechanism::Sigqueue)),
        code if code > 0 => by_positive_code(signal, own),
        _ => certain(Origin::Unknown),
    }
}

fn certain(kind: Origin) -> SignalOrigin {
    SignalOrigin {
        kind,
        is_certain: true,
    }
}

/// Handles codes that the kernel makes and a process can forge. They are certain if the call says
/// that no process did.
fn of_known_call(signal: &Signal, kind: Origin) -> SignalOrigin {
    SignalOrigin {
        kind,
        is_certain: signal.call.is_some(),
    }
}

/// Returns the call by which the running task asked for this very signal; `None` if it did not, or
/// if its call is not known.
///
/// A process that exits is in no call. Where it was killed by its own `kill`, its registers still
/// have that call.
fn asked(signal: &Signal) -> Option<Mechanism> {
    if signal.sender.exiting {
        return None;
    }
    let call = signal.call.as_ref()?;
    let (mechanism, argument) = asks(&call.name)?;
    let named = call.arguments.get(argument).copied() == Some(i64::from(signal.signal));
    let own = signal.sender.process.same(signal.target);
    let code = match mechanism {
        Mechanism::Kill => signal.code == SI_USER,
        Mechanism::Tgkill => signal.code == SI_TKILL,
        Mechanism::Pidfd => signal.code <= 0 || own,
        _ => own || signal.code < 0 && signal.code != SI_TKILL,
    };
    (named && code).then_some(mechanism)
}

/// Handles codes that a process may make up for another, of signals that an interrupt may send while
/// the sender of others runs.
fn asked_or_interrupted(signal: &Signal, mechanism: Mechanism) -> SignalOrigin {
    let named = signal.call.as_ref().map_or(0, |call| call.arguments[0]);
    let kind = match mechanism {
        // The sender names a file.
        Mechanism::Pidfd => {
            return SignalOrigin {
                kind: Origin::Requested(mechanism),
                is_certain: false,
            };
        }
        _ if named == i64::from(signal.target.pid.0) => Origin::Requested(mechanism),
        // It means another process, or has a pid namespace of its own.
        _ => Origin::Unknown,
    };
    certain(kind)
}

/// Returns the mechanism of a call that sends a signal, and which of its arguments is the number.
fn asks(call: &str) -> Option<(Mechanism, usize)> {
    Some(match call {
        "kill" => (Mechanism::Kill, 1),
        "tkill" => (Mechanism::Tgkill, 1),
        "tgkill" => (Mechanism::Tgkill, 2),
        "rt_sigqueueinfo" => (Mechanism::Sigqueue, 1),
        "rt_tgsigqueueinfo" => (Mechanism::Sigqueue, 2),
        "pidfd_send_signal" => (Mechanism::Pidfd, 1),
        _ => return None,
    })
}

/// Handles code 0 that no call asked for. Only the kernel and `kill` make it for another process.
/// So if the call is not known, only a process's signals to itself are in doubt.
fn by_nobodys_code(signal: &Signal, own: bool) -> SignalOrigin {
    if signal.sender.exiting && signal.parent_death_signal == signal.signal {
        return certain(Origin::ParentDeath);
    }
    if signal.signal == SIGKILL && !signal.group {
        return certain(to_one_thread(signal));
    }
    match (&signal.call, own) {
        (Some(_), true) if signal.signal == SIGXFSZ => certain(Origin::FileLimit),
        // `SIGPIPE` of a write, or `SIGTRAP` of a traced exec, which the target caused itself.
        (Some(_), true) => certain(Origin::Fault),
        (None, true) if signal.signal == SIGXFSZ => SignalOrigin {
            kind: Origin::FileLimit,
            is_certain: false,
        },
        (None, _) => certain(Origin::Requested(Mechanism::Kill)),
        (Some(_), false) => certain(Origin::Unknown),
    }
}

/// Handles SIGKILL with code 0 to one thread: `cgroup.kill`, a tracer, or another part of the
/// kernel.
fn to_one_thread(signal: &Signal) -> Origin {
    let Some(call) = &signal.call else {
        return Origin::CgroupKill;
    };
    match call.name.as_str() {
        name if WRITES.contains(&name) => Origin::CgroupKill,
        "ptrace" if call.arguments[0] == PTRACE_KILL => Origin::Requested(Mechanism::Unknown),
        _ => Origin::Unknown,
    }
}

/// Handles `SI_KERNEL`.
///
/// The kernel sends it to one thread for what that thread itself has done (`force_sig`). A tracer
/// injects any other one at a system call (`ptrace_report_syscall`, include/linux/ptrace.h), in the
/// name of the thread. A BPF program sends any signal to the process that runs
/// (`bpf_send_signal`), so those to a process in its own name are not certain.
fn by_the_kernels_code(signal: &Signal, own: bool) -> SignalOrigin {
    let to_itself_alone = own && !signal.group && signal.sender.tid == signal.target_tid;
    let forced = signal.signal == SIGKILL || FAULTS.contains(&signal.signal);
    let by_program = own && signal.group;
    if to_itself_alone && !forced || by_program && !SENT_TO_RUNNING.contains(&signal.signal) {
        return certain(Origin::Unknown);
    }
    let call = signal.call.as_ref().map(|call| call.name.as_str());
    let maybe_put_in =
        to_itself_alone && call.is_some_and(|call| !call.is_empty() && !MAY_FAULT.contains(&call));
    SignalOrigin {
        kind: Origin::Kernel,
        // The process may have queued it to itself, which an unknown call does not show.
        is_certain: (call.is_some() || !own) && !maybe_put_in && !by_program,
    }
}

/// Handles codes above 0: a fault, seccomp, a memory error, or a file that became ready. A ready
/// file has the same codes as the others.
fn by_positive_code(signal: &Signal, own: bool) -> SignalOrigin {
    let call = signal.call.as_ref().map(|call| call.name.as_str());
    let same_thread = own && signal.sender.tid == signal.target_tid;
    if signal.signal == SIGBUS && BUS_MCEERR.contains(&signal.code) {
        let injected = call == Some("madvise");
        let found = signal.sender.kernel_thread || injected;
        if found || same_thread || call.is_none() {
            return SignalOrigin {
                kind: Origin::Hwpoison,
                // Since Linux 6.6 any process may poison a page of its own (`UFFDIO_POISON`), and
                // gets the same signal where it reads that page.
                is_certain: found && call.is_some(),
            };
        }
    }
    if signal.signal == SIGSYS && same_thread {
        let is_seccomp = signal.code == SYS_SECCOMP;
        let kind = if is_seccomp {
            Origin::Seccomp
        } else {
            Origin::Fault
        };
        return of_known_call(signal, kind);
    }
    if signal.signal == SIGTRAP && signal.code == TRAP_PERF {
        return certain(Origin::Unknown);
    }
    if signal.sender.exiting && signal.group && !own && CHILD_ENDS.contains(&signal.code) {
        return SignalOrigin {
            kind: Origin::ChildExit,
            // A file that is closed at an exit becomes ready with the same codes.
            is_certain: false,
        };
    }
    // An instruction faults in user space, not within a call. If the call is not known, it may be
    // either.
    let between_calls = call.is_none_or(str::is_empty);
    if same_thread && FAULTS.contains(&signal.signal) && between_calls {
        return certain(Origin::Fault);
    }
    SignalOrigin {
        kind: Origin::Descriptor,
        is_certain: call.is_some() || !own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Sender, SystemCall},
        ids::{Pid, ProcessKey},
    };

    /// Returns a signal from pid 66 (or from the target, 7) with a code, within a call that has
    /// these arguments.
    fn sent(from: u32, number: i32, code: i32, call: Option<(&str, [i64; 3])>) -> Signal {
        Signal {
            target: ProcessKey::new(7, 70),
            target_tid: Pid(7),
            signal: number,
            code,
            group: true,
            result: 0,
            group_exit: true,
            group_exit_code: number,
            took_effect: true,
            parent_death_signal: 0,
            tracer: None,
            sender: Sender {
                process: ProcessKey::new(from, u64::from(from) * 10),
                tid: Pid(from),
                comm: "x".into(),
                uid: 1000,
                exiting: false,
                process_exiting: None,
                kernel_thread: false,
                exe: None,
                cgroup: None,
                ancestors: Vec::new(),
                container_id: None,
                effective_uid: None,
                saved_uid: None,
                file: None,
                argv: Vec::new(),
                exec_seen: false,
                same_root: false,
            },
            call: call.map(|(name, arguments)| SystemCall {
                name: name.into(),
                arguments,
            }),
        }
    }

    fn origin(from: u32, number: i32, code: i32, call: Option<(&str, [i64; 3])>) -> (Origin, bool) {
        let origin = of(&sent(from, number, code, call));
        (origin.kind, origin.is_certain)
    }

    #[test]
    fn every_queueable_code_is_a_request() {
        for code in [-1, -2, -3, -4, -5, -60, -1000] {
            let call = Some(("rt_sigqueueinfo", [7, 9, 0]));
            assert_eq!(
                origin(66, 9, code, call),
                (Origin::Requested(Mechanism::Sigqueue), true),
                "{code}"
            );
        }
        for code in [128, -2, 0, 1, 5, -6] {
            let call = Some(("rt_sigqueueinfo", [7, 9, 0]));
            assert_eq!(
                origin(7, 9, code, call),
                (Origin::Requested(Mechanism::Sigqueue), true),
                "to itself {code}"
            );
            let call = Some(("rt_tgsigqueueinfo", [7, 7, 9]));
            assert_eq!(
                origin(7, 9, code, call),
                (Origin::Requested(Mechanism::Sigqueue), true)
            );
        }
    }

    /// It may interrupt a process that is sending a signal of that number to another one.
    #[test]
    fn timers_signal_is_not_of_the_process_that_it_interrupts() {
        let sends = |call, arguments| origin(66, 15, -2, Some((call, arguments)));
        let queued = (Origin::Requested(Mechanism::Sigqueue), true);
        assert_eq!(sends("rt_sigqueueinfo", [7, 15, 0]), queued);
        assert_eq!(
            sends("rt_sigqueueinfo", [66, 15, 0]),
            (Origin::Unknown, true)
        );
        let by_file = (Origin::Requested(Mechanism::Pidfd), false);
        assert_eq!(sends("pidfd_send_signal", [3, 15, 0]), by_file);
    }

    #[test]
    fn call_for_another_signal_is_no_request() {
        let call = Some(("rt_sigqueueinfo", [7, 12, 0]));
        assert_eq!(origin(66, 9, -2, call), (Origin::Timer, true));
        let call = Some(("kill", [8, 15, 0]));
        assert_eq!(origin(66, 9, 128, call), (Origin::Kernel, true));
    }

    /// A tracer injects it; it comes from no terminal and no resource limit.
    #[test]
    fn injected_signal_is_of_unknown_origin() {
        let put_in = |number| {
            let sleeps = Some(("#230", [0; 3]));
            let mut signal = sent(7, number, 128, sleeps);
            signal.group = false;
            let origin = of(&signal);
            (origin.kind, origin.is_certain)
        };
        for number in [1, 2, 3, 10, 15, 24] {
            assert_eq!(put_in(number), (Origin::Unknown, true), "{number}");
        }
        // The kernel forces these on a thread too.
        assert_eq!(put_in(11), (Origin::Kernel, false));
        assert_eq!(put_in(9), (Origin::Kernel, false));
        assert_eq!(put_in(29).0, Origin::Descriptor);
        let mut exec = sent(7, 11, 128, Some(("#59", [0; 3])));
        exec.group = false;
        assert!(of(&exec).is_certain);
        // Ctrl-C goes to a group of processes.
        assert_eq!(
            origin(66, 2, 128, Some(("", [0; 3]))),
            (Origin::Kernel, true)
        );
    }

    #[test]
    fn cgroup_kill_needs_a_write_call() {
        let one_thread = |call: &str, arguments| {
            let mut signal = sent(66, 9, 0, Some((call, arguments)));
            signal.group = false;
            of(&signal).kind
        };
        assert_eq!(one_thread("write", [3, 0, 1]), Origin::CgroupKill);
        let kills = one_thread("ptrace", [PTRACE_KILL, 7, 0]);
        assert_eq!(kills, Origin::Requested(Mechanism::Unknown));
        assert_eq!(one_thread("ptrace", [7, 7, 0]), Origin::Unknown);
        assert_eq!(one_thread("#230", [0; 3]), Origin::Unknown);
    }

    #[test]
    fn child_exit_and_perf_event_are_no_fault() {
        let mut ends = sent(66, 9, CLD_EXITED, Some(("#231", [0; 3])));
        ends.sender.exiting = true;
        let origin = of(&ends);
        assert_eq!((origin.kind, origin.is_certain), (Origin::ChildExit, false));
        assert!(origin.is_from_kernel());
        let mut event = sent(7, SIGTRAP, TRAP_PERF, Some(("", [0; 3])));
        event.group = false;
        assert_eq!(of(&event).kind, Origin::Unknown);
    }

    #[test]
    fn arranged_signals_are_distinguished() {
        let in_none = Some(("", [0; 3]));
        assert_eq!(origin(66, 9, -2, in_none), (Origin::Timer, true));
        let posts = Some(("mq_timedsend", [3, 0, 1]));
        assert_eq!(origin(66, 9, -3, posts), (Origin::MessageQueue, true));
        let writes = Some(("write", [3, 0, 1]));
        for (number, code) in [(9, 1), (9, 6), (11, 1), (7, 5), (15, 2)] {
            assert_eq!(
                origin(66, number, code, writes),
                (Origin::Descriptor, true),
                "{number} {code}"
            );
        }
        assert_eq!(origin(7, 11, 1, writes), (Origin::Descriptor, true));
        assert_eq!(origin(7, 11, 1, in_none), (Origin::Fault, true));
        assert_eq!(
            origin(7, 31, 1, Some(("#101", [0; 3]))),
            (Origin::Seccomp, true)
        );
        assert_eq!(origin(7, 25, 0, writes), (Origin::FileLimit, true));
        assert_eq!(origin(66, 11, -5, writes), (Origin::Descriptor, true));
        assert_eq!(origin(66, 40, -4, in_none), (Origin::Unknown, true));
    }

    /// The registers of a process that killed itself still have the call for its children.
    #[test]
    fn process_that_exits_asks_for_nothing() {
        let mut dies = sent(66, 9, 0, Some(("kill", [66, 9, 0])));
        assert_eq!(of(&dies).kind, Origin::Requested(Mechanism::Kill));
        dies.sender.exiting = true;
        dies.parent_death_signal = 9;
        assert_eq!(of(&dies), certain(Origin::ParentDeath));
    }

    /// A process can poison a page of its own, but not have the kernel find it.
    #[test]
    fn memory_error_is_certain_if_the_kernel_found_it() {
        let read = Some(("", [0; 3]));
        let mut signal = sent(7, SIGBUS, BUS_MCEERR_AR, read);
        signal.group = false;
        let origin = of(&signal);
        assert_eq!((origin.kind, origin.is_certain), (Origin::Hwpoison, false));
        let mut signal = sent(66, SIGBUS, BUS_MCEERR_AO, read);
        signal.sender.kernel_thread = true;
        assert_eq!(of(&signal), certain(Origin::Hwpoison));
    }

    #[test]
    fn forgeable_code_is_uncertain_without_the_call() {
        assert_eq!(origin(66, 9, -2, None), (Origin::Timer, false));
        assert_eq!(origin(66, 9, -3, None), (Origin::MessageQueue, false));
        assert_eq!(origin(7, 9, 128, None), (Origin::Kernel, false));
        assert_eq!(origin(7, 9, 1, None), (Origin::Descriptor, false));
        assert_eq!(origin(7, 25, 0, None), (Origin::FileLimit, false));
        assert_eq!(origin(7, 31, 1, None), (Origin::Seccomp, false));
        assert_eq!(origin(66, 7, 5, None), (Origin::Hwpoison, false));
        // No process can make these for another.
        assert_eq!(origin(66, 9, 128, None), (Origin::Kernel, true));
        assert_eq!(
            origin(66, 9, 0, None),
            (Origin::Requested(Mechanism::Kill), true)
        );
        assert_eq!(
            origin(66, 9, -6, None),
            (Origin::Requested(Mechanism::Tgkill), true)
        );
    }
}
