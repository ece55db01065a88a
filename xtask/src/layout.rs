//! Where things lie in the repository and its target folder.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The virtual environment that holds one version of Ray.
pub(crate) fn ray(version: &str) -> PathBuf {
    target().join("ray").join(version)
}

/// The virtual environment of the tests of the views.
pub(crate) fn views() -> PathBuf {
    target().join("views")
}

/// The virtual environment of the benchmark.
pub(crate) fn bench() -> PathBuf {
    target().join("bench")
}

/// The virtual environment that links for old systems.
pub(crate) fn zig() -> PathBuf {
    target().join("zig")
}

/// The virtual environment that packs and validates.
pub(crate) fn packaging() -> PathBuf {
    target().join("packaging")
}

/// Frameworks that train for real, and what was recorded of them.
pub(crate) fn real() -> PathBuf {
    target().join("real")
}

/// Where tools built by `setup` go.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}

/// The `raytrace` that was built by `cargo build --release`.
pub(crate) fn raytrace() -> PathBuf {
    target().join("release").join("raytrace")
}

/// `PATH` with the tools of `setup` first.
pub(crate) fn path_with_tools() -> std::ffi::OsString {
    let mut path = tools().join("bin").into_os_string();
    if let Some(rest) = env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}
