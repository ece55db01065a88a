//! Words the evidence that a verdict lacks: what to look at, and which command to run.

use crate::judge::missing::Missing;

/// Reads the whole kernel log: the lines above a kill say which memory was full and who held it.
const KERNEL_LOG: &str = "sudo dmesg --time-format=iso > dmesg.txt; raytrace explain dmesg.txt";
/// Reads the kernel log and Ray's logs.
const ALL_LOGS: &str =
    "sudo dmesg --time-format=iso > dmesg.txt; raytrace explain /tmp/ray/session_latest dmesg.txt";
/// Tells how to look at another run than the one in `ALL_LOGS`.
const RESTARTED: &str = "If Ray was started again since, name the folder of that run, /tmp/ray/session_DATE; after a reboot, use sudo journalctl -k -b -1 -o short-iso-precise instead of dmesg";
/// What Ray's line for a sudden end may stand for.
const ANY_END: &str = "Ray prints this line for an OOM kill by the kernel, a kill -9, a crash, an os._exit and the end of its raylet alike";
/// How to compare times of Ray's logs with those of the kernel's.
const ZONE: &str = "Give the time zone of Ray's logs: --log-tz UTC, as in most containers, or a name such as --log-tz Asia/Shanghai";
/// What Ray's words about a pod are worth, and what would tell more.
const POD_GUESS: &str = "That the pod exceeded its memory limits is a guess that Ray adds to each such exit in Kubernetes. See how its pod ended: kubectl describe pod POD";
/// Where Ray names the process, if its raylet's log does not.
const WORKER_LOGS: &str = "Explain the worker's own logs too, from the folder logs of its session: their names have its pid, and their last lines its time";
/// Where Ray dates the end.
const RAYLET_LOG: &str =
    "Explain its raylet.out too, if it is left: it has the time, and says which process it was";
/// What a kernel log without a kill that fits tells.
const NO_KILL_FITS: &str = "The kernel log has no OOM kill that fits: if it reaches back to that time, the kernel's OOM killer did not end it";
const BEFORE: &str = "who sent the signal: it was probably sent before the recorder attached, or a tracer gave it to the process";
const NEVER_SENT: &str =
    "who sent the signal: none was seen to be sent; a tracer may have given it to the process";

/// `the killer. On the host, run: sudo dmesg --time-format=iso > dmesg.txt; …`.
pub fn missing(missing: &Missing) -> String {
    match missing {
        Missing::Sending {
            from_start,
            kernel_log,
        } => {
            let sending = if *from_start { NEVER_SENT } else { BEFORE };
            if *kernel_log {
                format!("{sending}. On the host, run: {KERNEL_LOG}")
            } else {
                sending.into()
            }
        }
        Missing::Sender => "the sender. To see it next time: sudo raytrace record".into(),
        Missing::Killer => format!(
            "the killer. On the host, run: {KERNEL_LOG}. Next time: sudo raytrace record"
        ),
        Missing::Sigterm => "whether a SIGTERM came before. To see it next time: sudo raytrace record".into(),
        Missing::SigtermInPod => format!("whether a SIGTERM came before. {POD_GUESS}"),
        Missing::NormalEnd => "whether it ended normally. Its own logs say it: a driver's output, or a worker's files in the folder logs of its session, which have its id in their names".into(),
        Missing::WorkerId => {
            "its worker id, which could not be read. Look for its pid in raylet.out and in the names of python-core-worker-*.log"
                .into()
        }
        Missing::Status => {
            "its exit status. Record on the host as root, or on Linux 6.15 or later"
                .into()
        }
        Missing::SignalOrigin => {
            "how the signal was sent: the process that was running made no system call that sends one".into()
        }
        Missing::RayletReason => {
            "the raylet's own line. Look for it: grep -n -e 'Killing' -e 'Stop:' raylet.out".into()
        }
        Missing::Scope => "whether a cgroup or the machine was full. The kernel's log says it. On the host, run: ".to_owned() + KERNEL_LOG,
        Missing::Limit => "which cgroup was at its limit. The kernel's log says it, if it was not suppressed. On the host, run: ".to_owned() + KERNEL_LOG,
        Missing::KernelReason => format!(
            "the kernel's reason: neither oom/mark_victim nor the kernel log names this pid. On the host, run: {KERNEL_LOG}"
        ),
        Missing::OomLines => format!(
            "the lines before the kill, which list the processes. On its node, run: {KERNEL_LOG}"
        ),
        Missing::RayletEnd => {
            format!("why the raylet ended. On its node, run: {ALL_LOGS}. {RESTARTED}")
        }
        Missing::SameDeath {
            kill,
            same_pid,
            zone,
            raylet_read,
        } => {
            let of = if *same_pid { " of the same pid" } else { "" };
            let next = match (zone, raylet_read) {
                (true, _) => ZONE,
                (false, false) => RAYLET_LOG,
                (false, true) => WORKER_LOGS,
            };
            format!("whether the kill{of} at {kill} is this death. {next}")
        }
        Missing::NodeLogs {
            of_any_end,
            named,
            kernel_read,
            raylet_read,
        } => {
            let which = if *named { "" } else { ", and which process it was" };
            let any_end = if *of_any_end {
                format!("{ANY_END}. ")
            } else {
                String::new()
            };
            let next = match (kernel_read, raylet_read) {
                (true, true) => format!("{NO_KILL_FITS}. To see it next time: sudo raytrace record"),
                (true, false) => format!("{NO_KILL_FITS}. Explain the raylet's logs of its node too: raytrace explain /tmp/ray/session_latest dmesg.txt"),
                (false, _) => format!("On its node, run: {ALL_LOGS}. {RESTARTED}"),
            };
            format!("who ended it{which}. {any_end}{next}")
        }
    }
}
