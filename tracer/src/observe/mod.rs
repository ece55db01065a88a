//! The observers: one file a source; each turns what it reads into observations and judges nothing.

pub mod cgroup_namespace;
pub mod cgroups;
pub mod clock;
pub mod clusters;
pub mod forks;
pub mod gcs;
pub mod gpu;
pub mod host;
pub mod kernel;
pub mod kmsg;
pub mod knobs;
pub mod maps;
pub mod memory;
pub mod pagemap;
pub mod processes;
pub mod ray_logs;
pub mod rooted;
pub mod sessions;
pub mod shared_files;
pub mod stacks;
pub mod stall;
