//! The observers: one file a source; each turns what it reads into observations and judges nothing.

pub mod clusters;
pub mod forks;
pub mod gcs;
pub mod gpu;
pub mod host;
pub mod kernel;
pub mod kmsg;
pub mod knobs;
pub mod ray_logs;
pub mod sessions;
pub mod shared_files;

pub use raytrace_proc::{
    cgroup_namespace, cgroups, clock, maps, memory, pagemap, processes, rooted, stall,
};
pub use raytrace_stacks as stacks;
