//! Names the system calls that can cause a signal, by number and architecture.
//!
//! Mirrors `syscall_64.tbl` and `syscall_32.tbl` of arch/x86/entry/syscalls, and
//! include/uapi/asm-generic/unistd.h (aarch64) of Linux 6.18. The numbers have never changed.

use raytrace_ebpf::records::{CALL_ARGUMENTS, CALL_UNKNOWN, NO_CALL};

use crate::event::SystemCall;

/// `__X32_SYSCALL_BIT`: a system call of x86-64 with 32-bit addresses.
const X32: i32 = 0x4000_0000;

/// A system call's name, and its numbers on x86-64, i386, 32-bit arm and aarch64; −2 means none.
struct Row(&'static str, i32, Option<i32>, Option<i32>, i32);

const ROWS: [Row; 26] = [
    Row("kill", 62, Some(37), Some(37), 129),
    Row("tkill", 200, Some(238), Some(238), 130),
    Row("tgkill", 234, Some(270), Some(268), 131),
    Row("rt_sigqueueinfo", 129, Some(178), Some(178), 138),
    Row("rt_tgsigqueueinfo", 297, Some(335), Some(363), 240),
    Row("pidfd_send_signal", 424, Some(424), Some(424), 424),
    Row("rt_sigqueueinfo", X32 | 524, None, None, -2),
    Row("rt_tgsigqueueinfo", X32 | 536, None, None, -2),
    Row("kill", X32 | 62, None, None, -2),
    Row("tkill", X32 | 200, None, None, -2),
    Row("tgkill", X32 | 234, None, None, -2),
    Row("pidfd_send_signal", X32 | 424, None, None, -2),
    Row("write", 1, Some(4), Some(4), 64),
    Row("pwrite64", 18, Some(181), Some(181), 68),
    Row("writev", 20, Some(146), Some(146), 66),
    Row("pwritev", 296, Some(334), Some(362), 70),
    Row("sendfile", 40, Some(187), Some(187), 71),
    Row("splice", 275, Some(313), Some(340), 76),
    Row("io_uring_enter", 426, Some(426), Some(426), 426),
    Row("ftruncate", 77, Some(93), Some(93), 46),
    Row("truncate", 76, Some(92), Some(92), 45),
    Row("fallocate", 285, Some(324), Some(352), 47),
    Row("mq_timedsend", 242, Some(279), Some(276), 182),
    Row("madvise", 28, Some(219), Some(220), 233),
    Row("rt_sigreturn", 15, Some(173), Some(173), 139),
    Row("ptrace", 101, Some(26), Some(26), 117),
];

/// Returns the system call as it is recorded; `None` if it is not known.
pub(super) fn read(
    number: i32,
    compat: bool,
    arguments: [u64; CALL_ARGUMENTS],
) -> Option<SystemCall> {
    if number == CALL_UNKNOWN {
        return None;
    }
    let in_none = number == NO_CALL;
    let name = if in_none {
        String::new()
    } else {
        name(number, compat)
    };
    // Pids and signals are 32 bits wide. The upper half of the register may hold anything.
    let argument = |value: u64| {
        let [a, b, c, d, ..] = value.to_le_bytes();
        i64::from(i32::from_le_bytes([a, b, c, d]))
    };
    let arguments = if in_none {
        [0; CALL_ARGUMENTS]
    } else {
        arguments.map(argument)
    };
    Some(SystemCall { name, arguments })
}

fn name(number: i32, compat: bool) -> String {
    let aarch64 = cfg!(target_arch = "aarch64");
    let is = |row: &&Row| {
        let Row(_, x86_64, i386, arm, arm64) = row;
        match (aarch64, compat) {
            (false, false) => *x86_64 == number,
            (false, true) => *i386 == Some(number),
            (true, false) => *arm64 == number,
            (true, true) => *arm == Some(number),
        }
    };
    let known = ROWS.iter().find(is).map(|row| row.0.to_owned());
    known.unwrap_or_else(|| format!("#{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_call_is_named_by_its_width() {
        let named = |number, compat| {
            let call = read(number, compat, [u64::MAX, 9, 0]).expect("a call");
            assert_eq!(call.arguments, [-1, 9, 0]);
            call.name
        };
        if cfg!(target_arch = "x86_64") {
            assert_eq!(named(62, false), "kill");
            assert_eq!(named(37, true), "kill");
            assert_eq!(named(37, false), "#37", "alarm");
            assert_eq!(named(0x4000_0000 | 524, false), "rt_sigqueueinfo");
        }
        assert_eq!(named(424, false), "pidfd_send_signal");
        assert_eq!(read(CALL_UNKNOWN, false, [0; 3]), None);
        let none = read(NO_CALL, false, [7; 3]).expect("known to be none");
        assert_eq!((none.name.as_str(), none.arguments), ("", [0; 3]));
    }
}
