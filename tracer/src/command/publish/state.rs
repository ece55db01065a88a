//! The state file of `publish`: what has already been published.
//!
//! It lets `publish` continue where it stopped. It is a small JSON file that is replaced by
//! renaming.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::{
    bounded,
    ids::{EventId, MINUTE_NS, WallTime},
    observe::clock,
    show::publish::{metrics::Counts, pod_event::PodEvent},
};

/// How far back publishing begins without a state. A recording may have weeks.
const BACK_NS: i64 = 60 * MINUTE_NS;

/// The file's content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The files, by name.
    pub(super) files: BTreeMap<String, FileState>,
    /// The number of lost events that were published, by the time at which their recorder began.
    pub(super) lost: BTreeMap<i64, u64>,
    /// The values of the counters.
    pub(super) counts: Counts,
    /// The active warnings, as rows of a recording.
    #[serde(default, rename = "near")]
    pub(super) warnings: Vec<String>,
    /// The name of this node, which is published also while no recorder runs.
    #[serde(default)]
    pub(super) node: String,
    /// What happened before this time is not published: it is an hour before `publish` ran without
    /// a state.
    #[serde(default)]
    pub(super) since: Option<WallTime>,
    /// Events that were not sent to Kubernetes yet.
    #[serde(default)]
    pub(super) events: Vec<PodEvent>,
}

/// How much of a recording has been published.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    /// The inode of the file with this name.
    pub(super) inode: u64,
    /// All deaths up to this id have been published.
    pub(super) through: u64,
    /// Later deaths that have been published.
    pub(super) told: BTreeSet<u64>,
    /// Whether nothing more will come from this file.
    pub(super) done: bool,
}

impl FileState {
    /// Returns whether this death has been published.
    pub(super) fn is_published(&self, id: EventId) -> bool {
        id.0 <= self.through || self.told.contains(&id.0)
    }

    /// Marks this death as published.
    pub(super) fn mark_handed_on(&mut self, id: EventId) {
        self.told.insert(id.0);
    }

    /// Notes that no death with an id below `waits` is still waiting.
    pub(super) fn settle(&mut self, waits: EventId) {
        self.through = self.through.max(waits.0.saturating_sub(1));
        self.told = self.told.split_off(&(self.through + 1));
    }
}

impl State {
    /// Reads the state file. Without one, publishing begins an hour back.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = bounded::file(path, bounded::LARGE);
        // A machine that loses its power may leave a file of zeros.
        let is_lost = |text: &[u8]| text.iter().all(|byte| *byte == 0);
        let text = match text {
            Ok(text) if !is_lost(&text) => text,
            Ok(_) => return Ok(Self::anew()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::anew());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} is not a state file of publish; remove it to start again",
                path.display()
            )
        })
    }

    /// Publishing begins an hour back.
    fn anew() -> Self {
        Self {
            since: Some(WallTime(clock::wall().0.saturating_sub(BACK_NS))),
            ..Self::default()
        }
    }

    /// Writes the state file.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let failed = || {
            format!(
                "cannot write {}; name another file: --state FILE",
                path.display()
            )
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(failed)?;
        }
        let text = serde_json::to_vec(self).with_context(failed)?;
        let beside = path.with_extension("new");
        let mut file = std::fs::File::create(&beside).with_context(failed)?;
        file.write_all(&text).with_context(failed)?;
        file.sync_all().with_context(failed)?;
        std::fs::rename(&beside, path).with_context(failed)
    }
}

/// Returns the path of the state file if none is named.
pub(super) fn default_path() -> Result<PathBuf, String> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    // `StateDirectory=` of systemd; the first if there are several.
    if let Some(folders) = folder("STATE_DIRECTORY") {
        let folders = folders.to_string_lossy().into_owned();
        let first = folders.split(':').next().unwrap_or_default();
        return Ok(Path::new(first).join("publish.json"));
    }
    let own = folder("XDG_STATE_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(Path::new(&folder("HOME")?).join(".local/state")));
    let own = own.ok_or("neither STATE_DIRECTORY nor HOME is set: name a file, --state FILE")?;
    Ok(own.join("raytrace/publish.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_death_stays_unpublished_among_published_ones() {
        let mut file = FileState::default();
        file.mark_handed_on(EventId(7));
        file.mark_handed_on(EventId(9));
        file.settle(EventId(8));
        assert!(
            file.is_published(EventId(3))
                && file.is_published(EventId(7))
                && file.is_published(EventId(9))
        );
        assert!(!file.is_published(EventId(8)) && !file.is_published(EventId(10)));
        assert_eq!(file.told.len(), 1);
    }

    #[test]
    fn state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/publish.json");
        let mut state = State::read(&path).expect("none");
        let since = state.since.take().expect("an hour back");
        assert!(clock::wall().0 - since.0 >= BACK_NS);
        assert_eq!(state, State::default());
        state.since = Some(since);
        state
            .files
            .entry("a.raytrace".into())
            .or_default()
            .mark_handed_on(EventId(4));
        state.counts.lost = 3;
        state.write(&path).expect("written");
        assert_eq!(State::read(&path).expect("read"), state);
        std::fs::write(&path, [0; 64]).expect("written");
        let anew = State::read(&path).expect("a lost state");
        assert!(anew.since.is_some() && anew.files.is_empty());
        std::fs::write(&path, "{").expect("written");
        let error = State::read(&path).expect_err("half a file");
        assert!(
            format!("{error:#}").contains("remove it to start again"),
            "{error:#}"
        );
    }
}
