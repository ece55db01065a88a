//! Fuzzes replies of the GCS.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::gcs_reply(input));
