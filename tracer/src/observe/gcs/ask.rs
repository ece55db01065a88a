//! Asks one GCS once: makes a connection and reads four tables.

use std::time::Duration;

use prost::bytes::{Buf as _, BufMut as _};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use super::{
    Target,
    token::{self, TokenError},
};
use crate::ray::gcs::{GcsError, GcsRow, MOST_ROWS, Table};

/// A GCS that has not answered after this time is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum size of an answer. It is large enough for the maximum number of rows.
const LARGEST: usize = 32 << 20;

/// Why a GCS, or one table of it, was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(
        "{0} is an address inside the raylet's own container; record with --gcs in that container, or start Ray with --node-ip-address"
    )]
    Elsewhere(String),
    #[error(
        "the GCS uses TLS (RAY_USE_TLS), which raytrace does not support; actor names come from titles and logs"
    )]
    Tls,
    #[error("invalid address {0}")]
    Address(String),
    #[error("no connection to {address}: {why}")]
    Connection { address: String, why: String },
    #[error("{table:?}: no answer within {} s", PATIENCE.as_secs())]
    Late { table: Table },
    #[error(
        "the GCS requires a token and none was found; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN in the raylet's environment, or write ~/.ray/auth_token of its user"
    )]
    NoToken,
    #[error("the GCS refuses the raylet's token: {0}")]
    WrongToken(String),
    #[error("the GCS serves another cluster: {0}")]
    OtherCluster(String),
    #[error("{table:?}: {code:?}: {message}")]
    Call {
        table: Table,
        code: Code,
        message: String,
    },
    #[error("{table:?}: only the first {MOST_ROWS} rows were read")]
    Full { table: Table },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Reply(#[from] GcsError),
}

/// Returns all rows that the GCS gives, and the first error.
pub(super) async fn all(target: &Target) -> (Vec<GcsRow>, Option<AskError>) {
    let mut rows = Vec::new();
    let mut trouble = None;
    match Caller::connect(target).await {
        Err(error) => trouble = Some(error),
        Ok(mut caller) => {
            for table in Table::ALL {
                match caller.rows(table).await {
                    Ok(more) => {
                        if more.len() as u64 >= MOST_ROWS.cast_unsigned() {
                            trouble = trouble.or(Some(AskError::Full { table }));
                        }
                        rows.extend(more);
                    }
                    // It will not answer the next question either.
                    Err(error @ AskError::Late { .. }) => {
                        trouble = trouble.or(Some(error));
                        break;
                    }
                    Err(error) => trouble = trouble.or(Some(error)),
                }
            }
        }
    }
    (rows, trouble)
}

struct Caller<'a> {
    target: &'a Target,
    grpc: Grpc<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

impl<'a> Caller<'a> {
    async fn connect(target: &'a Target) -> Result<Self, AskError> {
        let address = || target.address.clone();
        if target.tls {
            return Err(AskError::Tls);
        }
        if target.is_elsewhere() {
            return Err(AskError::Elsewhere(address()));
        }
        let token = token::of(target.raylet, target.user)?;
        let endpoint = Endpoint::from_shared(format!("http://{}", target.address));
        let endpoint = endpoint.map_err(|_| AskError::Address(address()))?;
        let connected = tokio::time::timeout(PATIENCE, endpoint.connect()).await;
        let refused = |why| AskError::Connection {
            address: address(),
            why,
        };
        let channel = connected
            .map_err(|_| refused(format!("no answer within {} s", PATIENCE.as_secs())))?
            .map_err(|error| refused(innermost(&error)))?;
        Ok(Self {
            target,
            grpc: Grpc::new(channel).max_decoding_message_size(LARGEST),
            token,
        })
    }

    async fn rows(&mut self, table: Table) -> Result<Vec<GcsRow>, AskError> {
        let reply = tokio::time::timeout(PATIENCE, self.call(table)).await;
        let reply = reply.map_err(|_| AskError::Late { table })?;
        let reply = reply.map_err(|status| self.said(table, &status))?;
        Ok(table.rows(&reply)?)
    }

    async fn call(&mut self, table: Table) -> Result<Vec<u8>, Status> {
        let ready = self.grpc.ready().await;
        ready.map_err(|error| Status::unavailable(innermost(&error)))?;
        let mut request = Request::new(table.request());
        let head = request.metadata_mut();
        if let Some(token) = &self.token {
            head.insert("authorization", token.clone());
        }
        let cluster = self.target.cluster_id.as_deref();
        if let Some(cluster) = cluster.and_then(|id| id.parse().ok()) {
            head.insert("ray_cluster_id", cluster);
        }
        let path = table.path().parse();
        let path = path.map_err(|_| Status::internal("an invalid path"))?;
        let reply = self.grpc.unary(request, path, Raw).await?;
        Ok(reply.into_inner())
    }

    fn said(&self, table: Table, status: &Status) -> AskError {
        let message: String = status.message().chars().take(200).collect();
        // Ray 2.9 aborts the call for a wrong cluster id.
        let other = status.code() == Code::Aborted || message.contains("WrongClusterID");
        match status.code() {
            _ if other => AskError::OtherCluster(message),
            Code::Unauthenticated if self.token.is_none() => AskError::NoToken,
            Code::Unauthenticated => AskError::WrongToken(message),
            code => AskError::Call {
                table,
                code,
                message,
            },
        }
    }
}

/// Returns the innermost error, which is the system's.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A codec that passes messages on as bytes. They are decoded elsewhere.
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}
