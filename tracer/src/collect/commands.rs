//! Other paths by which a cluster's `ray` command is started.
//!
//! A link in `~/bin`, or the installation by another path.
//!
//! The kernel tells the path of a script and not the file that it led to. So a path that is not known is
//! looked at when a process that was started by it has sent a signal. Its owner may lead it elsewhere at
//! any time: what rests on it is never `proven`.

use std::collections::HashSet;

use super::Collector;
use crate::{
    event::{Observation, Signal, Source},
    ids::{Pid, ProcessKey},
    observe::{clock, rooted},
    ray::tool::{self, Installation},
};

/// Paths that are looked at in a minute, and that are known of a cluster.
const MOST: usize = 64;

/// The paths that were looked at in this minute.
#[derive(Default)]
pub(super) struct Commands(HashSet<(ProcessKey, String)>);

impl Commands {
    /// What led nowhere before may lead somewhere now.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether this path is to be looked at now.
    fn is_due(&mut self, cluster: ProcessKey, path: &str) -> bool {
        self.0.len() < MOST && self.0.insert((cluster, path.to_owned()))
    }
}

impl Collector {
    /// Notes the path that a sender was started by, where it leads to the `ray` of its target's cluster.
    pub(super) fn look_at_command(&mut self, signal: &Signal) {
        let Some((cluster, script)) = self.unknown_script(signal) else {
            return;
        };
        let raylet = self.known_as(cluster);
        let installation = raylet.and_then(|raylet| Installation::of_raylet(&raylet.argv));
        let Some(installation) = installation else {
            return;
        };
        if installation.scripts().any(|own| own == script) || !self.commands.is_due(cluster, script)
        {
            return;
        }
        // `ray stop` ends the raylet first, and then lives for a while.
        let roots = [cluster.pid, signal.sender.process.pid];
        if !roots.into_iter().any(|of| leads(of, script, &installation)) {
            return;
        }
        let Some(found) = self.clusters.get_mut(&cluster) else {
            return;
        };
        found.commands.push(script.to_owned());
        let found = Observation::Cluster(found.clone());
        self.emit(Source::Proc, clock::boot(), found);
    }

    /// The script that a sender in the cluster's root was started by, and the cluster, unless it is known
    /// already.
    fn unknown_script<'a>(&self, signal: &'a Signal) -> Option<(ProcessKey, &'a str)> {
        let sender = &signal.sender;
        if !sender.same_root || !sender.exec_seen {
            return None;
        }
        let run = tool::run(&sender.argv).filter(|run| run.verb.is_some())?;
        let target = self.known_as(signal.target);
        let adopted = target.and_then(|target| target.cluster);
        let cluster = adopted
            .map(ProcessKey::truncated)
            .or_else(|| self.only_cluster())?;
        let known = &self.clusters.get(&cluster)?.commands;
        let is_new = known.len() < MOST && !known.iter().any(|path| path == run.script);
        is_new.then_some((cluster, run.script))
    }

    /// The cluster of a part of Ray that is not known to belong to one, where the machine runs one alone.
    fn only_cluster(&self) -> Option<ProcessKey> {
        let mut all = self.clusters.keys();
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
