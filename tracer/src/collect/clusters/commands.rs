//! Finds other paths by which a cluster's `ray` command is started.
//!
//! Such a path is a link in `~/bin`, or another path to the installation.
//!
//! The kernel shows the path of a script, not the file that it led to. So an unknown path is
//! checked when a process that was started by it has sent a signal. The owner of a path may change
//! where it leads at any time, so a verdict that rests on it is never `proven`.

use std::collections::HashSet;

use super::Clusters;
use crate::{
    event::{Cluster, Process, Signal},
    ids::{Pid, ProcessKey},
    observe::rooted,
    ray::tool::{self, Installation},
};

/// The most paths that are checked in a minute, and that are known of a cluster.
const MOST: usize = 64;

/// The paths that were checked in this minute.
#[derive(Default)]
pub(super) struct Commands(HashSet<(ProcessKey, String)>);

impl Commands {
    /// Forgets them. A path that led nowhere before may lead somewhere now.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether this path is to be checked now.
    fn is_due(&mut self, cluster: ProcessKey, path: &str) -> bool {
        self.0.len() < MOST && self.0.insert((cluster, path.to_owned()))
    }
}

impl Clusters {
    /// Notes the path that a sender was started by, if it leads to the `ray` of its target's
    /// cluster. Returns the cluster with that path. `known` finds live processes.
    pub(in crate::collect) fn look_at_command<'a>(
        &mut self,
        signal: &Signal,
        known: impl Fn(ProcessKey) -> Option<&'a Process>,
    ) -> Option<Cluster> {
        let adopted = known(signal.target).and_then(|target| target.cluster);
        let (cluster, script) = self.unknown_script(signal, adopted)?;
        let installation = Installation::of_raylet(&known(cluster)?.argv)?;
        if installation.scripts().any(|own| own == script) || !self.commands.is_due(cluster, script)
        {
            return None;
        }
        // `ray stop` ends the raylet first, and continues to run for a while.
        let roots = [cluster.pid, signal.sender.process.pid];
        if !roots.into_iter().any(|of| leads(of, script, &installation)) {
            return None;
        }
        let found = &mut self.followed.get_mut(&cluster)?.cluster;
        found.commands.push(script.to_owned());
        Some(found.clone())
    }

    /// Returns the cluster and the script that started a sender in the cluster's root, unless the
    /// script is known already.
    fn unknown_script<'a>(
        &self,
        signal: &'a Signal,
        adopted: Option<ProcessKey>,
    ) -> Option<(ProcessKey, &'a str)> {
        let sender = &signal.sender;
        if !sender.same_root || !sender.exec_seen {
            return None;
        }
        let run = tool::run(&sender.argv).filter(|run| run.verb.is_some())?;
        let cluster = adopted
            .map(ProcessKey::truncated)
            .or_else(|| self.only_one())?;
        let known = &self.get(cluster)?.commands;
        let is_new = known.len() < MOST && !known.iter().any(|path| path == run.script);
        is_new.then_some((cluster, run.script))
    }

    /// Returns the machine's only cluster, for a process that is not known to belong to one.
    fn only_one(&self) -> Option<ProcessKey> {
        let mut all = self.followed.keys();
        all.next().copied().filter(|_| all.next().is_none())
    }
}

/// Whether a path inside a process's root leads to a script of this installation.
fn leads(of: Pid, path: &str, installation: &Installation) -> bool {
    let Some(led) = rooted::identity(of, path.as_ref()) else {
        return false;
    };
    let mut own = installation.scripts();
    own.any(|own| rooted::identity(of, own.as_ref()) == Some(led))
}
