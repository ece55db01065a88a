//! Parses lines of the kernel log about kills, faults and errors of GPUs. Pure.
//!
//! It reads `/dev/kmsg`, plain `dmesg`, `dmesg -T`, journald and syslog forms.
//!
//! Mirrors `mm/oom_kill.c` (`dump_oom_victim`, `__oom_kill_process`) of Linux 4.18 to 7.2. A task's
//! name may hold commas, spaces and brackets, so fields behind it are searched from the right.

pub mod xid;

use crate::{
    event::KernelLog,
    ids::{Bytes, Pid},
};

/// Parses a line, if it is one of those that matter. Text before the message is skipped.
pub fn parse(line: &str) -> Option<KernelLog> {
    xid::parse(line)
        .or_else(|| oom_kill(line))
        .or_else(|| killed(line))
        .or_else(|| oom_group(line))
        .or_else(|| invoked(line))
        .or_else(|| fault(line))
}

/// Parses `oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,` followed
/// by `oom_memcg=/a,task_memcg=/a,task=NAME,pid=1,uid=0` (≥ 5.0).
fn oom_kill(line: &str) -> Option<KernelLog> {
    let rest = &line[line.find("oom-kill:constraint=")? + "oom-kill:constraint=".len()..];
    let (rest, uid) = rest.trim_end().rsplit_once(",uid=")?;
    let (rest, pid) = rest.rsplit_once(",pid=")?;
    let (rest, comm) = rest.split_once(",task=")?;
    let (constraint, rest) = rest.split_once(',')?;
    let oom_memcg = between(rest, ",oom_memcg=", ",task_memcg=");
    let task_memcg = rest
        .rsplit_once(",task_memcg=")
        .map(|(_, path)| path.to_owned());
    Some(KernelLog::OomKill {
        constraint: constraint.to_owned(),
        oom_memcg,
        task_memcg,
        comm: comm.to_owned(),
        pid: Pid(pid.parse().ok()?),
        uid: uid
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()?,
    })
}

fn between(text: &str, from: &str, to: &str) -> Option<String> {
    let rest = &text[text.find(from)? + from.len()..];
    Some(rest[..rest.find(to).unwrap_or(rest.len())].to_owned())
}

/// Parses `[Memory cgroup out|Out] of memory: Killed process 1 (NAME) total-vm:1kB, anon-rss:1kB,
/// file-rss:1kB, shmem-rss:1kB, UID:0 …`. Up to 4.18 these are two lines, `Memory cgroup out of
/// memory: Kill process A (NAME) score N or sacrifice child` and `Killed process B (NAME) …`: B
/// died.
fn killed(line: &str) -> Option<KernelLog> {
    let rest = &line[line.find("Killed process ")? + "Killed process ".len()..];
    let (pid, rest) = rest.split_once([' ', ','])?;
    let figures = rest
        .rfind("total-vm:")
        .or_else(|| rest.rfind("anon-rss:"))?;
    let (name, figures) = rest.split_at(figures);
    let name = name.trim().trim_end_matches(',').trim_end();
    // Linux 4.18 and before may print `Killed process 1 (NAME), UID 0, total-vm:…`.
    let name = name.rsplit_once(", UID ").map_or(name, |(name, _)| name);
    // RHEL 6 and 7 print `Killed process 1, UID 0, (NAME) total-vm:…`.
    let name = match name
        .strip_prefix("UID ")
        .and_then(|rest| rest.split_once(", ("))
    {
        Some((_, behind)) => &name[name.len() - behind.len() - 1..],
        None => name,
    };
    let comm = name
        .strip_prefix('(')
        .and_then(|name| name.strip_suffix(')'))
        .unwrap_or(name);
    Some(KernelLog::Killed {
        pid: Pid(pid.parse().ok()?),
        comm: comm.to_owned(),
        memcg: line.contains("Memory cgroup out of memory"),
        anon: kilobytes(figures, "anon-rss:")?,
        file: kilobytes(figures, "file-rss:")?,
        shmem: kilobytes(figures, "shmem-rss:"),
        score_adj: signed(figures, "oom_score_adj:"),
    })
}

fn kilobytes(text: &str, key: &str) -> Option<Bytes> {
    let rest = &text[text.find(key)? + key.len()..];
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<u64>().ok()?.checked_mul(1024).map(Bytes)
}

fn signed(text: &str, key: &str) -> Option<i32> {
    let rest = &text[text.find(key)? + key.len()..];
    rest.split(|c: char| !c.is_ascii_digit() && c != '-')
        .next()?
        .parse()
        .ok()
}

/// Parses `Tasks in /a are going to be killed due to memory.oom.group set` (≥ 4.19).
fn oom_group(line: &str) -> Option<KernelLog> {
    let end = line.find(" are going to be killed due to memory.oom.group set")?;
    let start = line[..end].rfind("Tasks in ")? + "Tasks in ".len();
    Some(KernelLog::OomGroup {
        cgroup: line[start..end].to_owned(),
    })
}

/// Parses `NAME invoked oom-killer: gfp_mask=0x…, order=0, oom_score_adj=0`.
fn invoked(line: &str) -> Option<KernelLog> {
    let (before, rest) = line.split_once(" invoked oom-killer: gfp_mask=")?;
    let comm = before
        .rsplit_once("] ")
        .or_else(|| before.rsplit_once(": "))
        .or_else(|| before.rsplit_once(';'));
    Some(KernelLog::Invoked {
        comm: comm.map_or(before, |(_, comm)| comm).to_owned(),
        gfp_mask: rest.split(", order").next().unwrap_or(rest).to_owned(),
    })
}

/// Parses `NAME[PID]: segfault at …`, `traps: NAME[PID] general protection fault …`.
fn fault(line: &str) -> Option<KernelLog> {
    let at = line
        .find("]: segfault at ")
        .or_else(|| line.find("] general protection fault"))
        .or_else(|| line.find("] trap "))?;
    let open = line[..at].rfind('[')?;
    let start = line[..open]
        .rfind(": ")
        .or_else(|| line[..open].rfind("] "))
        .map_or(0, |start| start + 2);
    let start = start.max(line[..open].rfind(';').map_or(0, |start| start + 1));
    Some(KernelLog::Fault {
        comm: line.get(start..open)?.to_owned(),
        pid: Pid(line[open + 1..at].parse().ok()?),
        text: line.get(start..)?.chars().take(200).collect(),
    })
}

/// Parses a record of `/dev/kmsg`: `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;MESSAGE`. Returns the time
/// since boot in microseconds, and the message.
///
/// A process that may write to `/dev/kmsg` can write the kernel's words. The kernel files such
/// records under another facility than its own, which is 0 (`devkmsg_write`). The facility is the
/// priority without its three lowest bits. Records with another facility are refused.
pub fn kmsg_record(record: &str) -> Option<(u64, &str)> {
    let (head, message) = record.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let microseconds = fields.nth(1)?.parse().ok()?;
    let of_kernel = priority >> 3 == 0;
    of_kernel.then(|| (microseconds, message.lines().next().unwrap_or(message)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OOM: &str = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job/w,task=ray::a, b=[1],pid=1487,uid=1000";

    #[test]
    fn commas_and_brackets_in_names_shift_no_field() {
        for prefix in [
            "",
            "[ 1234.5] ",
            "[Sat Nov 21 00:00:00 2026] ",
            "Nov 21 00:00:00 host kernel: ",
            "6,1,2,-;",
        ] {
            let Some(KernelLog::OomKill {
                constraint,
                oom_memcg,
                task_memcg,
                comm,
                pid,
                uid,
            }) = parse(&format!("{prefix}{OOM}"))
            else {
                panic!("{prefix}")
            };
            assert_eq!(constraint, "CONSTRAINT_MEMCG");
            assert_eq!(
                (oom_memcg.as_deref(), task_memcg.as_deref()),
                (Some("/job"), Some("/job/w"))
            );
            assert_eq!(
                (comm.as_str(), pid, uid),
                ("ray::a, b=[1]", Pid(1487), 1000)
            );
        }
    }

    #[test]
    fn global_kill_has_no_limiting_cgroup() {
        let line = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=python,pid=7,uid=0";
        let Some(KernelLog::OomKill {
            oom_memcg,
            task_memcg,
            ..
        }) = parse(line)
        else {
            panic!()
        };
        assert_eq!(
            (oom_memcg, task_memcg.as_deref()),
            (None, Some("/user.slice"))
        );
    }

    #[test]
    fn killed_lines_of_old_and_new_kernels_are_parsed() {
        let new = "Memory cgroup out of memory: Killed process 1487 (ray::a (x), y) total-vm:1000kB, anon-rss:64088kB, file-rss:12kB, shmem-rss:4kB, UID:0 pgtables:200kB oom_score_adj:1000";
        let Some(KernelLog::Killed {
            pid,
            comm,
            memcg,
            anon,
            shmem,
            score_adj,
            ..
        }) = parse(new)
        else {
            panic!()
        };
        assert_eq!(
            (pid, comm.as_str(), memcg),
            (Pid(1487), "ray::a (x), y", true)
        );
        assert_eq!(
            (anon, shmem, score_adj),
            (Bytes(64088 * 1024), Some(Bytes(4096)), Some(1000))
        );
        // 4.18: the first line names another process than the one that dies.
        assert_eq!(
            parse("Out of memory: Kill process 12 (python) score 900 or sacrifice child"),
            None
        );
        let old = "Killed process 13 (python) total-vm:1000kB, anon-rss:20kB, file-rss:0kB, shmem-rss:0kB";
        let Some(KernelLog::Killed {
            pid,
            memcg,
            score_adj,
            ..
        }) = parse(old)
        else {
            panic!()
        };
        assert_eq!((pid, memcg, score_adj), (Pid(13), false, None));
    }

    #[test]
    fn fault_group_and_invoker_lines_are_parsed() {
        assert_eq!(
            parse("Tasks in /a/b are going to be killed due to memory.oom.group set"),
            Some(KernelLog::OomGroup {
                cgroup: "/a/b".into()
            })
        );
        let Some(KernelLog::Fault { comm, pid, .. }) =
            parse("[ 12.3] ray::A.go[77]: segfault at 0 ip 0000 sp 0000 error 4 in libc.so")
        else {
            panic!()
        };
        assert_eq!((comm.as_str(), pid), ("ray::A.go", Pid(77)));
        let Some(KernelLog::Invoked { comm, .. }) = parse(
            "[ 1.0] ray::a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=1000",
        ) else {
            panic!()
        };
        assert_eq!(comm, "ray::a");
    }

    #[test]
    fn kmsg_record_has_time_and_first_line() {
        assert_eq!(
            kmsg_record("6,339,5140900,-;hello\n SUBSYSTEM=acpi"),
            Some((5_140_900, "hello"))
        );
        assert_eq!(kmsg_record("garbage"), None);
        // Written by a process: facility 1.
        assert_eq!(
            kmsg_record("12,339,5140900,-;Out of memory: Killed process 1"),
            None
        );
    }

    proptest! {
        #[test]
        fn any_line_is_parsed_without_panic(line in ".{0,300}", cut in 0usize..200) {
            let _ = parse(&line);
            let end = (0..=cut.min(OOM.len())).rev().find(|at| OOM.is_char_boundary(*at)).unwrap_or(0);
            let _ = parse(&OOM[..end]);
            let _ = parse(&format!("{line}{}", &OOM[end..]));
            let _ = parse(&format!("NVRM: Xid (PCI:0000:65:00{line}"));
            let _ = parse(&format!("NVRM: Xid (PCI:0000:65:00): {line}"));
            let _ = parse(&format!("NVRM: Xid (PCI:0000:65:00): 31, pid={line}"));
        }
    }
}
