//! Reads from a raylet's command line what resources its node has for tasks and actors.

use crate::ray::identify;

/// Returns the amount of a resource: `8` for `GPU` of `--static_resource_list=CPU,4,GPU,8,…`.
pub(super) fn of_raylet(argv: &[String], name: &str) -> Option<f64> {
    let list = identify::option(argv, "static-resource-list")?;
    let parts: Vec<&str> = list.split(',').collect();
    let mut pairs = parts.chunks_exact(2);
    pairs.find(|pair| pair[0] == name)?[1].parse().ok()
}
