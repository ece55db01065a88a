//! What a node has to give to tasks and actors, as its raylet's command line says.

use crate::ray::identify;

/// `8` for `GPU` of `--static_resource_list=CPU,4,GPU,8,…`.
pub(super) fn of_raylet(argv: &[String], name: &str) -> Option<f64> {
    let list = identify::option(argv, "static-resource-list")?;
    let parts: Vec<&str> = list.split(',').collect();
    let mut pairs = parts.chunks_exact(2);
    pairs.find(|pair| pair[0] == name)?[1].parse().ok()
}
