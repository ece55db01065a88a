//! What the end-to-end tests share: the recorder as a program, the staging scripts, and the comparison with the truth.

pub mod recorder;
pub mod staging;
pub mod truth;
