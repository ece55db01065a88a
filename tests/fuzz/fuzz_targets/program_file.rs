//! Fuzzes the program and library files of a job.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::program_file(input));
