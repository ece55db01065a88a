//! Fuzzes `ray timeline`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::ray_timeline(input));
