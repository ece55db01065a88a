//! Moves the recorder into a memory cgroup of its own on request, and removes it at the end.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use caps::{CapSet, Capability};

use crate::{
    ids::Pid,
    observe::{cgroups::Hierarchy, processes},
};

/// The recorder's own cgroup, which it leaves when this is dropped.
pub(super) struct OwnCgroup {
    folder: PathBuf,
    before: Option<PathBuf>,
}

impl OwnCgroup {
    /// Creates `raytrace-PID` at the top of the hierarchy and moves this process there.
    pub(super) fn enter() -> anyhow::Result<Self> {
        let hierarchy = Hierarchy::find()
            .context("cannot create a cgroup for --own-cgroup: no memory cgroups are mounted here; leave it out")?;
        let pid = std::process::id();
        let own = Self {
            folder: hierarchy.folder(&format!("/raytrace-{pid}")),
            before: processes::cgroup(Pid(pid)).map(|path| hierarchy.folder(&path)),
        };
        let failed = || {
            format!(
                "cannot create the cgroup {} for --own-cgroup; leave it out, or record as root of the machine",
                own.folder.display()
            )
        };
        fs::create_dir(&own.folder).with_context(failed)?;
        // From here on, dropping `own` removes the cgroup.
        fs::write(own.folder.join("cgroup.procs"), pid.to_string()).with_context(failed)?;
        Ok(own)
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // The capability was kept only for this. If it was never held, the folder's mode decides.
        let _not_held = caps::raise(None, CapSet::Effective, Capability::CAP_DAC_OVERRIDE);
        if let Some(before) = &self.before {
            let pid = std::process::id().to_string();
            if let Err(error) = fs::write(before.join("cgroup.procs"), pid) {
                tracing::info!("cannot go back to {}: {error}", before.display());
            }
        }
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::info!("{} stays: {error}", self.folder.display());
        }
    }
}
