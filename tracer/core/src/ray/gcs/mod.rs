//! Reads the replies of Ray's GCS about jobs, actors, placement groups and nodes. Pure.
//!
//! Requests and replies are bytes, rows are data. `observe::gcs` carries the bytes.
//!
//! Mirrors `src/ray/protobuf/{gcs,gcs_service}.proto`: the numbers are the same from Ray 2.9.3 to
//! 2.60. Fields that are not named here are skipped.

mod messages;
mod rows;

use prost::Message as _;

pub use rows::{GcsActor, GcsGroup, GcsJob, GcsNode, GcsRow, OwnNode, rows_of_node};

/// How many rows of one table are asked for. This many actors take 10 MB.
pub const MOST_ROWS: i64 = 10_000;

/// Why a reply cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GcsError {
    /// The bytes are not such a message.
    #[error("{bytes} bytes that are no reply to {method}: {error}")]
    Garbled {
        /// What was asked.
        method: &'static str,
        /// How many bytes there were.
        bytes: usize,
        /// What is wrong with them.
        error: prost::DecodeError,
    },
    /// The GCS refuses.
    #[error("{method} was refused with status {code}: {message}")]
    Refused {
        /// What was asked.
        method: &'static str,
        /// `GcsStatus.code`.
        code: i32,
        /// `GcsStatus.message`, at most 200 characters of it.
        message: String,
    },
}

/// A table of the GCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Living actors, and dead actors of living jobs.
    Actors,
    /// Placement groups.
    PlacementGroups,
    /// Nodes.
    Nodes,
    /// Jobs. Before 2.35 the GCS asks each driver first. They are asked for last, because a driver
    /// that hangs delays the reply.
    Jobs,
}

impl Table {
    /// The tables in the order in which they are asked for.
    pub const ALL: [Self; 4] = [Self::Actors, Self::PlacementGroups, Self::Nodes, Self::Jobs];

    /// Returns the path of its method.
    pub fn path(self) -> &'static str {
        match self {
            Self::Actors => "/ray.rpc.ActorInfoGcsService/GetAllActorInfo",
            Self::PlacementGroups => "/ray.rpc.PlacementGroupInfoGcsService/GetAllPlacementGroup",
            Self::Nodes => "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
            Self::Jobs => "/ray.rpc.JobInfoGcsService/GetAllJobInfo",
        }
    }

    fn method(self) -> &'static str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// Returns the bytes of the request.
    pub fn request(self) -> Vec<u8> {
        let limit = Some(MOST_ROWS);
        match self {
            Self::Actors => messages::AskActors { limit }.encode_to_vec(),
            Self::PlacementGroups => messages::AskPlacementGroups { limit }.encode_to_vec(),
            // Nodes had no limit up to 2.9.
            Self::Nodes => Vec::new(),
            Self::Jobs => messages::AskJobs {
                limit: i32::try_from(MOST_ROWS).ok(),
                without_submission: Some(true),
                without_running_tasks: Some(true),
            }
            .encode_to_vec(),
        }
    }

    /// Returns the rows of a reply that have an id.
    pub fn rows(self, reply: &[u8]) -> Result<Vec<GcsRow>, GcsError> {
        match self {
            Self::Actors => {
                let reply: messages::Actors = self.decode(reply)?;
                self.accepted(reply.status)?;
                Ok(reply.rows.iter().filter_map(rows::actor).collect())
            }
            Self::PlacementGroups => {
                let reply: messages::PlacementGroups = self.decode(reply)?;
                self.accepted(reply.status)?;
                Ok(reply.rows.iter().filter_map(rows::group).collect())
            }
            Self::Nodes => {
                let reply: messages::Nodes = self.decode(reply)?;
                self.accepted(reply.status)?;
                Ok(reply.rows.iter().filter_map(rows::node).collect())
            }
            Self::Jobs => {
                let reply: messages::Jobs = self.decode(reply)?;
                self.accepted(reply.status)?;
                Ok(reply.rows.iter().filter_map(rows::job).collect())
            }
        }
    }

    fn decode<M: prost::Message + Default>(self, reply: &[u8]) -> Result<M, GcsError> {
        M::decode(reply).map_err(|error| GcsError::Garbled {
            method: self.method(),
            bytes: reply.len(),
            error,
        })
    }

    fn accepted(self, status: Option<messages::Status>) -> Result<(), GcsError> {
        match status {
            Some(status) if status.code != 0 => Err(GcsError::Refused {
                method: self.method(),
                code: status.code,
                message: status.message.chars().take(200).collect(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(any(test, feature = "samples"))]
#[path = "tests/samples.rs"]
pub mod samples;
#[cfg(test)]
mod tests;
