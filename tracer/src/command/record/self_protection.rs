//! Protects the recorder: it must outlive the death that it records, and must not contribute to it.

use caps::{CapSet, Capability};
use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{ids::Pid, observe::cgroups::Hierarchy};

/// Returns the user and group that ran sudo, who will own the files.
pub(super) fn sudo_user() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let user = (number("SUDO_UID")?, number("SUDO_GID")?);
    rustix::process::geteuid().is_root().then_some(user)
}

/// Asks the kernel not to choose this process as an OOM victim, and not to reclaim its pages.
/// Either may be refused, which only makes the recorder less safe.
pub(in crate::command) fn protect() {
    open_more_files();
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", score()) {
        tracing::info!("oom_score_adj stays as it is: {error}");
    }
    if let Err(error) = lock() {
        tracing::info!("memory is not locked: {error}");
    }
}

/// Returns the OOM score adjustment: never to be chosen.
///
/// If this process is alone in a cgroup with a limit, it is the last to be chosen instead.
/// Otherwise an allocation there would wait forever, because no process could be killed.
fn score() -> &'static str {
    let alone = Hierarchy::find().is_some_and(|hierarchy| {
        let pid = Pid(std::process::id());
        let own = hierarchy.levels(pid).into_iter().next();
        own.is_some_and(|own| own.limit.is_some() && hierarchy.members(&own.path) == [pid])
    });
    if alone { "-999" } else { "-1000" }
}

/// Raises the limit of open files to the hard limit, because each watched process needs several
/// descriptors.
fn open_more_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::info!("the limit of open files stays as it is: {error}");
    }
}

/// Locks all memory that is in use now or later. If a limit applies to this process, nothing is
/// locked, because an allocation beyond the limit would fail.
fn lock() -> rustix::io::Result<()> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let beyond_limits =
        caps::has_cap(None, CapSet::Effective, Capability::CAP_IPC_LOCK).unwrap_or_default();
    let limited = setrlimit(Resource::Memlock, unlimited);
    if !beyond_limits {
        limited?;
    }
    // With MCL_ONFAULT, only the used part of a stack is locked.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}
