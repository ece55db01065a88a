//! Fuzzes command lines and titles.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::command_line(input));
