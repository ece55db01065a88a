//! Container ids in cgroup paths: Docker, containerd, CRI-O, Podman and Kubernetes name the cgroup after the container.

/// The 64-digit id in the innermost component that has one: `/docker/ID`, `…/cri-containerd-ID.scope`, `/kubepods/…/ID`.
#[must_use]
pub fn id(cgroup: &str) -> Option<String> {
    cgroup.split('/').rev().find_map(|component| {
        let stem = component.strip_suffix(".scope").unwrap_or(component);
        let candidate = stem.rsplit(['-', ':']).next().unwrap_or(stem);
        let hex = candidate.len() == 64 && candidate.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| candidate.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_each_runtimes_path_and_nowhere_else() {
        let hex = "0123456789abcdef".repeat(4);
        for path in [
            format!("/docker/{hex}"),
            format!("/system.slice/docker-{hex}.scope/init"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{hex}.scope"),
            format!("/kubepods/besteffort/pod12/{hex}"),
            format!("/machine.slice/libpod-{hex}.scope/container"),
            format!("/kubepods-pod1.slice:cri-containerd:{hex}"),
        ] {
            assert_eq!(id(&path).as_deref(), Some(hex.as_str()), "{path}");
        }
        assert_eq!(id("/user.slice/user-1000.slice/session-2.scope"), None);
        assert_eq!(id("/"), None);
    }
}
