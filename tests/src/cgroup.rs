//! The machine's memory cgroups, in either version of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where they are, and how a limit is given there.
pub struct MemoryCgroups {
    /// The root of all.
    pub root: &'static Path,
    /// The file of a limit.
    pub limit: &'static str,
    /// `v1` or `v2`.
    pub version: &'static str,
}

/// Those of this machine.
#[must_use]
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
    /// Makes one below the root with a limit in bytes; this process's pid is added to its name.
    ///
    /// # Panics
    ///
    /// If that is not allowed.
    #[must_use]
    pub fn make(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.root.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup");
        fs::write(path.join(self.limit), bytes.to_string()).expect("a limit");
        path
    }
}
