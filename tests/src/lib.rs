//! What the end-to-end tests share: the recorder as a program, the staging scripts, the comparison with the truth, and a
//! recording of a whole day.

pub mod day;
pub mod exits;
pub mod fake_raylet;
pub mod initrd;
mod ray_root;
pub mod recorder;
pub mod staging;
pub mod stream;
pub mod truth;
pub mod vm;

/// Whether the long versions of tests are asked for: `cargo xtask soak`.
#[must_use]
pub fn soak() -> bool {
    std::env::var_os("RAYTRACE_SOAK").is_some()
}
