//! Fuzzes the kernel's log.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| raytrace::fuzz::kernel_log(input));
