//! The recorder's own life: it must outlive the death that it records, and must not add to it.

use caps::{CapSet, Capability};
use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{ids::Pid, observe::cgroups::Hierarchy};

/// The user who ran sudo, to whom files belong.
pub(super) fn sudo_user() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let user = (number("SUDO_UID")?, number("SUDO_GID")?);
    rustix::process::geteuid().is_root().then_some(user)
}

/// Asks not to be chosen by the OOM killer, and for its pages to stay; both may be refused, which costs safety only.
pub(in crate::command) fn survive() {
    open_more_files();
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", score()) {
        tracing::info!("oom_score_adj stays as it is: {error}");
    }
    if let Err(error) = lock() {
        tracing::info!("memory is not locked: {error}");
    }
}

/// Never to be chosen; as the last one where this is the only process of a cgroup with a limit: an allocation there would wait for
/// ever, with nobody to kill.
fn score() -> &'static str {
    let alone = Hierarchy::find().is_some_and(|hierarchy| {
        let pid = Pid(std::process::id());
        let own = hierarchy.levels(pid).into_iter().next();
        own.is_some_and(|own| own.limit.is_some() && hierarchy.members(&own.path) == [pid])
    });
    if alone { "-999" } else { "-1000" }
}

/// Each process that is watched costs some descriptors: up to the hard limit is taken.
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

/// Locks what is used, now and later. Where a limit holds for this process nothing is locked: a later allocation beyond it would fail.
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
    // MCL_ONFAULT: not whole stacks.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}
