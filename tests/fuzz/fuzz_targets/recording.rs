//! Fuzzes recordings.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::recording(input));
