//! Measures session folders and file systems: their size, what is free, which sessions have ended.

use std::{
    ffi::OsStr,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    event::Cluster,
    ids::{Bytes, Pid},
    observe::rooted::Folder,
};

/// A walk over old sessions ends after this time. The size is then a lower bound.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the bytes of a file system: those free for an unprivileged user, and all.
pub fn space(path: &Path) -> Option<(Bytes, Bytes)> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some((
        Bytes(found.f_bavail * found.f_frsize),
        Bytes(found.f_blocks * found.f_frsize),
    ))
}

/// Returns the same for a folder as a process sees it.
pub fn space_seen_by(pid: Pid, path: &str) -> Option<(Bytes, Bytes)> {
    Folder::at(pid, Path::new(path))?.space()
}

/// Returns the bytes of the object store's pages that were ever touched. Its file is unlinked, but
/// the raylet keeps it open.
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

/// Finds sessions that no process runs any more, in the folder of the first of `clusters`. Returns
/// that folder by its name there, the number of such sessions, and their size.
pub fn old(clusters: &[&Cluster]) -> Option<(PathBuf, u32, Bytes)> {
    let sessions = clusters
        .iter()
        .filter_map(|cluster| cluster.session_dir.as_deref());
    let live: Vec<&Path> = sessions.map(Path::new).collect();
    let own = Pid(std::process::id());
    let pid = clusters.first().map_or(own, |cluster| cluster.raylet.pid);
    let path = match live.first() {
        Some(session) => session.parent()?,
        None => Path::new("/tmp/ray"),
    };
    let folder = Folder::at(pid, path)?;
    let names: Vec<_> = live.iter().filter_map(|path| path.file_name()).collect();
    let until = Instant::now() + PATIENCE;
    let sessions = folder.names(|name| name.starts_with("session_2"));
    let is_old = |name: &String| !names.contains(&OsStr::new(name));
    let old: Vec<String> = sessions.into_iter().filter(is_old).collect();
    let opened = old.iter().filter_map(|name| folder.below(Path::new(name)));
    let bytes = opened.map(|session| size(session, until)).sum();
    let count = u32::try_from(old.len()).unwrap_or(u32::MAX);
    (count > 0).then(|| (path.to_owned(), count, Bytes(bytes)))
}

fn size(folder: Folder, until: Instant) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for name in folder.names(|_| true) {
            let Some(entry) = folder.entry(name.as_ref()) else {
                continue;
            };
            if entry.is_folder {
                folders.extend(folder.below(Path::new(&name)));
            } else {
                bytes += entry.bytes.0;
            }
        }
        if Instant::now() > until {
            break;
        }
    }
    bytes
}
