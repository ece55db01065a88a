//! Checks that tests write nothing into the home folder of the user who runs them.
//!
//! The tests get a home folder of their own, and both are checked afterwards. `ray.init()` without
//! a cluster writes `~/.ray/auth_token` (Ray 2.60). From then on each `ray start` of that user has
//! token authentication on.

use std::{collections::BTreeMap, env, fs, path::Path, path::PathBuf, time::SystemTime};

use anyhow::{Context as _, Result, bail};

use crate::layout;

/// Folders that browsers, shells and tools make in every home.
const CACHES: [&str; 7] = [
    ".cache", ".cargo", ".config", ".dbus", ".local", ".pki", ".rustup",
];
/// How deep the home folder is searched.
const DEPTH: usize = 3;

/// Returns the home folder of all tests.
pub(super) fn test_home() -> PathBuf {
    layout::target().join("tests").join("home")
}

/// Returns where cargo and rustup keep their own files, which is in the home of the user who runs
/// this.
pub(super) fn tool_homes() -> Vec<(&'static str, PathBuf)> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let tools = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];
    let mut found = Vec::new();
    for (name, folder) in tools {
        let set = env::var_os(name).map(PathBuf::from);
        let usual = home.as_ref().map(|home| home.join(folder));
        found.extend(set.or(usual).map(|path| (name, path)));
    }
    found
}

/// The files that Ray and raytrace had in the home of the user who runs this, with the times of
/// their last changes.
pub(super) struct HomeSnapshot(BTreeMap<PathBuf, Option<SystemTime>>);

/// Makes an empty home for the tests.
pub(super) fn begin() -> Result<HomeSnapshot> {
    let own = test_home();
    if own.exists() {
        fs::remove_dir_all(&own).context("the home folder of the last tests")?;
    }
    fs::create_dir_all(&own)?;
    Ok(HomeSnapshot(ray_files()))
}

impl HomeSnapshot {
    /// Fails if something was written.
    pub(super) fn compare(&self) -> Result<()> {
        let after = ray_files();
        let changed = after
            .iter()
            .filter(|(path, time)| self.0.get(*path) != Some(*time))
            .map(|(path, _)| path.display().to_string());
        let is_cache = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| CACHES.contains(&name))
        };
        let entries = fs::read_dir(test_home()).context("the home folder of the tests")?;
        let own = entries.flatten().map(|entry| entry.path());
        let own = own.filter(|path| !is_cache(path));
        let written: Vec<String> = changed
            .chain(own.map(|path| path.display().to_string()))
            .collect();
        if !written.is_empty() {
            bail!(
                "tests wrote into a home folder:\n    {}",
                written.join("\n    ")
            );
        }
        Ok(())
    }
}

/// Returns names in the home folder that are Ray's or raytrace's, and what is below them.
fn ray_files() -> BTreeMap<PathBuf, Option<SystemTime>> {
    let mut found = BTreeMap::new();
    let Some(home) = env::var_os("HOME").map(PathBuf::from) else {
        return found;
    };
    let named = |path: &Path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        name.trim_start_matches('.').starts_with("ray")
    };
    let entries = fs::read_dir(&home).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| named(path)) {
        // A folder with such a name may be this repository.
        if !layout::root().starts_with(&path) {
            walk(&path, DEPTH, &mut found);
        }
    }
    found
}

fn walk(path: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Option<SystemTime>>) {
    let Ok(data) = path.symlink_metadata() else {
        return;
    };
    found.insert(path.to_owned(), data.modified().ok());
    if data.is_dir() && depth > 0 {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| walk(&entry.path(), depth - 1, found));
    }
}
