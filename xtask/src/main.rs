//! Development tasks of raytrace.
fn main() {}
