//! Holds the tables that events are folded into.
//!
//! They see events and one another, but nothing that queries them.

pub(in crate::judge) mod calls;
pub(in crate::judge) mod clock;
pub(in crate::judge) mod gcs;
pub(in crate::judge) mod gpu_errors;
pub(in crate::judge) mod gpus;
pub(in crate::judge) mod growth_attribution;
pub(in crate::judge) mod growth_floor;
pub(in crate::judge) mod limits;
pub(in crate::judge) mod lost_sources;
pub(in crate::judge) mod machine;
pub(in crate::judge) mod owners;
pub(in crate::judge) mod processes;
pub(in crate::judge) mod ray_log_records;
pub(in crate::judge) mod recent_samples;
pub(in crate::judge) mod shared_files;
pub(in crate::judge) mod shares;
pub(in crate::judge) mod signal_losses;
pub(in crate::judge) mod snapshot;
pub(in crate::judge) mod stepd_signals;
pub(in crate::judge) mod timestamped;
pub(in crate::judge) mod world;
