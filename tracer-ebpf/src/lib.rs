//! The eBPF programs of raytrace and the records that they share with user space.
#![no_std]
