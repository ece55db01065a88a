//! Reads memory cgroups of version 1 and 2.
//!
//! It reads the levels on a process's path, and the cgroup that a process finds at
//! `/sys/fs/cgroup`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use procfs::process::MountInfo;

use crate::{
    bounded, cgroup_namespace,
    event::CgroupState,
    ids::{Bytes, Pid},
    memory,
    mounts::{Files, OWN_MOUNTS, V1, V2, is_from_above, mounted},
    processes,
    ray::memory_monitor::{RootCgroup, file_pages},
    rooted::Folder,
};

/// Version 1 writes "no limit" as a number near the largest of 63 bits.
const NO_LIMIT: u64 = 1 << 60;

/// The hierarchy that counts memory, as this process sees it.
#[derive(Debug, Clone)]
pub struct Hierarchy {
    mount: PathBuf,
    /// The path in the hierarchy that is mounted there: not `/` inside a container without a cgroup
    /// namespace.
    root: String,
    files: Files,
}

impl Hierarchy {
    /// Finds the hierarchy in this process's mounts. If they show only a part of it, looks in those
    /// of the machine's init. Version 1 wins where both versions count memory, as it does for Ray
    /// and for /proc.
    pub fn find() -> Option<Self> {
        if cgroup_namespace::is_known() {
            let (mount, files) = mounted(OWN_MOUNTS, is_from_above)?;
            return Some(Self {
                mount: mount.mount_point,
                root: "/".into(),
                files,
            });
        }
        let own = mounted(OWN_MOUNTS, |_| true)?;
        let is_whole = |mount: &MountInfo| mount.root == "/";
        let of_same_kind = |mount: &MountInfo| is_whole(mount) && mount.fs_type == own.0.fs_type;
        let of_init = || {
            let sees_all = cgroup_namespace::is_among_all_processes();
            let found = mounted("/proc/1/mountinfo", is_whole).filter(|_| sees_all)?;
            Some((found, "proc/1/root"))
        };
        let whole = mounted(OWN_MOUNTS, of_same_kind).map(|found| (found, ""));
        let ((mount, files), below) = whole.or_else(of_init).unwrap_or((own, ""));
        let point = mount.mount_point.strip_prefix("/").ok()?;
        Some(Self {
            mount: Path::new("/")
                .join(below.trim_start_matches('/'))
                .join(point),
            root: mount.root,
            files,
        })
    }

    /// Whether the whole hierarchy is visible.
    pub fn is_whole(&self) -> bool {
        self.root == "/"
    }

    /// Returns the levels on the path of a process, its own cgroup first.
    pub fn levels(&self, pid: Pid) -> Vec<CgroupState> {
        processes::cgroup(pid).map_or_else(Vec::new, |path| self.on_path(&path))
    }

    /// Returns the levels on a path, the innermost first.
    pub fn on_path(&self, path: &str) -> Vec<CgroupState> {
        let levels = ancestors(path);
        levels.filter_map(|level| self.level(level)).collect()
    }

    /// Returns the levels of these paths, and of the levels above them those that have a limit,
    /// each once. For a level above without a limit, only its limit is read.
    pub fn levels_with_limits<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Vec<CgroupState> {
        let mut levels: BTreeMap<&Path, Option<CgroupState>> = BTreeMap::new();
        for path in paths {
            for level in ancestors(path) {
                let is_own = level == Path::new(path);
                let is_known = levels.get(level);
                if is_known.is_none_or(|known| is_own && known.is_none()) {
                    let read = (is_own || self.has_limit(level)).then(|| self.level(level));
                    levels.insert(level, read.flatten());
                }
            }
        }
        levels.into_values().flatten().collect()
    }

    fn has_limit(&self, path: &Path) -> bool {
        let file = self.folder(&path.to_string_lossy()).join(self.files.limit);
        bounded::text(file, bounded::SMALL).is_ok_and(|text| limit(&text).is_some())
    }

    /// Returns the version of its cgroups.
    pub fn version(&self) -> u8 {
        1 + u8::from(self.files.v2)
    }

    /// Returns the folder of a cgroup path. It is below the mount even where only a part of the
    /// hierarchy is mounted.
    pub fn folder(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        self.mount.join(below.strip_prefix("/").unwrap_or(below))
    }

    /// Returns the processes that are directly in a cgroup.
    pub fn members(&self, path: &str) -> Vec<Pid> {
        let file = self.folder(path).join("cgroup.procs");
        let members = bounded::text(file, bounded::LARGE);
        let members = members.unwrap_or_default();
        members
            .lines()
            .filter_map(|line| line.parse().ok().map(Pid))
            .collect()
    }

    fn level(&self, path: &Path) -> Option<CgroupState> {
        // Levels above the mounted part cannot be read.
        if self.root != "/" && !path.starts_with(&self.root) {
            return None;
        }
        let path = path.to_string_lossy();
        read(&self.folder(&path), &path, self.files)
    }
}

/// Returns the levels on a path, the innermost first; none where the path cannot be seen from here.
fn ancestors(path: &str) -> impl Iterator<Item = &Path> {
    let seen = Some(Path::new(path)).filter(|_| !cgroup_namespace::leads_out(path));
    seen.into_iter().flat_map(Path::ancestors)
}

/// Returns why the limits of processes cannot be read here although the processes are visible.
pub fn why_partial() -> Option<String> {
    let is_whole = || Hierarchy::find().is_none_or(|found| found.is_whole());
    let sees =
        cgroup_namespace::is_known() || (cgroup_namespace::is_in_machine_namespace() && is_whole());
    (cgroup_namespace::is_among_all_processes() && !sees).then(|| {
        "limits are not known: the recorder is in a cgroup namespace of its own, from which the cgroups of others cannot be read; \
         docker run --cgroupns=host …, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE"
            .to_owned()
    })
}

fn read(folder: &Path, path: &str, files: Files) -> Option<CgroupState> {
    let text = |name: &str| bounded::text(folder.join(name), bounded::SMALL).ok();
    let number = |name: &str| text(name)?.trim().parse().ok().map(Bytes);
    let stat = text("memory.stat");
    let of = |names: [&str; 2]| {
        let name = names[usize::from(files.v2)];
        stat.as_deref().and_then(|stat| figure(stat, name))
    };
    let file = stat.as_deref().map(|stat| file_pages(stat, files.v2));
    let pressure = text("memory.pressure");
    Some(CgroupState {
        path: path.to_owned(),
        usage: number(files.usage)?,
        limit: text(files.limit).as_deref().and_then(limit),
        oom_kills: text(files.kills).as_deref().and_then(kills),
        anon: of(["total_rss", "anon"]),
        file,
        shmem: of(["total_shmem", "shmem"]),
        kernel: kernel(
            stat.as_deref(),
            number("memory.kmem.usage_in_bytes"),
            files.v2,
        ),
        swap: if files.v2 {
            number("memory.swap.current")
        } else {
            of(["total_swap", ""])
        },
        stalled_us: pressure.as_deref().and_then(memory::stalled),
    })
}

/// Returns the kernel memory. Version 2 has a figure for it since Linux 5.18; before that, its
/// parts are added. Version 1 has a file.
fn kernel(stat: Option<&str>, v1: Option<Bytes>, v2: bool) -> Option<Bytes> {
    if !v2 {
        return v1;
    }
    let part = |name| figure(stat?, name);
    let parts = ["slab", "kernel_stack", "pagetables", "percpu", "sock"].map(part);
    let sum = || parts.iter().flatten().map(|part| part.0).sum();
    part("kernel").or_else(|| parts[0].map(|_| Bytes(sum())))
}

/// Returns the value of one line of `memory.stat`.
fn figure(stat: &str, name: &str) -> Option<Bytes> {
    let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    value.trim().parse().ok().map(Bytes)
}

fn limit(text: &str) -> Option<Bytes> {
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < NO_LIMIT).then_some(Bytes(bytes))
}

fn kills(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

/// Reads what the memory monitor of a raylet reads, through the raylet's own mounts.
pub fn root_of(pid: Pid) -> Option<RootCgroup> {
    root_in(&Folder::at(pid, Path::new("/sys/fs/cgroup"))?)
}

fn root_in(folder: &Folder) -> Option<RootCgroup> {
    let limit = |folder: &Folder, files: Files| folder.text(files.limit, bounded::SMALL);
    let v1;
    let (folder, files, limit) = if let Some(found) = limit(folder, V2) {
        (folder, V2, found)
    } else {
        v1 = folder.below(Path::new("memory"))?;
        let found = limit(&v1, V1)?;
        (&v1, V1, found)
    };
    let text = |name: &str| folder.text(name, bounded::SMALL);
    Some(RootCgroup {
        v2: files.v2,
        limit: limit.trim().parse().ok().map(Bytes),
        usage: text(files.usage)
            .and_then(|text| text.trim().parse().ok())
            .map(Bytes),
        stat: text("memory.stat").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        folder
    }

    fn opened(path: &Path) -> Folder {
        Folder::open(path).expect("a folder")
    }

    #[test]
    fn v2_level_is_read_with_its_kills() {
        let folder = folder(&[
            ("memory.current", "1000\n"),
            ("memory.max", "4096\n"),
            (
                "memory.stat",
                "anon 1\nshmem 7\nslab 5\nsock 2\ninactive_file 30\nactive_file 12\n",
            ),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n",
            ),
            (
                "memory.events",
                "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n",
            ),
        ]);
        let level = read(folder.path(), "/a", V2).expect("a level");
        assert_eq!(level.limit, Some(Bytes(4096)));
        assert_eq!((level.oom_kills, level.file), (Some(2), Some(Bytes(42))));
        let state = level;
        assert_eq!(
            (state.anon, state.shmem, state.kernel),
            (Some(Bytes(1)), Some(Bytes(7)), Some(Bytes(7)))
        );
        assert_eq!((state.swap, state.stalled_us), (None, Some(77)));
    }

    #[test]
    fn v1_level_without_a_limit_has_none() {
        let folder = folder(&[
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            ),
        ]);
        let level = read(folder.path(), "/a", V1).expect("a level");
        assert_eq!((level.limit, level.oom_kills), (None, Some(3)));
    }

    #[test]
    fn root_with_a_v2_limit_file_is_v2() {
        let both = folder(&[
            ("memory.max", "max\n"),
            ("memory.current", "5\n"),
            ("memory/memory.limit_in_bytes", "77\n"),
        ]);
        let root = root_in(&opened(both.path())).expect("a root");
        assert_eq!((root.v2, root.limit), (true, None));
        let old = folder(&[("memory/memory.limit_in_bytes", "77\n")]);
        let root = root_in(&opened(old.path())).expect("a root");
        assert_eq!((root.v2, root.limit), (false, Some(Bytes(77))));
        let empty = folder(&[]);
        assert_eq!(root_in(&opened(empty.path())), None);
    }

    #[test]
    fn only_parents_with_a_limit_are_read_once() {
        let folder = folder(&[
            ("memory.max", "max\n"),
            ("memory.current", "9\n"),
            ("pod/memory.max", "77\n"),
            ("pod/memory.current", "7\n"),
            ("pod/slice/memory.max", "max\n"),
            ("pod/slice/memory.current", "6\n"),
            ("pod/slice/a/memory.max", "max\n"),
            ("pod/slice/a/memory.current", "5\n"),
        ]);
        let hierarchy = Hierarchy {
            mount: folder.path().to_owned(),
            root: "/".into(),
            files: V2,
        };
        let levels_with_limits = |paths: &[&str]| {
            let levels = hierarchy.levels_with_limits(paths.iter().copied());
            let names = levels.into_iter().map(|level| level.path);
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            levels_with_limits(&["/pod/slice/a"]),
            ["/pod", "/pod/slice/a"]
        );
        let both = ["/pod", "/pod/slice", "/pod/slice/a"];
        assert_eq!(levels_with_limits(&["/pod/slice/a", "/pod/slice"]), both);
        assert_eq!(levels_with_limits(&["/pod/slice", "/pod/slice/a"]), both);
        assert!(levels_with_limits(&["/../others/job"]).is_empty());
    }

    #[test]
    fn path_out_of_the_namespace_has_no_levels() {
        let folder = folder(&[("memory.current", "5\n"), ("memory.max", "77\n")]);
        let hierarchy = Hierarchy {
            mount: folder.path().to_owned(),
            root: "/".into(),
            files: V2,
        };
        assert_eq!(hierarchy.on_path("/").len(), 1);
        assert!(hierarchy.on_path("/../others/job").is_empty());
    }

    #[test]
    fn this_process_has_levels() {
        let Some(hierarchy) = Hierarchy::find() else {
            crate::skips::skipped("no memory cgroups are mounted here");
            return;
        };
        let levels = hierarchy.levels(Pid(std::process::id()));
        assert!(!levels.is_empty() || hierarchy.files.v2, "{hierarchy:?}");
    }
}
