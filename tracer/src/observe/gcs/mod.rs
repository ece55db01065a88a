//! Asks Ray's GCS by gRPC for jobs, actors, placement groups and nodes, with `record --gcs` only.
//!
//! This runs in a thread of its own. A GCS that answers late, never, too much or with nonsense
//! costs the recorder nothing but the answers. Each question has a timeout and each answer a
//! maximum size.

mod ask;
mod token;

use std::{net::SocketAddr, sync::mpsc, thread, time::Duration};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::sleep,
};

use crate::{
    event::{Cluster, Process},
    ids::ProcessKey,
    observe::processes,
    ray::{
        gcs::{GcsRow, OwnNode, rows_of_node},
        identify::option,
    },
};

/// A GCS is asked soon after its raylet was found, when the first actors may exist. After that it
/// is asked rarely, because it serves the whole cluster.
const FIRST: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// See [`FIRST`].
const PERIOD: Duration = Duration::from_secs(10);

/// A GCS to be asked.
#[derive(Debug, Clone)]
pub struct Target {
    /// The raylet whose GCS it is.
    pub raylet: ProcessKey,
    /// Its address, from the raylet's command line.
    pub address: String,
    /// The raylet's user, if it runs as only one. Token files of other users are not read.
    user: Option<u32>,
    /// The raylet's node. Only rows about it are kept.
    node: OwnNode,
    /// `--cluster-id`. A GCS of another cluster refuses it.
    cluster_id: Option<String>,
    /// `RAY_USE_TLS`.
    tls: bool,
}

impl Target {
    /// Returns the GCS of a raylet, if its command line names one.
    pub fn of(raylet: &Process, cluster: &Cluster) -> Option<Self> {
        let set = |(key, value): &(String, String)| {
            key == "RAY_USE_TLS" && (value == "1" || value.eq_ignore_ascii_case("true"))
        };
        let text = |key: &str| option(&raylet.argv, key).map(str::to_owned);
        Some(Self {
            raylet: raylet.process,
            address: cluster.gcs_address.clone()?,
            user: processes::only_user(raylet.process.pid),
            node: OwnNode {
                node_id: cluster.node_id.clone(),
                address: text("node-ip-address"),
                raylet_socket: text("raylet-socket-name"),
            },
            cluster_id: text("cluster-id"),
            tls: cluster.settings.iter().any(set),
        })
    }

    fn lives(&self) -> bool {
        processes::key(self.raylet.pid).is_some_and(|key| key.same(self.raylet))
    }

    /// Whether the address is a loopback address in the raylet's own container. From here, the same
    /// address would reach another server.
    fn is_elsewhere(&self) -> bool {
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let own = namespace("self");
        own.is_some()
            && is_loopback(&self.address)
            && namespace(&self.raylet.pid.to_string()) != own
    }
}

fn is_loopback(address: &str) -> bool {
    let parsed = address.parse::<SocketAddr>();
    parsed.is_ok_and(|address| address.ip().is_loopback()) || address.starts_with("localhost:")
}

/// An answer.
#[derive(Debug)]
pub struct GcsAnswer {
    /// The raylet whose GCS answered.
    pub raylet: ProcessKey,
    /// Its address.
    pub address: String,
    /// The rows about the raylet's node.
    pub rows: Vec<GcsRow>,
    /// Why rows are missing, if some are.
    pub trouble: Option<String>,
}

/// The thread that asks the GCS of each raylet.
pub struct Gcs {
    targets: UnboundedSender<Target>,
    answers: mpsc::Receiver<GcsAnswer>,
}

impl Gcs {
    /// Starts the thread, without any GCS to ask yet.
    pub fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // For looking up host names, which may block for long.
            .max_blocking_threads(1)
            .build()?;
        let (targets, asked) = unbounded_channel();
        let (sender, answers) = mpsc::channel();
        thread::Builder::new()
            .name("gcs".into())
            .spawn(move || runtime.block_on(serve(asked, sender)))?;
        Ok(Self { targets, answers })
    }

    /// Asks this GCS from now on, as long as its raylet lives.
    pub fn ask(&self, target: Target) {
        // Sending fails only when the thread has ended.
        let _there = self.targets.send(target);
    }

    /// Returns the answers that arrived since the last call.
    pub fn take_answers(&self) -> impl Iterator<Item = GcsAnswer> {
        self.answers.try_iter()
    }
}

async fn serve(mut targets: UnboundedReceiver<Target>, answers: mpsc::Sender<GcsAnswer>) {
    while let Some(target) = targets.recv().await {
        tokio::spawn(follow(target, answers.clone()));
    }
}

/// Asks one GCS until its raylet is gone.
async fn follow(target: Target, answers: mpsc::Sender<GcsAnswer>) {
    for pause in FIRST.into_iter().chain(std::iter::repeat(PERIOD)) {
        sleep(pause).await;
        if !target.lives() {
            return;
        }
        let (rows, trouble) = ask::all(&target).await;
        let answer = GcsAnswer {
            raylet: target.raylet,
            address: target.address.clone(),
            rows: rows_of_node(rows, &target.node),
            trouble: trouble.map(|error| error.to_string()),
        };
        // The last answer of a GCS that was shut down with its raylet is not of interest.
        if !target.lives() || answers.send(answer).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
