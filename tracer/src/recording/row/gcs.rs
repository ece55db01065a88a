//! The stored form of rows of the GCS's tables.

use serde::{Deserialize, Serialize};

use super::{Stored, stored, stored_as};
use crate::{
    ids::{HexId, Pid},
    ray,
};

stored_as! {
    GcsRow => ray::gcs::GcsRow,
    GcsActor => ray::gcs::GcsActor,
    GcsGroup => ray::gcs::GcsGroup,
    GcsNode => ray::gcs::GcsNode,
    GcsJob => ray::gcs::GcsJob,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::gcs::GcsRow", tag = "table", rename_all = "snake_case")]
pub(super) enum GcsRow {
    Actor(#[serde(with = "stored")] ray::gcs::GcsActor),
    PlacementGroup(#[serde(with = "stored")] ray::gcs::GcsGroup),
    Node(#[serde(with = "stored")] ray::gcs::GcsNode),
    Job(#[serde(with = "stored")] ray::gcs::GcsJob),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::gcs::GcsActor")]
pub(super) struct GcsActor {
    actor_id: HexId,
    class: Option<String>,
    name: Option<String>,
    state: String,
    job_id: Option<HexId>,
    worker_id: Option<HexId>,
    pid: Option<Pid>,
    node_id: Option<HexId>,
    placement_group_id: Option<HexId>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::gcs::GcsGroup")]
pub(super) struct GcsGroup {
    placement_group_id: HexId,
    name: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::gcs::GcsNode")]
pub(super) struct GcsNode {
    node_id: HexId,
    name: Option<String>,
    host: Option<String>,
    address: Option<String>,
    raylet_socket: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ray::gcs::GcsJob")]
pub(super) struct GcsJob {
    job_id: HexId,
    entrypoint: Option<String>,
    driver_pid: Option<Pid>,
}
