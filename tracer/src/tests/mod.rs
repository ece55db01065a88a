//! Tests of the crate as a whole: its structure, and recordings of earlier builds.

pub(crate) mod damage;
pub(crate) mod golden;
mod layering;
pub(crate) mod skips;
