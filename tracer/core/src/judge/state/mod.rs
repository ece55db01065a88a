//! Holds the tables that events are folded into.
//!
//! They see events and one another, but nothing that queries them.

pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod gcs;
pub(crate) mod gpu_errors;
pub(crate) mod gpus;
pub(crate) mod growth_attribution;
pub(crate) mod growth_floor;
pub(crate) mod interferences;
pub(crate) mod limits;
pub(crate) mod lost_sources;
pub(crate) mod machine;
pub(crate) mod owners;
pub(crate) mod processes;
pub(crate) mod ray_log_records;
pub(crate) mod recent_samples;
pub(crate) mod shared_files;
pub(crate) mod shares;
pub(crate) mod signal_losses;
pub(crate) mod snapshot;
pub(crate) mod stepd_signals;
pub(crate) mod timestamped;
pub(crate) mod world;
