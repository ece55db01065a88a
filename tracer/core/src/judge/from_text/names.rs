//! Compares the names that Ray and the kernel give to a process.

use super::claim::Subject;
use crate::event::Role;

/// The kernel keeps 15 bytes of a name.
const COMM_BYTES: usize = 15;

/// Whether the names agree; `None` if one of them has no telling name.
pub(super) fn name_agrees(ray: &Subject, host: &Subject) -> Option<bool> {
    let comm = host.comm.as_deref()?;
    match ray.role {
        Some(Role::Raylet) => return Some(comm == "raylet"),
        // Its program may have any name.
        Some(Role::Descendant) => return None,
        _ => {}
    }
    let class = ray.class.as_deref().or(ray.task.as_deref());
    let Some(class) = class else {
        // Every worker of Ray has a name that begins like this, unless the job's code renamed it.
        return (!comm.starts_with("ray::") && !comm.starts_with("python")).then_some(false);
    };
    // The worker has just begun or ended what it ran.
    if comm.starts_with("python") || comm == "ray::IDLE" {
        return None;
    }
    let full = format!("ray::{class}");
    if full.len() <= COMM_BYTES {
        let rest = comm.strip_prefix(&full);
        return Some(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    }
    let end = (0..=COMM_BYTES.min(full.len()))
        .rev()
        .find(|at| full.is_char_boundary(*at))
        .unwrap_or(0);
    Some(comm.starts_with(&full[..end]))
}
