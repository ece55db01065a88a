//! The recorder's own life: it must outlive the death that it records, and must not add to it.

use caps::{CapSet, Capability};
use rustix::{
    mm::{MlockAllFlags, mlockall},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// The user who ran sudo, to whom files belong.
pub(super) fn sudo_user() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let user = (number("SUDO_UID")?, number("SUDO_GID")?);
    rustix::process::geteuid().is_root().then_some(user)
}

/// Asks not to be chosen by the OOM killer, and for its pages to stay; both may be refused, which costs safety only.
pub(in crate::command) fn survive() {
    open_more_files();
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        tracing::info!("oom_score_adj stays as it is: {error}");
    }
    if let Err(error) = lock() {
        tracing::info!("memory is not locked: {error}");
    }
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
