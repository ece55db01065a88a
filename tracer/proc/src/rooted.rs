//! Opens folders inside another process's root, safely against planted links.
//!
//! The owner of a job owns its session folder and may plant links in it. The path to the session
//! may contain links, which are resolved inside the process's own root. At the session folder and
//! below it, no link is followed. An open folder stays readable after the container's root is gone.

use std::{
    ffi::OsStr,
    fs::File,
    io::ErrorKind,
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs,
        inotify::{self, CreateFlags, ReadFlags, WatchFlags},
        openat, openat2, statat,
    },
    io::Errno,
};

use crate::{
    bounded,
    event::Cluster,
    ids::{Bytes, Pid},
    processes,
    read_errors::ok_or_log,
    timed_read,
};

/// How many entries of one folder are read, and how many names are kept. The owner of a folder can
/// make a million files there.
const MOST_ENTRIES: usize = 262_144;
const MOST_NAMES: usize = 65_536;
/// How many parent folders are visited. A path has at most 4,096 bytes.
const MOST_ABOVE: usize = 2_048;

/// File systems whose files are generated when they are read. To read some of these files uses up
/// their content (`/proc/kmsg`, `trace_pipe`). They are proc, sysfs, tracefs, debugfs, securityfs,
/// configfs, efivarfs, pstore, bpf; `uapi/linux/magic.h`.
const MADE_WHEN_READ: [u64; 9] = [
    0x9fa0,
    0x6265_6572,
    0x7472_6163,
    0x6462_6720,
    0x7363_6673,
    0x6265_6570,
    0xde5e_81e4,
    0x6165_676c,
    0xcafe_4a11,
];

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    folder: Arc<OwnedFd>,
    /// The process whose root contains it.
    of: Pid,
    /// The user who must have the right to read a file, unless that is root.
    reader: Option<u32>,
}

/// A regular file that was opened.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file.
    pub file: File,
    /// Its length.
    pub size: u64,
    /// Its inode.
    pub inode: u64,
}

/// The names in a folder, read in parts: there may be hundreds of thousands.
pub struct Listing(std::fs::ReadDir);

/// Reports new names in a folder (inotify), without reading the others again.
#[derive(Debug)]
pub struct NewNames(OwnedFd);

/// The file that a name in a folder stands for; for a link, the link itself.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its device and inode.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// The space that it takes on its disk.
    pub bytes: Bytes,
    /// When it was last written, in seconds of the wall clock.
    pub written: i64,
}

const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the log folder of a cluster's session, as its raylet sees it. Only files that the
    /// raylet's user may read are opened: anybody can claim that a folder is a session.
    pub fn logs(cluster: &Cluster) -> Option<Self> {
        let session = Path::new(cluster.session_dir.as_deref()?);
        let session = Self::at(cluster.raylet.pid, session)?;
        session.below(Path::new("logs"))?.for_its_user()
    }

    /// Opens the folder of a file that a process has open, by the path of its descriptor, which has
    /// no links. Only files that the process's user may read are opened: a descriptor may stand for
    /// a path alone (`O_PATH`).
    pub fn of_open_file(pid: Pid, path: &Path) -> Option<Self> {
        Self::inside(pid, path.parent()?, ResolveFlags::NO_SYMLINKS)?.for_its_user()
    }

    /// Restricts the folder to what its process's user may read, if that user may reach it.
    fn for_its_user(self) -> Option<Self> {
        let user = processes::only_user(self.of)?;
        if user == ROOT {
            return Some(self);
        }
        self.run(move |folder| may_reach(folder, user).then_some(()))?;
        Some(Self {
            reader: Some(user),
            ..self
        })
    }

    /// Returns its device, its inode and its owner.
    pub fn identity(&self) -> Option<(u64, u64, u32)> {
        self.run(|folder| {
            let found = fstat(folder).ok()?;
            Some((found.st_dev, found.st_ino, found.st_uid))
        })
    }

    /// Opens a folder inside a process's root. Links on the way are resolved there.
    pub fn at(pid: Pid, path: &Path) -> Option<Self> {
        Self::inside(pid, path, ResolveFlags::empty())
    }

    /// Opens a folder of this machine, for tests and for folders that are not foreign.
    pub fn open(path: &Path) -> Option<Self> {
        let folder = openat(CWD, path, FOLDER, Mode::empty()).ok()?;
        Some(Self {
            folder: Arc::new(folder),
            of: Pid(std::process::id()),
            reader: None,
        })
    }

    fn inside(pid: Pid, path: &Path, more: ResolveFlags) -> Option<Self> {
        let relative = path.strip_prefix("/").ok()?.to_owned();
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | more;
        let folder =
            timed_read::run_optional(pid, move || resolved(&root(pid)?, &relative, resolve))?;
        Some(Self {
            folder: Arc::new(folder),
            of: pid,
            reader: None,
        })
    }

    /// Opens a folder below it. No link is followed.
    pub fn below(&self, path: &Path) -> Option<Self> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let path = path.to_owned();
        let folder = self.run(move |folder| resolved(folder, &path, resolve))?;
        Some(Self {
            folder: Arc::new(folder),
            of: self.of,
            reader: self.reader,
        })
    }

    /// Opens a regular file of this folder without following a link and without waiting.
    pub fn file(&self, name: &OsStr) -> Option<File> {
        if Path::new(name).components().count() != 1 {
            return None;
        }
        let (name, reader) = (name.to_owned(), self.reader);
        self.run(move |folder| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let path = Path::new(&name);
            let opened = ok_or_log(path, openat(folder, path, flags, Mode::empty()))?;
            let found = fstat(&opened).ok()?;
            let is_open_to = |user| found.st_uid == user || found.st_mode & OTHERS_READ != 0;
            let may_read = reader.is_none_or(is_open_to);
            may_read.then(|| regular(&opened, path)).flatten()
        })
    }

    /// Opens such a file and returns it with its size and inode.
    pub fn opened(&self, name: &OsStr) -> Option<OpenedFile> {
        let file = self.file(name)?;
        timed_read::run_optional(self.of, move || {
            let data = file.metadata().ok()?;
            Some(OpenedFile {
                file,
                size: data.len(),
                inode: data.ino(),
            })
        })
    }

    /// Reads the text of such a file, up to `most` bytes.
    pub fn text(&self, name: &str, most: u64) -> Option<String> {
        let file = self.file(name.as_ref())?;
        let bytes = timed_read::run_optional(self.of, move || bounded::read(file, most).ok())?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Describes the file that a name stands for; for a link, the link itself.
    pub fn entry(&self, name: &OsStr) -> Option<Entry> {
        let name = name.to_owned();
        self.run(move |folder| {
            let found = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let kind = FileType::from_raw_mode(found.st_mode);
            Some(Entry {
                device: found.st_dev,
                inode: found.st_ino,
                is_folder: kind.is_dir(),
                is_file: kind.is_file(),
                bytes: Bytes(u64::try_from(found.st_blocks).unwrap_or(0) * 512),
                written: found.st_mtime,
            })
        })
    }

    /// Returns the names that `wanted` accepts, among the folder's first entries.
    pub fn names(&self, wanted: impl Fn(&str) -> bool + Send + 'static) -> Vec<String> {
        let found = self.run(move |folder| {
            let entries = std::fs::read_dir(path_of(folder)).ok()?.take(MOST_ENTRIES);
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let wanted = names.filter(|name| wanted(name));
            Some(wanted.take(MOST_NAMES).collect())
        });
        found.unwrap_or_default()
    }

    /// Starts to list its names.
    pub fn list(&self) -> Option<Listing> {
        self.run(|folder| std::fs::read_dir(path_of(folder)).ok().map(Listing))
    }

    /// Returns at most `most` further names, with the rest of the listing.
    pub fn next_names(
        &self,
        mut listing: Listing,
        most: usize,
    ) -> Option<(Vec<String>, Option<Listing>)> {
        timed_read::run(self.of, move || {
            let entries: Vec<_> = listing.0.by_ref().take(most).collect();
            let left = (entries.len() == most).then_some(listing);
            let names = entries.into_iter().flatten();
            let names = names.filter_map(|entry| entry.file_name().into_string().ok());
            (names.collect(), left)
        })
    }

    /// Watches for names that appear from now on; `None` where this user has too many such watches.
    pub fn new_names(&self) -> Option<NewNames> {
        self.run(|folder| {
            let news = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            let wanted = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
            inotify::add_watch(&news, path_of(folder), wanted).ok()?;
            Some(NewNames(news))
        })
    }

    /// Returns when something in it was last made or removed.
    pub fn changed(&self) -> Option<SystemTime> {
        self.run(|folder| std::fs::metadata(path_of(folder)).ok()?.modified().ok())
    }

    /// Returns the space in its file system: free for an unprivileged user, and in all.
    pub fn space(&self) -> Option<(Bytes, Bytes)> {
        self.run(|folder| {
            let found = rustix::fs::fstatvfs(folder).ok()?;
            Some((
                Bytes(found.f_bavail * found.f_frsize),
                Bytes(found.f_blocks * found.f_frsize),
            ))
        })
    }

    /// Runs `read` with a time-out, because the folder's file system may never answer.
    fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&OwnedFd) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let folder = Arc::clone(&self.folder);
        timed_read::run_optional(self.of, move || read(&folder))
    }
}

impl NewNames {
    /// Returns the names since the last call, about `most` at most; `None` where some were lost.
    pub fn take(&self, most: usize) -> Option<Vec<String>> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let (mut names, mut are_all) = (Vec::new(), true);
        while names.len() < most || !reader.is_buffer_empty() {
            let Ok(event) = reader.next() else { break };
            are_all &= !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let name = event.file_name().and_then(|name| name.to_str().ok());
            names.extend(name.map(str::to_owned));
        }
        are_all.then_some(names)
    }
}

fn path_of(open: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

fn root(pid: Pid) -> Option<OwnedFd> {
    let root = format!("/proc/{pid}/root");
    openat(CWD, root, FOLDER - OFlags::NOFOLLOW, Mode::empty()).ok()
}

/// Opens a regular file inside a process's root, without waiting. Links are followed inside that
/// root. The caller must check whose file it is.
pub fn file(pid: Pid, path: &Path) -> Option<File> {
    let relative = path.strip_prefix("/").ok()?.to_owned();
    timed_read::run_optional(pid, move || {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match openat2(root(pid)?, &relative, flags, Mode::empty(), resolve) {
            // Where a seccomp filter refuses the call, a link in the last place is not followed
            // either.
            Err(Errno::NOSYS | Errno::PERM) => {
                let inside = Path::new("/").join(relative);
                let folder = Folder::at(pid, inside.parent()?)?;
                folder.file(inside.file_name()?)
            }
            opened => regular(&ok_or_log(&relative, opened)?, &relative),
        }
    })
}

/// Reads such a file, up to `most` bytes.
pub fn read(pid: Pid, path: &Path, most: u64) -> Option<Vec<u8>> {
    let file = file(pid, path)?;
    let path = path.to_owned();
    timed_read::run_optional(pid, move || ok_or_log(&path, bounded::read(file, most)))
}

/// Returns the device and the inode of such a file.
pub fn identity(pid: Pid, path: &Path) -> Option<(u64, u64)> {
    let file = file(pid, path)?;
    timed_read::run_optional(pid, move || {
        let data = file.metadata().ok()?;
        Some((data.dev(), data.ino()))
    })
}

const ROOT: u32 = 0;
/// Permission bits for users who neither own a file nor are in its group.
const OTHERS_READ: u32 = 0o004;
const OTHERS_SEARCH: u32 = 0o001;

/// Whether a user may reach a folder: through a folder of the user's own, or through folders that
/// are open to everybody. Group permissions are ignored.
fn may_reach(folder: &OwnedFd, user: u32) -> bool {
    let Ok(mut at) = folder.try_clone() else {
        return false;
    };
    let mut below = None;
    for _ in 0..MOST_ABOVE {
        let Ok(found) = fstat(&at) else { return false };
        if found.st_uid == user || below == Some((found.st_dev, found.st_ino)) {
            return true;
        }
        if found.st_mode & OTHERS_SEARCH == 0 {
            return false;
        }
        below = Some((found.st_dev, found.st_ino));
        let Ok(above) = openat(&at, "..", FOLDER, Mode::empty()) else {
            return false;
        };
        at = above;
    }
    false
}

/// Opens a file for reading that was opened as a path alone, if it is a regular file. Opening a
/// FIFO or a device would have side effects.
fn regular(opened: &OwnedFd, name: &Path) -> Option<File> {
    let is_file = FileType::from_raw_mode(fstat(opened).ok()?.st_mode).is_file();
    let kind = fstatfs(opened).ok()?.f_type;
    if !is_file || MADE_WHEN_READ.contains(&u64::try_from(kind).ok()?) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(CWD, path_of(opened), flags, Mode::empty());
    ok_or_log(name, opened).map(File::from)
}

/// Calls openat2(2). Where a seccomp filter refuses it, opens each step by itself and follows no
/// link at all.
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
        folder = openat(folder.as_fd(), name, FOLDER, Mode::empty())?;
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

    /// Links that are planted below the session are not followed.
    #[test]
    fn only_links_above_the_session_are_followed() {
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
            let session = Folder::at(own(), &session)?;
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

    /// A user reaches their own folders, and those that are open to everybody.
    #[test]
    fn private_folders_of_others_are_not_reached() {
        use std::os::unix::fs::{PermissionsExt as _, chown};
        if !rustix::process::getuid().is_root() {
            return;
        }
        let (user, other) = (65_534, 65_533);
        let mut folder = tempfile::Builder::new();
        folder.permissions(fs::Permissions::from_mode(0o755));
        let folder = folder.tempdir().expect("a folder");
        let open = |path: &str| {
            let found = Folder::open(&folder.path().join(path)).expect("a folder");
            let reaches = may_reach(&found.folder, user);
            let found = Folder {
                reader: Some(user),
                ..found
            };
            (reaches, found)
        };
        for (path, mode, owner) in [
            ("private/logs", 0o755, other),
            ("private", 0o700, other),
            ("open/logs", 0o755, other),
            ("own", 0o700, user),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).expect("a folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            chown(&path, Some(owner), None).expect("an owner");
        }
        assert!(!open("private/logs").0);
        assert!(open("open/logs").0 && open("own").0);
        for (name, mode, owner, may) in [
            ("secret", 0o640, other, false),
            ("public", 0o644, other, true),
            ("own", 0o600, user, true),
        ] {
            let path = folder.path().join("open/logs").join(name);
            fs::write(&path, "x").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            chown(&path, Some(owner), None).expect("an owner");
            let (_, logs) = open("open/logs");
            assert_eq!(logs.file(OsStr::new(name)).is_some(), may, "{name}");
        }
    }

    #[test]
    fn wanted_names_are_found_among_many() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..300 {
            fs::write(folder.path().join(number.to_string()), "").expect("a file");
        }
        let held = Folder::open(folder.path()).expect("a folder");
        assert_eq!(held.names(|name| name == "77"), ["77"]);
        assert_eq!(held.names(|_| true).len(), 300);
    }

    #[test]
    fn step_by_step_follows_no_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = Folder::open(folder.path()).expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("a folder");
        symlink("a", folder.path().join("link")).expect("a link");
        assert!(step_by_step(&at.folder, Path::new("a/b")).is_ok());
        assert!(step_by_step(&at.folder, Path::new("link/b")).is_err());
        assert!(step_by_step(&at.folder, Path::new("a/../a")).is_err());
    }

    /// A link to a regular file inside the root is followed.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "abc").expect("a file");
        symlink(at("file"), at("link")).expect("a link");
        for (name, to) in [
            ("zero", "/dev/zero"),
            ("kmsg", "/proc/kmsg"),
            ("own", "/proc/self/exe"),
        ] {
            symlink(to, at(name)).expect("a link");
        }
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(CWD, at("fifo"), mode).expect("a FIFO");
        let read = |name: &str| read(own(), &at(name), 2);
        assert_eq!(read("link").as_deref(), Some(b"ab".as_slice()));
        assert!(identity(own(), &at("file")).is_some());
        assert_eq!(identity(own(), &at("link")), identity(own(), &at("file")));
        for name in ["zero", "kmsg", "own", "fifo", "nothing"] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
