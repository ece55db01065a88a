//! Answers questions from the tables of `state`. A query keeps nothing and gives no verdict.

pub(crate) mod gcs;
pub(crate) mod gpus;
pub(crate) mod growth_rates;
pub(crate) mod headroom;
pub(crate) mod live_processes;
pub(crate) mod memory;
pub(crate) mod message_times;
pub(crate) mod minute;
pub(crate) mod monitor;
pub(crate) mod oom;
pub(crate) mod owners;
pub(crate) mod place;
pub(crate) mod shared_files;
