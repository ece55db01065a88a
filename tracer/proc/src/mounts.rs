//! Finds where the cgroup hierarchy that counts memory is mounted.

use std::path::PathBuf;

use procfs::{
    FromBufRead as _,
    process::{MountInfo, MountInfos},
};

use crate::bounded;

/// The bound for this process's own mounts. There are at most 100,000, and seldom more than a few
/// hundred.
const MOUNTS_BYTES: u64 = 32 << 20;
pub(super) const OWN_MOUNTS: &str = "/proc/self/mountinfo";

/// The file names of one cgroup version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    pub(super) v2: bool,
    pub(super) limit: &'static str,
    pub(super) usage: &'static str,
    pub(super) kills: &'static str,
}

pub(super) const V1: Files = Files {
    v2: false,
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    kills: "memory.oom_control",
};
pub(super) const V2: Files = Files {
    v2: true,
    limit: "memory.max",
    usage: "memory.current",
    kills: "memory.events",
};

/// Finds the mount of the hierarchy that counts memory, among the mounts that `wanted` accepts.
pub(super) fn mounted(
    mounts: &str,
    wanted: impl Fn(&MountInfo) -> bool,
) -> Option<(MountInfo, Files)> {
    let text = bounded::file(mounts, MOUNTS_BYTES).ok()?;
    let mounts = MountInfos::from_buf_read(text.as_slice()).ok()?;
    let mut mounts: Vec<MountInfo> = mounts.0;
    mounts.retain(wanted);
    let v1 = mounts
        .iter()
        .find(|mount| mount.fs_type == "cgroup" && mount.super_options.contains_key("memory"));
    let v2 = || mounts.iter().find(|mount| mount.fs_type == "cgroup2");
    let v1 = v1.map(|mount| (mount.clone(), V1));
    v1.or_else(|| v2().map(|mount| (mount.clone(), V2)))
}

/// Whether a mount shows the hierarchy from above the root of this cgroup namespace.
pub(super) fn is_from_above(mount: &MountInfo) -> bool {
    mount.root.starts_with("/..")
}

/// Returns where the machine's hierarchy is mounted inside a cgroup namespace.
pub(super) fn mount_from_above() -> Option<PathBuf> {
    mounted(OWN_MOUNTS, is_from_above).map(|(mount, _)| mount.mount_point)
}
