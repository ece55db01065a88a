//! Finds the versions of frameworks that a driver runs.
//!
//! They are in the names of the `NAME-VERSION.dist-info` folders beside Ray's own package. No file
//! is opened, and nothing there is executed. A framework that a driver imports from a folder of its
//! own may be another version, so it is left out.

use std::path::{Path, PathBuf};

use super::{clusters, rooted::Folder, timed_read};
use crate::{event::Process, ids::Pid, ray::framework};

/// The most characters of a version.
const LONGEST: usize = 40;
/// The most entries of `PYTHONPATH` that are searched.
const MOST_PATHS: usize = 16;

/// Returns the frameworks installed beside the raylet's Ray, with their versions. Those that the
/// driver imports from elsewhere are left out.
pub fn of_driver(driver: &Process, raylet: &Process) -> Vec<(String, String)> {
    let Some(site) = clusters::site_packages(raylet) else {
        return Vec::new();
    };
    let mut found = installed(&site);
    if found.is_empty() {
        return found;
    }
    let pid = driver.process.pid;
    let before: Vec<Folder> = searched_before(pid, &driver.argv)
        .iter()
        .filter_map(|path| Folder::at(pid, path))
        .filter(|folder| folder.identity() != site.identity())
        .collect();
    // A package that is installed by a link (`pip install -e`) has no folder in `site-packages`.
    // The folder found elsewhere is then its source.
    found.retain(|(name, _)| {
        !has_folder(&site, name) || !before.iter().any(|one| may_have(one, name))
    });
    found
}

fn installed(site: &Folder) -> Vec<(String, String)> {
    let names = site.names(|name| of_framework(name).is_some());
    let mut found: Vec<(String, String)> = names
        .iter()
        .filter_map(|name| of_framework(name))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    found.sort();
    found.dedup_by(|one, other| one.0 == other.0);
    found
}

/// Returns the name and version in `verl-0.5.0.dist-info`, if it is a framework's.
fn of_framework(folder: &str) -> Option<(&'static str, &str)> {
    let (name, version) = folder.strip_suffix(".dist-info")?.split_once('-')?;
    let name = framework::distributions().find(|one| one.eq_ignore_ascii_case(name))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+!_".contains(&byte);
    let is_version = version.starts_with(|first: char| first.is_ascii_digit())
        && version.len() <= LONGEST
        && version.bytes().all(plain);
    is_version.then_some((name, version))
}

fn has_folder(folder: &Folder, name: &str) -> bool {
    let entry = folder.entry(name.as_ref());
    entry.is_some_and(|entry| entry.is_folder)
}

/// Whether there is such a folder, or a link that may lead to one.
fn may_have(folder: &Folder, name: &str) -> bool {
    let entry = folder.entry(name.as_ref());
    entry.is_some_and(|entry| !entry.is_file)
}

/// Returns the folders that Python searches before the installed packages: the script's folder,
/// `PYTHONPATH` and the working folder.
fn searched_before(pid: Pid, argv: &[String]) -> Vec<PathBuf> {
    let here = move || std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let here = timed_read::run_optional(pid, here).unwrap_or_else(|| PathBuf::from("/"));
    let is_script = |path: &&Path| path.extension().is_some_and(|end| end == "py");
    let script = argv.iter().skip(1).map(Path::new).find(is_script);
    let script = script.and_then(Path::parent);
    let set = clusters::variable(pid, b"PYTHONPATH=").unwrap_or_default();
    let set = set.split(':').filter(|path| !path.is_empty());
    let set = set.take(MOST_PATHS).map(|path| here.join(path));
    let script = script.map(|folder| here.join(folder));
    let mut all: Vec<PathBuf> = script.into_iter().chain(set).collect();
    all.push(here);
    all
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, create_dir_all};

    use super::*;
    use crate::observe::processes;

    /// Makes a raylet whose program is in this `site-packages`.
    fn raylet(site: &Path) -> Process {
        let this = processes::describe(Pid(std::process::id())).expect("this process");
        let exe = site.join("ray/core/src/ray/raylet/raylet");
        Process {
            exe: Some(exe.to_string_lossy().into_owned()),
            ..this
        }
    }

    fn versions(site: &Path, script: &Path) -> Vec<(String, String)> {
        let raylet = raylet(site);
        let argv = ["python".into(), script.to_string_lossy().into_owned()];
        let driver = Process {
            argv: argv.into(),
            ..raylet.clone()
        };
        of_driver(&driver, &raylet)
    }

    fn pair(name: &str, version: &str) -> (String, String) {
        (name.into(), version.into())
    }

    #[test]
    fn versions_come_from_folders_beside_ray() {
        let at = tempfile::tempdir().expect("a folder");
        let site = at.path().join("site-packages");
        for name in [
            "ray",
            "verl",
            "verl-0.5.0.dist-info",
            "vllm-0.8.5.post1+cu121.dist-info",
            "OpenRLHF-0.9.0.dist-info",
            "verl_tools-1.0.dist-info",
            "sglang-not a version.dist-info",
            "torch-2.8.0.dist-info",
        ] {
            create_dir_all(site.join(name)).expect("a folder");
        }
        let all = [
            pair("openrlhf", "0.9.0"),
            pair("verl", "0.5.0"),
            pair("vllm", "0.8.5.post1+cu121"),
        ];
        let script = at.path().join("job/train.py");
        assert_eq!(versions(&site, &script), all);
        // The script's own folder has another verl, and that one runs.
        create_dir_all(at.path().join("job/verl")).expect("a folder");
        assert_eq!(versions(&site, &script), [all[0].clone(), all[2].clone()]);
    }

    #[test]
    fn editable_install_has_its_version() {
        let at = tempfile::tempdir().expect("a folder");
        let site = at.path().join("site-packages");
        create_dir_all(site.join("verl-0.7.0.dev0.dist-info")).expect("a folder");
        create_dir(at.path().join("verl")).expect("a folder");
        let found = versions(&site, &at.path().join("train.py"));
        assert_eq!(found, [pair("verl", "0.7.0.dev0")]);
    }

    #[test]
    fn version_behind_a_link_is_unknown() {
        let at = tempfile::tempdir().expect("a folder");
        let site = at.path().join("site-packages");
        create_dir_all(site.join("verl-0.5.0.dist-info")).expect("a folder");
        create_dir_all(site.join("verl")).expect("a folder");
        std::os::unix::fs::symlink(site.join("verl"), at.path().join("verl")).expect("a link");
        assert_eq!(versions(&site, &at.path().join("train.py")), []);
    }
}
