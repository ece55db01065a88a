//! Whether an installed Ray reads a `RAY_*` variable: its name stands in full in the program or package that reads it.
//!
//! Ray's C++ builds each name at compile time (`"RAY_" #name` in `ray_config.h`), its Python writes it out.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use aho_corasick::AhoCorasick;

use crate::event::Process;

/// Programs of the package that read variables themselves.
const PROGRAMS: [&str; 3] = [
    "core/src/ray/raylet/raylet",
    "core/src/ray/gcs/gcs_server",
    "_raylet.so",
];

/// Those of `keys` that this raylet's Ray reads nowhere; `None` where its package cannot be read.
#[must_use]
pub fn unread(raylet: &Process, keys: &[&str]) -> Option<Vec<String>> {
    let exe = raylet.exe.as_deref()?;
    // site-packages/ray/core/src/ray/raylet/raylet
    let inside = Path::new(exe).ancestors().nth(5)?;
    let inside = inside.strip_prefix("/").unwrap_or(inside);
    let package = Path::new(&format!("/proc/{}/root", raylet.process.pid)).join(inside);
    if !package.join("__init__.py").exists() {
        return None;
    }
    Some(unread_in(&package, keys))
}

fn unread_in(package: &Path, keys: &[&str]) -> Vec<String> {
    let mut left: HashSet<&str> = keys.iter().copied().collect();
    let programs = PROGRAMS.iter().map(|name| package.join(name));
    for file in programs {
        strike(&file, &mut left);
    }
    let mut folders = vec![package.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if left.is_empty() {
                return Vec::new();
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "py") {
                strike(&path, &mut left);
            }
        }
    }
    let mut left: Vec<String> = left.into_iter().map(str::to_owned).collect();
    left.sort();
    left
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Takes out of `left` what stands in a file as a whole word.
fn strike(file: &Path, left: &mut HashSet<&str>) {
    if left.is_empty() {
        return;
    }
    let names: Vec<&str> = left.iter().copied().collect();
    let (Ok(bytes), Ok(finder)) = (std::fs::read(file), AhoCorasick::new(&names)) else {
        return;
    };
    let word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    for found in finder.find_overlapping_iter(&bytes) {
        let before = found.start().checked_sub(1).and_then(|at| bytes.get(at));
        if !word(bytes.get(found.end())) && !word(before) {
            left.remove(names[found.pattern().as_usize()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_only_as_a_whole_word() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join(PROGRAMS[0]);
        std::fs::create_dir_all(program.parent().expect("a parent")).expect("a folder");
        std::fs::write(&program, b"\0RAY_policy_by_group\0RAY_threshold\0").expect("a program");
        std::fs::write(folder.path().join("a.py"), "env(\"RAY_PROPORTION\")").expect("a module");
        let keys = [
            "RAY_policy",
            "RAY_threshold",
            "RAY_PROPORTION",
            "RAY_nothing",
        ];
        assert_eq!(
            unread_in(folder.path(), &keys),
            ["RAY_nothing", "RAY_policy"]
        );
    }
}
