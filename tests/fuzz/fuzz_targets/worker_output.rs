//! Fuzzes the output of a worker.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::worker_output(input));
