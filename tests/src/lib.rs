//! Shared code of the end-to-end tests: the recorder as a program, the staging scripts, the truth.

pub mod cgroup;
pub mod day;
pub mod exits;
pub mod fake_raylet;
pub mod fleet;
pub mod forecast;
pub mod initrd;
pub mod keep;
pub mod month;
mod ports;
pub mod publishing;
mod ray_root;
pub mod recorder;
#[path = "../../tracer/src/tests/skips.rs"]
mod skips;
pub mod staging;
pub mod stream;
pub mod truth;
pub mod vm;
pub mod wait;

/// Says why the calling test does not test everything that it should. `cargo xtask test` prints
/// this at its end.
pub fn skipped(why: impl std::fmt::Display) {
    skips::skipped(why);
}

/// Returns whether the long versions of tests are asked for, as `cargo xtask soak` does.
pub fn soak() -> bool {
    std::env::var_os("RAYTRACE_SOAK").is_some()
}
