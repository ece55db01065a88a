//! Paths in the repository and its target folder.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the virtual environment of one version of Ray.
pub(crate) fn ray(version: &str) -> PathBuf {
    target().join("ray").join(version)
}

/// Returns the virtual environment of the tests of views.
pub(crate) fn views() -> PathBuf {
    target().join("views")
}

/// Returns the virtual environment of the benchmark.
pub(crate) fn bench() -> PathBuf {
    target().join("bench")
}

/// Returns the virtual environment with the linker for old systems.
pub(crate) fn zig() -> PathBuf {
    target().join("zig")
}

/// Returns the virtual environment with tools that pack and validate.
pub(crate) fn packaging() -> PathBuf {
    target().join("packaging")
}

/// Returns the folder of real training frameworks and of what was recorded with them.
pub(crate) fn real() -> PathBuf {
    target().join("real")
}

/// Returns the folder of tools that `setup` builds.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}

/// Returns the `raytrace` that `cargo build --release` builds.
pub(crate) fn raytrace() -> PathBuf {
    target().join("release").join("raytrace")
}

/// Returns `PATH` with the tools of `setup` first.
pub(crate) fn path_with_tools() -> std::ffi::OsString {
    let mut path = tools().join("bin").into_os_string();
    if let Some(rest) = env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}
