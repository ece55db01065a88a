//! Checks whether an installed Ray reads a `RAY_*` variable.
//!
//! A variable that Ray reads has its full name in one of Ray's programs or modules: the C++ code
//! builds each name at compile time (`"RAY_" #name` in `ray_config.h`), and the Python code
//! contains it literally.

use std::{collections::HashSet, path::Path};

use aho_corasick::AhoCorasick;

use crate::{
    event::Process,
    ids::Pid,
    observe::rooted::{self, Folder},
};

/// Programs of the package that read variables themselves.
const PROGRAMS: [&str; 3] = [
    "core/src/ray/raylet/raylet",
    "core/src/ray/gcs/gcs_server",
    "_raylet.so",
];

/// The most bytes read from a file. Ray's files have some 50 MiB at most.
const FILE_BYTES: u64 = 256 << 20;
/// The most files read. Ray's package has some 6,000.
const MOST_FILES: usize = 50_000;

/// Returns those of `keys` that this raylet's Ray does not read; `None` if its package cannot be
/// read.
pub fn unread(raylet: &Process, keys: &[&str]) -> Option<Vec<String>> {
    let exe = raylet.exe.as_deref()?;
    // site-packages/ray/core/src/ray/raylet/raylet
    let package = Path::new(exe).ancestors().nth(5)?;
    unread_in(raylet.process.pid, package, keys)
}

/// Does the same for a package as the process `pid` sees it. Its files may be links into a store of
/// packages; its folders may not be links.
fn unread_in(pid: Pid, package: &Path, keys: &[&str]) -> Option<Vec<String>> {
    let mut left: HashSet<&str> = keys.iter().copied().collect();
    let folder = Folder::at(pid, package)?;
    rooted::file(pid, &package.join("__init__.py"))?;
    for program in PROGRAMS {
        strike(pid, &package.join(program), &mut left);
    }
    let mut folders = vec![(folder, package.to_owned())];
    let mut files = 0;
    while let Some((folder, path)) = folders.pop() {
        for name in folder.names(|_| true) {
            if left.is_empty() {
                return Some(Vec::new());
            }
            let inside = path.join(&name);
            if inside.extension().is_some_and(|end| end == "py") {
                files += 1;
                strike(pid, &inside, &mut left);
            } else if folder
                .entry(name.as_ref())
                .is_some_and(|entry| entry.is_folder)
            {
                folders.extend(
                    folder
                        .below(Path::new(&name))
                        .map(|folder| (folder, inside)),
                );
            }
        }
        // Nothing can be said about files that are not read.
        if files > MOST_FILES {
            return None;
        }
    }
    let mut left: Vec<String> = left.into_iter().map(str::to_owned).collect();
    left.sort();
    Some(left)
}

/// Removes from `left` the names that a file contains as a whole word.
fn strike(pid: Pid, file: &Path, left: &mut HashSet<&str>) {
    if left.is_empty() {
        return;
    }
    let names: Vec<&str> = left.iter().copied().collect();
    let bytes = rooted::read(pid, file, FILE_BYTES);
    let (Some(bytes), Ok(finder)) = (bytes, AhoCorasick::new(&names)) else {
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
    fn names_count_only_as_whole_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join(PROGRAMS[0]);
        std::fs::create_dir_all(program.parent().expect("a parent")).expect("a folder");
        std::fs::write(&program, b"\0RAY_policy_by_group\0RAY_threshold\0").expect("a program");
        std::fs::write(folder.path().join("a.py"), "env(\"RAY_PROPORTION\")").expect("a module");
        std::fs::write(folder.path().join("__init__.py"), "").expect("a module");
        let own = Pid(std::process::id());
        let keys = [
            "RAY_policy",
            "RAY_threshold",
            "RAY_PROPORTION",
            "RAY_nothing",
        ];
        assert_eq!(
            unread_in(own, folder.path(), &keys).expect("a package"),
            ["RAY_nothing", "RAY_policy"]
        );
    }
}
