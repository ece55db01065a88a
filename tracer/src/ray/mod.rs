//! What Ray is: its facts, its log formats by version, its processes and sessions.

pub mod facts;
pub mod identify;
