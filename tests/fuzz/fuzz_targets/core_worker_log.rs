//! Fuzzes a core worker's log.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::core_worker_log(input));
