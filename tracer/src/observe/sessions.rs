//! Session folders and file systems: how big, how full, which sessions have ended.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    event::Cluster,
    ids::{Bytes, Pid},
};

/// A walk over old sessions ends after this time: the size is then a lower bound.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file system: free for an unprivileged user, and all.
#[must_use]
pub fn space(path: &Path) -> Option<(Bytes, Bytes)> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some((
        Bytes(found.f_bavail * found.f_frsize),
        Bytes(found.f_blocks * found.f_frsize),
    ))
}

/// A path as a process sees it.
#[must_use]
pub fn seen_by(pid: Pid, path: &str) -> PathBuf {
    Path::new(&format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
}

/// Pages of the object store that were ever touched: its file is unlinked, but the raylet holds it open.
#[must_use]
pub fn plasma_used(raylet: Pid) -> Option<Bytes> {
    let entries = std::fs::read_dir(format!("/proc/{raylet}/fd")).ok()?;
    let stores = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let target = std::fs::read_link(path).unwrap_or_default();
        let name = target.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("plasma") && name.ends_with("(deleted)"))
    });
    let mut bytes: Vec<(u64, u64)> = stores
        .filter_map(|path| path.metadata().ok())
        .map(|data| (data.ino(), data.blocks() * 512))
        .collect();
    bytes.sort_unstable();
    bytes.dedup();
    (!bytes.is_empty()).then(|| Bytes(bytes.iter().map(|(_, bytes)| bytes).sum()))
}

/// Sessions beside those of `clusters` in the folder of the first, that nobody runs any more: count and size.
#[must_use]
pub fn old(clusters: &[&Cluster]) -> Option<(PathBuf, u32, Bytes)> {
    let live: Vec<PathBuf> = clusters
        .iter()
        .filter_map(|cluster| {
            let folder = cluster.session_dir.as_deref()?;
            Some(seen_by(cluster.raylet.pid, folder))
        })
        .collect();
    let folder = match live.first() {
        Some(session) => session.parent()?.to_owned(),
        None => PathBuf::from("/tmp/ray"),
    };
    let names: Vec<_> = live.iter().filter_map(|path| path.file_name()).collect();
    let until = Instant::now() + PATIENCE;
    let entries = std::fs::read_dir(&folder).ok()?.flatten();
    let old: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let session = name
                .to_str()
                .is_some_and(|name| name.starts_with("session_2"));
            session && !names.contains(&name.as_os_str())
        })
        .map(|entry| entry.path())
        .collect();
    let bytes = old.iter().map(|path| size(path, until)).sum();
    let count = u32::try_from(old.len()).unwrap_or(u32::MAX);
    (count > 0).then_some((folder, count, Bytes(bytes)))
}

fn size(folder: &Path, until: Instant) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += data.blocks() * 512;
            }
        }
        if Instant::now() > until {
            break;
        }
    }
    bytes
}
