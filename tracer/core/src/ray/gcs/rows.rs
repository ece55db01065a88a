//! Defines rows of the GCS's tables, bounded in length, and selects those that concern one node.

use serde::{Deserialize, Serialize};

use std::{
    collections::HashSet,
    fmt::{self, Write as _},
};

use super::messages;
use crate::ids::{HexId, Pid};

/// Bytes of the longest id. Ray's ids have at most 28.
const LONGEST_ID: usize = 32;
/// How many characters of a name are kept.
const LONGEST_NAME: usize = 200;
/// How many characters of an entrypoint are kept.
const LONGEST_ENTRYPOINT: usize = 1000;

/// A row of one of the tables.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "table", rename_all = "snake_case")]
pub enum GcsRow {
    /// An actor.
    Actor(GcsActor),
    /// A placement group.
    PlacementGroup(GcsGroup),
    /// A node.
    Node(GcsNode),
    /// A job.
    Job(GcsJob),
}

/// `ActorTableData`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GcsActor {
    /// The actor.
    pub actor_id: HexId,
    /// Its class, without the names of its module and outer classes.
    pub class: Option<String>,
    /// The name that it was given.
    pub name: Option<String>,
    /// `ALIVE`, `RESTARTING`, `DEAD`, …
    pub state: String,
    /// Its job.
    pub job_id: Option<HexId>,
    /// The worker that it runs in, or last ran in.
    pub worker_id: Option<HexId>,
    /// That worker's pid in Ray's pid namespace.
    pub pid: Option<Pid>,
    /// That worker's node.
    pub node_id: Option<HexId>,
    /// The placement group that it was scheduled into.
    pub placement_group_id: Option<HexId>,
}

/// `PlacementGroupTableData`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GcsGroup {
    /// The placement group.
    pub placement_group_id: HexId,
    /// Its name.
    pub name: Option<String>,
}

/// `GcsNodeInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GcsNode {
    /// The node.
    pub node_id: HexId,
    /// `--node-name`, else its address.
    pub name: Option<String>,
    /// Its host name.
    pub host: Option<String>,
    /// Its address.
    pub address: Option<String>,
    /// The socket of its raylet.
    pub raylet_socket: Option<String>,
}

/// How a raylet knows which node it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnNode {
    /// `--node_id`. Raylets of 2.9 are not told their id.
    pub node_id: Option<HexId>,
    /// `--node_ip_address`.
    pub address: Option<String>,
    /// `--raylet_socket_name`.
    pub raylet_socket: Option<String>,
}

impl OwnNode {
    fn id(&self, rows: &[GcsRow]) -> Option<HexId> {
        let is_it = |row: &GcsRow| match row {
            GcsRow::Node(node)
                if node.address.is_some()
                    && node.address == self.address
                    && node.raylet_socket == self.raylet_socket =>
            {
                Some(node.node_id.clone())
            }
            _ => None,
        };
        self.node_id.clone().or_else(|| rows.iter().find_map(is_it))
    }
}

/// `JobTableData`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GcsJob {
    /// The job.
    pub job_id: HexId,
    /// The command that was started.
    pub entrypoint: Option<String>,
    /// Its driver's pid, in Ray's pid namespace on the driver's node.
    pub driver_pid: Option<Pid>,
}

impl GcsRow {
    /// Returns the id of the row's object.
    pub fn id(&self) -> &HexId {
        match self {
            Self::Actor(actor) => &actor.actor_id,
            Self::PlacementGroup(group) => &group.placement_group_id,
            Self::Node(node) => &node.node_id,
            Self::Job(job) => &job.job_id,
        }
    }
}

/// Writes the row as one line.
impl fmt::Display for GcsRow {
    fn fmt(&self, line: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, named) = match self {
            Self::Actor(actor) => ("actor", actor.name.as_ref().or(actor.class.as_ref())),
            Self::PlacementGroup(group) => ("placement group", group.name.as_ref()),
            Self::Node(node) => ("node", node.name.as_ref()),
            Self::Job(job) => ("job", job.entrypoint.as_ref()),
        };
        write!(line, "{what} {}", self.id())?;
        if let Some(named) = named {
            write!(line, ": {named}")?;
        }
        match self {
            Self::Actor(actor) => write!(line, ", {}", actor.state),
            _ => Ok(()),
        }
    }
}

/// Keeps the rows that concern one node: its own actors, their placement groups, the node itself,
/// and every job. Keeps every row if the node is not known.
pub fn rows_of_node(mut rows: Vec<GcsRow>, node: &OwnNode) -> Vec<GcsRow> {
    let Some(own) = node.id(&rows) else {
        return rows;
    };
    rows.retain(|row| match row {
        GcsRow::Actor(actor) => actor.node_id.as_ref() == Some(&own),
        GcsRow::Node(node) => node.node_id == own,
        _ => true,
    });
    let used: HashSet<HexId> = rows
        .iter()
        .filter_map(|row| match row {
            GcsRow::Actor(actor) => actor.placement_group_id.clone(),
            _ => None,
        })
        .collect();
    rows.retain(|row| match row {
        GcsRow::PlacementGroup(group) => used.contains(&group.placement_group_id),
        _ => true,
    });
    rows
}

pub(super) fn actor(row: &messages::Actor) -> Option<GcsRow> {
    let address = row.address.clone().unwrap_or_default();
    let class = row.class_name.rsplit('.').next().unwrap_or_default();
    Some(GcsRow::Actor(GcsActor {
        actor_id: id(&row.actor_id)?,
        class: text(class, LONGEST_NAME),
        name: text(&row.name, LONGEST_NAME),
        state: state(row.state),
        job_id: id(&row.job_id),
        worker_id: id(&address.worker_id),
        pid: Some(Pid(row.pid)).filter(|pid| pid.0 != 0),
        node_id: id(&row.node_id).or_else(|| id(&address.node_id)),
        placement_group_id: id(&row.placement_group_id),
    }))
}

pub(super) fn group(row: &messages::PlacementGroup) -> Option<GcsRow> {
    Some(GcsRow::PlacementGroup(GcsGroup {
        placement_group_id: id(&row.placement_group_id)?,
        name: text(&row.name, LONGEST_NAME),
    }))
}

pub(super) fn node(row: &messages::Node) -> Option<GcsRow> {
    Some(GcsRow::Node(GcsNode {
        node_id: id(&row.node_id)?,
        name: text(&row.name, LONGEST_NAME),
        host: text(&row.hostname, LONGEST_NAME),
        address: text(&row.address, LONGEST_NAME),
        raylet_socket: text(&row.raylet_socket, LONGEST_NAME),
    }))
}

pub(super) fn job(row: &messages::Job) -> Option<GcsRow> {
    Some(GcsRow::Job(GcsJob {
        job_id: id(&row.job_id)?,
        entrypoint: text(&row.entrypoint, LONGEST_ENTRYPOINT),
        driver_pid: u32::try_from(row.driver_pid)
            .ok()
            .map(Pid)
            .filter(|pid| pid.0 != 0),
    }))
}

/// Returns the name of an `ActorTableData.ActorState`.
fn state(number: i32) -> String {
    let name = match number {
        0 => "DEPENDENCIES_UNREADY",
        1 => "PENDING_CREATION",
        2 => "ALIVE",
        3 => "RESTARTING",
        4 => "DEAD",
        other => return format!("state {other}"),
    };
    name.to_owned()
}

fn text(text: &str, longest: usize) -> Option<String> {
    (!text.is_empty()).then(|| text.chars().take(longest).collect())
}

fn id(bytes: &[u8]) -> Option<HexId> {
    if bytes.len() > LONGEST_ID {
        return None;
    }
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a String does not fail.
        let _written = write!(hex, "{byte:02x}");
    }
    HexId::parse(&hex)
}
