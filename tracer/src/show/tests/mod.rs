//! What tests of several views share.

pub(crate) mod sample;
