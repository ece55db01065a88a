//! Answers questions from the tables of `state`. A query keeps nothing and gives no verdict.

pub(in crate::judge) mod gcs;
pub(in crate::judge) mod gpus;
pub(in crate::judge) mod growth_rates;
pub(in crate::judge) mod headroom;
pub(in crate::judge) mod live_processes;
pub(in crate::judge) mod memory;
pub(in crate::judge) mod message_times;
pub(in crate::judge) mod minute;
pub(in crate::judge) mod monitor;
pub(in crate::judge) mod oom;
pub(in crate::judge) mod owners;
pub(in crate::judge) mod place;
pub(in crate::judge) mod shared_files;
