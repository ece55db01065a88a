//! Defines the messages of the GCS's services, with only the fields that are used.

/// `GcsStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

/// `GetAllActorInfoRequest`; `show_dead_jobs` (1) is left out.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AskActors {
    #[prost(int64, optional, tag = "2")]
    pub(super) limit: Option<i64>,
}

/// `GetAllPlacementGroupRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AskPlacementGroups {
    #[prost(int64, optional, tag = "1")]
    pub(super) limit: Option<i64>,
}

/// `GetAllJobInfoRequest`. Each field that is skipped saves the GCS a read of its store, and a
/// question to each driver.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AskJobs {
    #[prost(int32, optional, tag = "1")]
    pub(super) limit: Option<i32>,
    #[prost(bool, optional, tag = "3")]
    pub(super) without_submission: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub(super) without_running_tasks: Option<bool>,
}

/// `GetAllActorInfoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Actors {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<Actor>,
}

/// `ActorTableData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Actor {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) actor_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) job_id: Vec<u8>,
    #[prost(int32, tag = "6")]
    pub(super) state: i32,
    #[prost(message, optional, tag = "9")]
    pub(super) address: Option<Address>,
    #[prost(string, tag = "12")]
    pub(super) name: String,
    #[prost(uint32, tag = "16")]
    pub(super) pid: u32,
    #[prost(string, tag = "23")]
    pub(super) class_name: String,
    #[prost(bytes = "vec", tag = "29")]
    pub(super) node_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "30")]
    pub(super) placement_group_id: Vec<u8>,
}

/// `Address`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Address {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) node_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) worker_id: Vec<u8>,
}

/// `GetAllPlacementGroupReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PlacementGroups {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<PlacementGroup>,
}

/// `PlacementGroupTableData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PlacementGroup {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) placement_group_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

/// `GetAllNodeInfoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Nodes {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<Node>,
}

/// `GcsNodeInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Node {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) node_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) address: String,
    #[prost(string, tag = "3")]
    pub(super) raylet_socket: String,
    #[prost(string, tag = "8")]
    pub(super) hostname: String,
    #[prost(string, tag = "12")]
    pub(super) name: String,
}

/// `GetAllJobInfoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Jobs {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<Job>,
}

/// `JobTableData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Job {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) job_id: Vec<u8>,
    #[prost(int64, tag = "5")]
    pub(super) driver_pid: i64,
    #[prost(string, tag = "9")]
    pub(super) entrypoint: String,
}
