//! raytrace.
fn main() {}
