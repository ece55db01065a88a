//! Finds files of shared memory that processes have open or mapped.
//!
//! These are files of tmpfs, memfds, and shared mappings without a file. No file is opened. The
//! link of a descriptor is checked first: only a file whose name is in a tmpfs is asked for its
//! size, so a network file system that hangs is never accessed. The size counts all pages of a
//! file, whether or not a process has mapped them.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{MemfdFlags, fstat, makedev, memfd_create};

use crate::{
    bounded,
    ids::{Bytes, Pid},
    observe::{maps, rooted::Folder, timed_read},
};

/// The kernel's `stat` counts blocks of this size.
const BLOCK: u64 = 512;
/// How much text of a process's mappings is read. Of a longer text, only the beginning is read.
const MAPS_BYTES: u64 = 1 << 20;
/// The same for the text of its mounts.
const MOUNTS_BYTES: u64 = 1 << 20;
/// The most files of one tmpfs that are read, and the most descriptors of one process.
const MOST_ENTRIES: usize = 4_096;
/// What the kernel appends to the name of a deleted file.
const DELETED: &str = " (deleted)";

/// One file, however many processes have it open or mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Its file system's device.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
}

/// A file that was found, and the path by which its size can be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMemoryFile {
    /// The file.
    pub id: FileId,
    /// Its path as the process sees it, or `memfd:NAME`.
    pub name: String,
    /// The size of its pages.
    pub bytes: Bytes,
    /// A path through the process in /proc that leads to it.
    pub path: PathBuf,
}

/// Shared memory that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its path, or the kernel's name for it.
    pub name: String,
    /// The length of all mappings of it in the process, touched or not.
    pub length: Bytes,
}

/// The tmpfs mounts of one mount namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts {
    points: Vec<(String, u64)>,
    devices: HashSet<u64>,
}

impl Mounts {
    /// Reads the mounts that `pid` sees.
    pub fn of(pid: Pid) -> Option<Self> {
        let read = move || bounded::text_of_process(pid, "mountinfo", MOUNTS_BYTES).ok();
        let text = timed_read::run_optional(pid, read)?;
        let text = bounded::whole_lines(text, MOUNTS_BYTES);
        Some(Self::parse(&text, kernels_own()))
    }

    /// Parses lines like `36 25 0:32 / /dev/shm rw,nosuid shared:4 - tmpfs shm rw`. `own` is the
    /// device of memfds, which no table of mounts shows.
    fn parse(text: &str, own: Option<u64>) -> Self {
        let points: Vec<(String, u64)> = text.lines().filter_map(tmpfs).collect();
        let devices = points.iter().map(|(_, device)| *device).chain(own);
        Self {
            devices: devices.collect(),
            points,
        }
    }

    /// Returns the mount points, one for each device.
    pub fn points(&self) -> impl Iterator<Item = (&str, u64)> {
        let mut seen = HashSet::new();
        let points = self.points.iter();
        points
            .filter(move |(_, device)| seen.insert(*device))
            .map(|(point, device)| (point.as_str(), *device))
    }

    /// Whether a file of this name may be in one of them, or is a memfd.
    fn may_hold(&self, name: &str) -> bool {
        let below = |point: &str| {
            let rest = name.strip_prefix(point.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        name.starts_with("/memfd:") || self.points.iter().any(|(point, _)| below(point))
    }
}

fn tmpfs(line: &str) -> Option<(String, u64)> {
    let (mount, kind) = line.split_once(" - ")?;
    if kind.split(' ').next()? != "tmpfs" {
        return None;
    }
    let mut fields = mount.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    Some((fields.nth(1)?.to_owned(), device))
}

/// Returns the device of the kernel's own tmpfs, which has memfds and shared anonymous mappings. An
/// empty memfd of this process shows it.
fn kernels_own() -> Option<u64> {
    let make = |flags| memfd_create("raytrace", MemfdFlags::CLOEXEC | flags);
    // Kernels before 6.3 do not know the flag; later ones log its absence.
    let file = make(MemfdFlags::NOEXEC_SEAL).or_else(|_| make(MemfdFlags::empty()));
    Some(fstat(file.ok()?).ok()?.st_dev)
}

/// Returns the files of shared memory that `pid` has open.
pub fn open(pid: Pid, mounts: &Arc<Mounts>) -> Vec<SharedMemoryFile> {
    let mounts = Arc::clone(mounts);
    // A path below a tmpfs may be on another mount whose file system never answers.
    timed_read::run(pid, move || opened(pid, &mounts)).unwrap_or_default()
}

fn opened(pid: Pid, mounts: &Mounts) -> Vec<SharedMemoryFile> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .take(MOST_ENTRIES)
        .filter_map(|entry| {
            let path = entry.path();
            let link = fs::read_link(&path).ok()?;
            let name = link.to_string_lossy();
            if !mounts.may_hold(&name) {
                return None;
            }
            found(&path, plain(&name), &mounts.devices)
        })
        .collect()
}

/// Returns the size of the file at `path`, which leads through process `pid`, if it is still the
/// same file.
pub fn size(pid: Pid, path: &Path, id: FileId) -> Option<Bytes> {
    let path = path.to_owned();
    let data = timed_read::run_optional(pid, move || fs::metadata(path).ok())?;
    let same = (data.dev(), data.ino()) == (id.device, id.inode);
    same.then(|| Bytes(data.blocks() * BLOCK))
}

fn found(path: &Path, name: &str, devices: &HashSet<u64>) -> Option<SharedMemoryFile> {
    let data = fs::metadata(path).ok()?;
    (data.is_file() && devices.contains(&data.dev())).then(|| SharedMemoryFile {
        id: FileId {
            device: data.dev(),
            inode: data.ino(),
        },
        name: name.to_owned(),
        bytes: Bytes(data.blocks() * BLOCK),
        path: path.to_owned(),
    })
}

/// `/memfd:weights (deleted)` is `memfd:weights`.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix(DELETED).unwrap_or(name);
    match name.strip_prefix('/') {
        Some(memfd) if memfd.starts_with("memfd:") => memfd,
        _ => name,
    }
}

/// Returns the shared memory that `pid` has mapped.
pub fn mapped(pid: Pid, mounts: &Mounts) -> BTreeMap<FileId, Mapping> {
    let text = maps::read(pid, MAPS_BYTES).unwrap_or_default();
    mappings(&text, &mounts.devices)
}

/// Parses lines like `7f00-7f10 rw-s 00000000 00:01 1024 /memfd:weights (deleted)`.
fn mappings(text: &str, devices: &HashSet<u64>) -> BTreeMap<FileId, Mapping> {
    let mut all: BTreeMap<FileId, Mapping> = BTreeMap::new();
    for map in maps::parse(text) {
        if map.inode != 0 && devices.contains(&map.device) {
            let id = FileId {
                device: map.device,
                inode: map.inode,
            };
            let known = all.entry(id).or_insert_with(|| Mapping {
                name: plain(map.name).to_owned(),
                length: Bytes(0),
            });
            known.length.0 += map.end - map.start;
        }
    }
    all
}

/// Returns the files of at least `smallest` bytes in the tmpfs that `pid` sees at `point`, whether
/// or not a process has them open.
pub fn files_in(pid: Pid, point: &str, device: u64, smallest: u64) -> Vec<SharedMemoryFile> {
    let point = point.to_owned();
    timed_read::run(pid, move || walk(pid, &point, device, smallest)).unwrap_or_default()
}

fn walk(pid: Pid, point: &str, device: u64, smallest: u64) -> Vec<SharedMemoryFile> {
    let point = Path::new(point);
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let first = Folder::at(pid, point).map(|folder| (folder, point.to_owned()));
    let (mut folders, mut files, mut left) = (Vec::from_iter(first), Vec::new(), MOST_ENTRIES);
    while let Some((folder, path)) = folders.pop() {
        for name in folder.names(|_| true).into_iter().take(left) {
            left -= 1;
            let Some(entry) = folder.entry(name.as_ref()) else {
                continue;
            };
            // Another mount may cover it.
            if entry.device != device {
                continue;
            }
            let path = path.join(&name);
            if entry.is_folder {
                let below = folder.below(Path::new(&name));
                folders.extend(below.map(|folder| (folder, path)));
            } else if entry.is_file && entry.bytes.0 >= smallest {
                files.push(SharedMemoryFile {
                    id: FileId {
                        device,
                        inode: entry.inode,
                    },
                    name: path.to_string_lossy().into_owned(),
                    bytes: entry.bytes,
                    path: root.join(path.strip_prefix("/").unwrap_or(&path)),
                });
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn only_tmpfs_and_memfds_are_read() {
        let text = "22 27 0:20 / /proc rw - proc proc rw\n36 25 0:32 / /dev/shm rw,nosuid shared:4 - tmpfs shm rw\n\
            40 25 0:33 / /dev/shm rw - tmpfs shm rw\n41 25 8:1 / /mnt rw - ext4 /dev/sda1 rw\n";
        let mounts = Mounts::parse(text, Some(1));
        let points: Vec<_> = mounts.points().collect();
        assert_eq!(
            points,
            [("/dev/shm", makedev(0, 32)), ("/dev/shm", makedev(0, 33))]
        );
        assert!(mounts.may_hold("/dev/shm/x (deleted)") && mounts.may_hold("/memfd:x (deleted)"));
        assert!(!mounts.may_hold("/dev/shmx/y") && !mounts.may_hold("/mnt/x"));
        assert_eq!(plain("/memfd:a b (deleted)"), "memfd:a b");
        assert_eq!(plain("/dev/shm/plasma1 (deleted)"), "/dev/shm/plasma1");
    }

    #[test]
    fn mappings_of_one_file_are_added() {
        let text = "1000-3000 rw-s 00000000 00:01 7                 /memfd:a b (deleted)\n\
            5000-6000 r--s 00002000 00:01 7                 /memfd:a b (deleted)\n\
            7000-8000 r-xp 00000000 fe:01 9                 /usr/lib/x.so\n8000-9000 rw-p 00000000 00:00 0 \n";
        let found = mappings(text, &HashSet::from([makedev(0, 1)]));
        let id = FileId {
            device: makedev(0, 1),
            inode: 7,
        };
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[&id].name.as_str(), found[&id].length),
            ("memfd:a b", Bytes(0x3000))
        );
    }

    #[test]
    fn unmapped_memfd_is_found_with_its_size() {
        let own = Pid(std::process::id());
        let file = memfd_create("raytrace test", MemfdFlags::CLOEXEC).expect("a memfd");
        let mut file = fs::File::from(file);
        file.write_all(&vec![1; 3 * MIB]).expect("room");
        let mounts = Arc::new(Mounts::of(own).expect("mounts"));
        let all = open(own, &mounts);
        let found = all.iter().find(|file| file.name == "memfd:raytrace test");
        let found = found.unwrap_or_else(|| panic!("{all:?}"));
        assert_eq!(found.bytes, Bytes(3 << 20));
        assert_eq!(size(own, &found.path, found.id), Some(found.bytes));
        assert!(!mapped(own, &mounts).contains_key(&found.id));
    }

    #[test]
    fn file_that_is_not_open_is_found() {
        let own = Pid(std::process::id());
        let mounts = Mounts::of(own).expect("mounts");
        // One mount may cover another.
        let seen = |device: &u64| fs::metadata("/dev/shm").is_ok_and(|data| data.dev() == *device);
        let here = mounts.points().filter(|(point, _)| *point == "/dev/shm");
        let Some(device) = here.map(|(_, device)| device).find(seen) else {
            crate::skips::skipped("/dev/shm is no tmpfs here");
            return;
        };
        let path = format!("/dev/shm/raytrace-test-{own}");
        fs::write(&path, vec![1; 2 * MIB]).expect("room");
        let found = files_in(own, "/dev/shm", device, MIB as u64);
        fs::remove_file(&path).expect("remove");
        let found = found.iter().find(|file| file.name == path);
        assert_eq!(found.map(|file| file.bytes), Some(Bytes(2 << 20)));
    }
}
