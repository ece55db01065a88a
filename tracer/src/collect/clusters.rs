//! The clusters that are followed: which are wanted, how many there may be, and when they are over.
//!
//! It also finds the cluster that a command line names.

mod commands;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use commands::Commands;

use crate::{
    event::{Cluster, Process, Role},
    ids::{Bytes, HexId, Pid, ProcessKey},
    observe::{clusters, processes, users},
    ray::{identify, tree::Part},
};

/// The most clusters that are followed: of all users, and of one. Each raylet costs some
/// descriptors, and any program can call itself a raylet.
const MOST_CLUSTERS: usize = 512;
const MOST_OF_ONE: usize = 128;
/// So many of each user are followed even if other users have all the others, up to twice as many
/// in all.
const ALWAYS_OF_ONE: usize = 8;
/// A cluster is over after this many scans, ten seconds apart, that found none of its processes
/// alive. Until then its last log lines are written and causes may refer to it.
pub(super) const SCANS_UNTIL_OVER: u32 = 15;

/// Which raylets are wanted.
#[derive(Debug, Clone, Default)]
pub struct ClusterFilter {
    /// Only the raylet of this session folder.
    pub session_dir: Option<PathBuf>,
    /// Only this raylet.
    pub raylet: Option<Pid>,
    /// Only raylets of this user.
    pub user: Option<u32>,
}

/// All clusters that are followed, and the raylets that are not.
#[derive(Default)]
pub(super) struct Clusters {
    wanted: ClusterFilter,
    followed: HashMap<ProcessKey, Followed>,
    /// Raylets that are not followed because too many are, and how many there have been.
    refused: HashSet<ProcessKey>,
    pub(super) left_out: u64,
    commands: Commands,
}

/// Whether one more cluster may be followed beside so many of all users and of this one.
fn is_within_bounds(all: usize, of_user: usize) -> bool {
    let ordinary = all < MOST_CLUSTERS && of_user < MOST_OF_ONE;
    ordinary || all < 2 * MOST_CLUSTERS && of_user < ALWAYS_OF_ONE
}

/// One cluster.
struct Followed {
    cluster: Cluster,
    /// The user who started its raylet.
    owner: Option<u32>,
    /// The same, if the raylet runs as only one user.
    user: Option<u32>,
    /// The address of its node, as its raylet's command line has it.
    address: Option<String>,
    /// The threshold that its raylet's monitor logged first.
    logged_threshold: Option<Bytes>,
    /// The number of scans since a process of it was alive.
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

    /// Returns each cluster with its raylet. The raylet's start is truncated to what /proc shows.
    pub(super) fn all(&self) -> impl Iterator<Item = (ProcessKey, &Cluster)> {
        let all = self.followed.iter();
        all.map(|(raylet, one)| (*raylet, &one.cluster))
    }

    pub(super) fn get(&self, raylet: ProcessKey) -> Option<&Cluster> {
        let known = self.followed.get(&raylet.truncated());
        known.map(|known| &known.cluster)
    }

    /// Returns the user who started a cluster's raylet.
    pub(super) fn owner(&self, raylet: ProcessKey) -> Option<u32> {
        self.followed.get(&raylet.truncated())?.owner
    }

    /// Keeps the threshold that a raylet's monitor logged, if it is the first.
    pub(super) fn threshold_logged(&mut self, raylet: ProcessKey, threshold: Bytes) {
        if let Some(one) = self.followed.get_mut(&raylet.truncated()) {
            one.logged_threshold.get_or_insert(threshold);
        }
    }

    /// Returns the threshold that a raylet's monitor logged first.
    pub(super) fn logged_threshold(&self, raylet: ProcessKey) -> Option<Bytes> {
        self.followed.get(&raylet.truncated())?.logged_threshold
    }

    /// Returns the user, if only that user's clusters are wanted.
    pub(super) fn filter_user(&self) -> Option<u32> {
        self.wanted.user
    }

    /// Forgets refused raylets that no longer exist.
    pub(super) fn keep_refused(&mut self, raylets: &[Pid]) {
        self.refused
            .retain(|refused| raylets.contains(&refused.pid));
    }

    pub(super) fn is_refused(&self, raylet: ProcessKey) -> bool {
        self.refused.contains(&raylet)
    }

    /// Begins to follow the cluster of a new raylet, if it is wanted.
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
            logged_threshold: None,
            over: 0,
        };
        self.followed.insert(key, followed);
        Some(cluster)
    }

    /// Whether one more cluster of this raylet's user may be followed. Clusters that are over count
    /// until their logs are closed.
    fn has_room(&mut self, raylet: &Process) -> bool {
        let owner = users::real_user(raylet.process.pid);
        let all = self.followed.values();
        let of_user = all.filter(|one| one.owner == owner);
        let has_room = is_within_bounds(self.followed.len(), of_user.count());
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

    /// Returns the cluster that the command line of a process names.
    pub(super) fn named(&self, argv: &[String], process: ProcessKey) -> Option<ProcessKey> {
        let all = self.followed.iter();
        let found = all.filter(|(raylet, one)| {
            names(argv, &one.cluster, one.address.as_deref()) && may_have(**raylet, argv, process)
        });
        let user = processes::only_user(process.pid);
        self.first_of_user(found.map(|(raylet, _)| *raylet), [user])
    }

    /// Returns the cluster that began first among those with a raylet that runs as root or as one
    /// of these users. Any user can start a program that calls itself a raylet and names another
    /// user's session.
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

    /// Reads the time zones of Ray's logs again, because UTC offsets change twice a year. Returns
    /// those that have changed.
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

    /// Releases clusters that have had no live process for a while. Called at each scan of the
    /// machine.
    ///
    /// A node that runs for days sees many clusters, and a file that is open keeps its file system
    /// from being unmounted.
    pub(super) fn release(&mut self, alive: &HashSet<ProcessKey>) -> Vec<ProcessKey> {
        for (raylet, one) in &mut self.followed {
            one.over = if alive.contains(raylet) {
                0
            } else {
                one.over + 1
            };
        }
        let over = self
            .followed
            .extract_if(|_, one| one.over >= SCANS_UNTIL_OVER);
        over.map(|(raylet, _)| raylet).collect()
    }

    /// Forgets each minute which command paths were checked: they may lead elsewhere now.
    pub(super) fn forget_commands(&mut self) {
        self.commands.forget();
    }
}

/// Whether a process is young enough to be a part of this raylet's node. A raylet starts its
/// workers and agents itself.
fn may_have(raylet: ProcessKey, argv: &[String], process: ProcessKey) -> bool {
    let is_started = matches!(identify::role("", argv), Some(Role::Worker | Role::Agent));
    !is_started || process.truncated().start >= raylet.truncated().start
}

/// Returns the address of the node that a part of Ray was started on.
fn address(argv: &[String]) -> Option<&str> {
    identify::option(argv, "node-ip-address")
}

/// Whether a command line names the session or the GCS of a cluster, and no other node of it. One
/// host may have several nodes.
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

/// Whether a command line is that of a part that only the head node has.
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

    /// Users with many raylets leave room for the first of another user.
    #[test]
    fn bound_of_all_leaves_some_for_each_user() {
        assert!(is_within_bounds(0, 0) && is_within_bounds(200, MOST_OF_ONE - 1));
        assert!(!is_within_bounds(200, MOST_OF_ONE));
        assert!(is_within_bounds(MOST_CLUSTERS, 0));
        assert!(is_within_bounds(MOST_CLUSTERS, ALWAYS_OF_ONE - 1));
        assert!(!is_within_bounds(MOST_CLUSTERS, ALWAYS_OF_ONE));
        assert!(!is_within_bounds(2 * MOST_CLUSTERS, 0));
    }

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
    fn head_parts_belong_to_the_head_only() {
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
    fn workers_start_after_their_raylet() {
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
    fn agent_belongs_to_node_with_its_address() {
        let agent = argv("/x/ray/dashboard/agent.py", "--node-ip-address=10.0.0.2");
        let cluster = cluster();
        assert!(names(&agent, &cluster, Some("10.0.0.2")));
        assert!(names(&agent, &cluster, None));
        assert!(!names(&agent, &cluster, Some("10.0.0.3")));
    }
}
