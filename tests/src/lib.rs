//! What the end-to-end tests share: the recorder as a program, the staging scripts, the comparison with the truth, and a
//! recording of a whole day.

pub mod cgroup;
pub mod day;
pub mod exits;
pub mod fake_raylet;
pub mod fleet;
pub mod forecast;
pub mod initrd;
pub mod keep;
pub mod month;
pub mod publishing;
mod ray_root;
pub mod recorder;
#[path = "../../tracer/src/skips.rs"]
mod skips;
pub mod staging;
pub mod stream;
pub mod truth;
pub mod vm;

/// Says why the test that calls this does not test all that it should: `cargo xtask test` names it at its end.
pub fn skipped(why: impl std::fmt::Display) {
    skips::skipped(why);
}

/// Whether the long versions of tests are asked for: `cargo xtask soak`.
#[must_use]
pub fn soak() -> bool {
    std::env::var_os("RAYTRACE_SOAK").is_some()
}
