//! Fuzzes texts for `raytrace explain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::explain(input));
