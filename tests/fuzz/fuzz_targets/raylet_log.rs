//! Fuzzes the raylet's log.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::raylet_log(input));
