//! Pure: from events to deaths, memory and findings. No I/O, no clock, no root.

pub mod report;
