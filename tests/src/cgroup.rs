//! The machine's memory cgroups, of version 1 or 2.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where memory cgroups are, and how a limit is set in them.
pub struct MemoryCgroups {
    /// The root of all memory cgroups.
    pub root: &'static Path,
    /// The name of the file that sets a limit.
    pub limit: &'static str,
    /// `v1` or `v2`.
    pub version: &'static str,
}

/// Returns the memory cgroups of this machine.
pub fn memory() -> MemoryCgroups {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    let (root, limit, version) = if v1.exists() {
        (v1, "memory.limit_in_bytes", "v1")
    } else {
        (Path::new("/sys/fs/cgroup"), "memory.max", "v2")
    };
    MemoryCgroups {
        root,
        limit,
        version,
    }
}

impl MemoryCgroups {
    /// Makes a cgroup below the root with a limit in bytes. Its name ends with this process's pid.
    ///
    /// # Panics
    ///
    /// If that is not allowed.
    pub fn make(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.root.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup");
        fs::write(path.join(self.limit), bytes.to_string()).expect("a limit");
        path
    }
}
