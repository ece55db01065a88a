//! Folders inside another process's root, reached so that nobody who may write there can lead the reader elsewhere.
//!
//! Whoever runs a job owns its session folder and may plant links in it. The way to the session may have links, which are
//! resolved inside the process's own root; at and below it none is followed. A folder that is held stays readable when the
//! container's root is gone.

use std::{
    ffi::OsStr,
    fs::File,
    io::ErrorKind,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, statat},
    io::Errno,
};

use crate::{event::Cluster, ids::Pid};

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// The log folder of a cluster's session, as its raylet sees it.
    #[must_use]
    pub fn logs(cluster: &Cluster) -> Option<Self> {
        let session = Path::new(cluster.session_dir.as_deref()?);
        let session = Self::inside(cluster.raylet.pid, session, ResolveFlags::empty())?;
        session.below(Path::new("logs"))
    }

    /// The folder of a file that a process has open, by the path of its descriptor, which has no links.
    #[must_use]
    pub fn of_open_file(pid: Pid, path: &Path) -> Option<Self> {
        Self::inside(pid, path.parent()?, ResolveFlags::NO_SYMLINKS)
    }

    /// A folder of this machine, for tests and for what is not foreign.
    #[must_use]
    pub fn open(path: &Path) -> Option<Self> {
        Some(Self(openat(CWD, path, FOLDER, Mode::empty()).ok()?))
    }

    fn inside(pid: Pid, path: &Path, more: ResolveFlags) -> Option<Self> {
        let relative = path.strip_prefix("/").ok()?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | more;
        resolved(&root(pid)?, relative, resolve).map(Self)
    }

    fn below(&self, path: &Path) -> Option<Self> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        resolved(&self.0, path, resolve).map(Self)
    }

    /// Opens a regular file of this folder without following a link and without waiting.
    #[must_use]
    pub fn file(&self, name: &OsStr) -> Option<File> {
        if Path::new(name).components().count() != 1 {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::empty()).ok()?);
        file.metadata().ok()?.is_file().then_some(file)
    }

    /// The inode that a name stands for, a link's own where it is one.
    #[must_use]
    pub fn inode(&self, name: &OsStr) -> Option<u64> {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(found.st_ino)
    }

    /// The names in it.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let entries = std::fs::read_dir(self.path()).into_iter().flatten();
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
    }

    /// When something in it was made or removed.
    #[must_use]
    pub fn changed(&self) -> Option<SystemTime> {
        std::fs::metadata(self.path()).ok()?.modified().ok()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

fn root(pid: Pid) -> Option<OwnedFd> {
    let root = format!("/proc/{pid}/root");
    openat(CWD, root, FOLDER - OFlags::NOFOLLOW, Mode::empty()).ok()
}

/// Opens a regular file inside a process's root, without waiting. Links are followed, inside that root: whose the file is that they lead
/// to is for the caller to look at.
#[must_use]
pub fn file(pid: Pid, path: &Path) -> Option<File> {
    let relative = path.strip_prefix("/").ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = match openat2(root(pid)?, relative, flags, Mode::empty(), resolve) {
        // Where a container's filter refuses it, a last link is not followed either.
        Err(Errno::NOSYS | Errno::PERM) => {
            let folder = Folder::inside(pid, path.parent()?, ResolveFlags::empty())?;
            return folder.file(path.file_name()?);
        }
        opened => File::from(opened.ok()?),
    };
    opened.metadata().ok()?.is_file().then_some(opened)
}

/// openat2(2); where a container's filter refuses it, each step is opened by itself, and no link is followed at all.
fn resolved(at: &OwnedFd, path: &Path, resolve: ResolveFlags) -> Option<OwnedFd> {
    let flags = FOLDER - OFlags::NOFOLLOW;
    match openat2(at, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(at, path).ok(),
        result => result.ok(),
    }
}

fn step_by_step(at: &OwnedFd, path: &Path) -> std::io::Result<OwnedFd> {
    let mut folder = at.try_clone()?;
    for step in path.components() {
        let std::path::Component::Normal(name) = step else {
            return Err(ErrorKind::InvalidInput.into());
        };
        folder = openat(&folder, name, FOLDER, Mode::empty())?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn own() -> Pid {
        Pid(std::process::id())
    }

    #[test]
    fn links_on_the_way_to_a_session_are_followed_and_planted_ones_below_it_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for name in ["session/logs", "secret/logs", "planted"] {
            fs::create_dir_all(at.join(name)).expect("a folder");
        }
        fs::write(at.join("secret/logs/raylet.out"), "secret").expect("a file");
        fs::write(at.join("session/logs/raylet.out"), "log").expect("a file");
        symlink(at.join("session"), at.join("latest")).expect("a link");
        symlink(at.join("secret/logs"), at.join("planted/logs")).expect("a link");
        let logs = |session: &str| {
            let session = at.join(session);
            let session = Folder::inside(own(), &session, ResolveFlags::empty())?;
            session.below(Path::new("logs"))
        };
        let through_link = logs("latest").expect("a link of the way");
        assert!(through_link.file(OsStr::new("raylet.out")).is_some());
        assert!(logs("planted").is_none());
        let session = logs("session").expect("a session");
        for name in ["worker-a.out", "pipe"] {
            symlink(
                at.join("secret/logs/raylet.out"),
                at.join("session/logs").join(name),
            )
            .expect("a link");
            assert!(session.file(OsStr::new(name)).is_none());
        }
        assert!(
            session
                .file(OsStr::new("../../secret/logs/raylet.out"))
                .is_none()
        );
        let planted = at.join("planted/logs/raylet.out");
        assert!(Folder::of_open_file(own(), &planted).is_none());
    }

    #[test]
    fn step_by_step_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = Folder::open(folder.path()).expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("a folder");
        symlink("a", folder.path().join("link")).expect("a link");
        assert!(step_by_step(&at.0, Path::new("a/b")).is_ok());
        assert!(step_by_step(&at.0, Path::new("link/b")).is_err());
        assert!(step_by_step(&at.0, Path::new("a/../a")).is_err());
    }
}
