//! The recorder's own life: it must outlive the death that it records, and must not add to it.

/// The user who ran sudo, to whom files belong.
pub(super) fn sudo_user() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let user = (number("SUDO_UID")?, number("SUDO_GID")?);
    rustix::process::geteuid().is_root().then_some(user)
}

/// Asks not to be chosen by the OOM killer, and for its pages to stay; both may be refused, which costs safety only.
pub(super) fn survive() {
    give_back();
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        tracing::info!("oom_score_adj stays as it is: {error}");
    }
    // MCL_ONFAULT: only what is used is locked, not whole stacks.
    let flags = rustix::mm::MlockAllFlags::CURRENT
        | rustix::mm::MlockAllFlags::FUTURE
        | rustix::mm::MlockAllFlags::ONFAULT;
    if let Err(error) = rustix::mm::mlockall(flags) {
        tracing::info!("memory is not locked: {error}");
    }
}

/// Reading the kernel's type information takes some 25 MiB for a moment, which glibc would keep.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases free memory at the top of the heaps; it takes malloc's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
