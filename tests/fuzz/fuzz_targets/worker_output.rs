//! Fuzzes what a worker prints.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::worker_output(input));
