//! The clusters that are followed: which raylets are wanted, how many there may be, what names them, when they are over.

mod commands;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use commands::Commands;

use crate::{
    event::{Cluster, Process, Role},
    ids::{HexId, Pid, ProcessKey},
    observe::{clusters, processes, users},
    ray::{identify, tree::Part},
};

/// Clusters that are followed, of all users and of one: what calls itself a raylet costs some descriptors.
const MOST_CLUSTERS: usize = 512;
const MOST_OF_ONE: usize = 128;
/// Looks, ten seconds apart, at which nothing of it was alive: last lines are written and causes asked for until then.
pub(super) const ROUNDS: u32 = 15;

/// Which raylets are wanted.
#[derive(Debug, Clone, Default)]
pub struct ClusterFilter {
    /// Only the one of this session folder.
    pub session_dir: Option<PathBuf>,
    /// Only this raylet.
    pub raylet: Option<Pid>,
    /// Only raylets of this user.
    pub user: Option<u32>,
}

/// All that are followed, and the raylets that are not.
#[derive(Default)]
pub(super) struct Clusters {
    wanted: ClusterFilter,
    followed: HashMap<ProcessKey, Followed>,
    /// Raylets that are not followed because too many are; and how many there were.
    refused: HashSet<ProcessKey>,
    pub(super) left_out: u64,
    commands: Commands,
}

/// One cluster.
struct Followed {
    cluster: Cluster,
    /// Who started its raylet.
    owner: Option<u32>,
    /// The same where the raylet has one user alone.
    user: Option<u32>,
    /// The address of its node, as its raylet's command line has it.
    address: Option<String>,
    /// Rounds in which nothing of it was alive.
    over: u32,
}

impl Clusters {
    pub(super) fn new(wanted: ClusterFilter) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    pub(super) fn count(&self) -> usize {
        self.followed.len()
    }

    /// Each with its raylet, without the part of its start that /proc does not tell.
    pub(super) fn all(&self) -> impl Iterator<Item = (ProcessKey, &Cluster)> {
        let all = self.followed.iter();
        all.map(|(raylet, one)| (*raylet, &one.cluster))
    }

    pub(super) fn get(&self, raylet: ProcessKey) -> Option<&Cluster> {
        let known = self.followed.get(&raylet.truncated());
        known.map(|known| &known.cluster)
    }

    /// The user whose clusters alone are wanted.
    pub(super) fn filter_user(&self) -> Option<u32> {
        self.wanted.user
    }

    /// Forgets who was refused and is no raylet any more.
    pub(super) fn keep_refused(&mut self, raylets: &[Pid]) {
        self.refused
            .retain(|refused| raylets.contains(&refused.pid));
    }

    pub(super) fn is_refused(&self, raylet: ProcessKey) -> bool {
        self.refused.contains(&raylet)
    }

    /// Takes up the cluster of a raylet that is new, where it is wanted.
    pub(super) fn add(&mut self, raylet: &Process) -> Option<Cluster> {
        let key = raylet.process.truncated();
        if self.followed.contains_key(&key) || !self.has_room(raylet) {
            return None;
        }
        let cluster = clusters::describe(raylet);
        if !self.is_wanted(raylet, cluster.session_dir.as_deref()) {
            return None;
        }
        let followed = Followed {
            cluster: cluster.clone(),
            owner: users::real_user(raylet.process.pid),
            user: processes::only_user(raylet.process.pid),
            address: address(&raylet.argv).map(str::to_owned),
            over: 0,
        };
        self.followed.insert(key, followed);
        Some(cluster)
    }

    /// Whether one more cluster of this raylet's user may be followed. Those that are over count until their logs are closed.
    fn has_room(&mut self, raylet: &Process) -> bool {
        let owner = users::real_user(raylet.process.pid);
        let all = self.followed.values();
        let of_user = all.filter(|one| one.owner == owner);
        let has_room = self.followed.len() < MOST_CLUSTERS && of_user.count() < MOST_OF_ONE;
        if !has_room && self.refused.insert(raylet.process.truncated()) {
            tracing::info!("raylet {} is not followed: too many are", raylet.process);
            self.left_out += 1;
        }
        has_room
    }

    fn is_wanted(&self, raylet: &Process, session_dir: Option<&str>) -> bool {
        let wanted = &self.wanted;
        let by_pid = wanted.raylet.is_none_or(|pid| pid == raylet.process.pid);
        let by_folder = wanted.session_dir.as_ref().is_none_or(|wanted| {
            let real = std::fs::canonicalize(wanted).unwrap_or_else(|_| wanted.clone());
            session_dir
                .is_some_and(|folder| Path::new(folder) == wanted || Path::new(folder) == real)
        });
        let by_user = wanted
            .user
            .is_none_or(|user| processes::only_user(raylet.process.pid) == Some(user));
        by_pid && by_folder && by_user
    }

    /// The cluster that the command line of a process names.
    pub(super) fn named(&self, argv: &[String], process: ProcessKey) -> Option<ProcessKey> {
        let all = self.followed.iter();
        let found = all.filter(|(raylet, one)| {
            names(argv, &one.cluster, one.address.as_deref()) && may_have(**raylet, argv, process)
        });
        let user = processes::only_user(process.pid);
        self.first_of_user(found.map(|(raylet, _)| *raylet), [user])
    }

    /// The cluster of these that began first, of those whose raylet is root's or runs as one of these users: anybody can start a program
    /// that is called a raylet and names somebody else's session.
    pub(super) fn first_of_user<const N: usize>(
        &self,
        clusters: impl IntoIterator<Item = ProcessKey>,
        users: [Option<u32>; N],
    ) -> Option<ProcessKey> {
        let may_have = |raylet: &ProcessKey| {
            let user = self.followed.get(raylet).and_then(|one| one.user);
            user.is_some_and(|user| user == 0 || users.contains(&Some(user)))
        };
        let found = clusters.into_iter().filter(may_have);
        found.min_by_key(|raylet| (raylet.start, raylet.pid))
    }

    /// Reads the zones of Ray's logs again, which change their offset twice a year; those that have changed.
    pub(super) fn new_log_offsets(
        &mut self,
        lives: impl Fn(ProcessKey) -> bool,
    ) -> Vec<(ProcessKey, Option<i32>)> {
        let mut changed = Vec::new();
        for (raylet, one) in self
            .followed
            .iter_mut()
            .filter(|(raylet, _)| lives(**raylet))
        {
            let offset = Some(clusters::log_offset(raylet.pid));
            if one.cluster.log_utc_offset_s != offset {
                one.cluster.log_utc_offset_s = offset;
                changed.push((*raylet, offset));
            }
        }
        changed
    }

    /// Called with each look at the whole machine: lets those go of which nothing has been alive for a while.
    ///
    /// A node of days sees many of them, and a file that is held keeps its file system from being taken away.
    pub(super) fn release(&mut self, alive: &HashSet<ProcessKey>) -> Vec<ProcessKey> {
        for (raylet, one) in &mut self.followed {
            one.over = if alive.contains(raylet) {
                0
            } else {
                one.over + 1
            };
        }
        let over = self.followed.extract_if(|_, one| one.over >= ROUNDS);
        over.map(|(raylet, _)| raylet).collect()
    }

    /// Each minute: what a path led to before it may lead to no more.
    pub(super) fn forget_commands(&mut self) {
        self.commands.forget();
    }
}

/// Whether a process may be a part of the node of this raylet by its age: a raylet starts its workers and agents itself.
fn may_have(raylet: ProcessKey, argv: &[String], process: ProcessKey) -> bool {
    let is_started = matches!(identify::role("", argv), Some(Role::Worker | Role::Agent));
    !is_started || process.truncated().start >= raylet.truncated().start
}

/// The address of the node that a part of Ray was started on.
fn address(argv: &[String]) -> Option<&str> {
    identify::option(argv, "node-ip-address")
}

/// Whether a command line names the session or the GCS of a cluster, and no other node of it: one host may carry several.
fn names(argv: &[String], cluster: &Cluster, on: Option<&str>) -> bool {
    let node = identify::option(argv, "node-id").and_then(HexId::parse);
    if node.is_some() && cluster.node_id.is_some() && node != cluster.node_id {
        return false;
    }
    // Agents up to 2.5x name no node.
    if on.is_some() && address(argv).is_some_and(|address| Some(address) != on) {
        return false;
    }
    if of_head(argv) && !cluster.head {
        return false;
    }
    let marks = [cluster.session.as_deref(), cluster.gcs_address.as_deref()];
    let marks = marks.into_iter().flatten().filter(|mark| !mark.is_empty());
    marks
        .into_iter()
        .any(|mark| argv.iter().any(|argument| argument.contains(mark)))
}

/// Whether a command line is of a part that only the node with the GCS has.
fn of_head(argv: &[String]) -> bool {
    let helper = identify::helper(argv);
    let is_gcs = identify::option(argv, "gcs-server-port").is_some();
    is_gcs
        || matches!(identify::role("", argv), Some(Role::Dashboard))
        || matches!(helper, Some(Part::Autoscaler | Part::ClientServer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(script: &str, more: &str) -> Vec<String> {
        [script, "--gcs-address=10.0.0.1:6379", more]
            .map(str::to_owned)
            .into()
    }

    fn cluster() -> Cluster {
        Cluster {
            gcs_address: Some("10.0.0.1:6379".into()),
            ..Cluster::new(ProcessKey::new(7, 0))
        }
    }

    #[test]
    fn what_only_a_head_has_is_of_the_head_alone() {
        let mut cluster = cluster();
        let worker = argv("/x/ray/_private/workers/default_worker.py", "");
        let parts = [
            argv("/x/ray/autoscaler/_private/monitor.py", ""),
            argv(
                "/x/ray/core/src/ray/gcs/gcs_server",
                "--gcs_server_port=6379",
            ),
        ];
        let named = |argv: &[String], cluster: &Cluster| names(argv, cluster, None);
        assert!(named(&worker, &cluster));
        assert!(parts.iter().all(|part| !named(part, &cluster)));
        cluster.head = true;
        assert!(named(&worker, &cluster));
        assert!(parts.iter().all(|part| named(part, &cluster)));
    }

    #[test]
    fn a_worker_is_no_older_than_its_raylet() {
        let raylet = ProcessKey::new(7, 500_000_000);
        let process = |start| ProcessKey::new(8, start);
        let worker = argv("/x/ray/_private/workers/default_worker.py", "");
        let agent = argv("/x/ray/dashboard/agent.py", "");
        let dashboard = argv("/x/ray/dashboard/dashboard.py", "");
        for started in [worker, agent] {
            assert!(!may_have(raylet, &started, process(400_000_000)));
            assert!(may_have(raylet, &started, process(500_000_000)));
        }
        assert!(may_have(raylet, &dashboard, process(400_000_000)));
    }

    #[test]
    fn an_agent_is_of_the_node_whose_address_it_has() {
        let agent = argv("/x/ray/dashboard/agent.py", "--node-ip-address=10.0.0.2");
        let cluster = cluster();
        assert!(names(&agent, &cluster, Some("10.0.0.2")));
        assert!(names(&agent, &cluster, None));
        assert!(!names(&agent, &cluster, Some("10.0.0.3")));
    }
}
