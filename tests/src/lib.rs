//! What the end-to-end tests share: the recorder as a program, the staging scripts, the comparison with the truth, and a
//! recording of a whole day.

pub mod day;
pub mod recorder;
pub mod staging;
pub mod truth;
