//! The observers, one module for each source. They turn what they read into observations.

pub mod clusters;
pub mod forks;
#[cfg(feature = "record")]
pub mod gcs;
#[cfg_attr(not(feature = "nvml"), path = "gpu/stub.rs")]
pub mod gpu;
pub mod host;
#[cfg(feature = "record")]
pub mod kernel;
pub mod kmsg;
pub mod knobs;
pub mod packages;
pub mod pods;
pub mod ray_logs;
pub mod sessions;
pub mod shared_files;
pub mod signals;
pub mod slurm;

pub use raytrace_proc::{
    cgroup_namespace, cgroups, clock, maps, memory, pagemap, processes, read_errors, rooted,
    timed_read, users,
};
#[cfg(feature = "stacks")]
pub use raytrace_stacks as stacks;
