//! Reads the container, pod and Slurm job of a process from the path of its cgroup.
//!
//! Pure: it asks no runtime socket and no API.
//!
//! Container runtimes, the kubelet and slurmstepd name the cgroups that they create. A process that
//! may create cgroups below its own can imitate such names there. So the pod and the job are taken
//! from the outermost component that names one.

use std::path::Path;

/// The component of Slurm's path that contains its jobs. Other forms are `slurm` and `slurm_NODE`.
const SLURM_SCOPE: &str = "slurmstepd.scope";

/// Returns whether a cgroup is `above` or below it.
pub(crate) fn is_within(cgroup: Option<&str>, above: &str) -> bool {
    cgroup.is_some_and(|own| is_below(own, above))
}

/// Whether a cgroup is another one, or below it.
pub fn is_below(own: &str, above: &str) -> bool {
    let rest = own.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the id in the innermost component that has one: `/docker/ID`,
/// `…/cri-containerd-ID.scope`, `/kubepods/…/ID`.
pub fn container(path: &str) -> Option<String> {
    path.split('/').rev().find_map(container_in)
}

fn container_in(component: &str) -> Option<String> {
    let stem = component.strip_suffix(".scope").unwrap_or(component);
    // CRI-O's and Podman's monitor, and a mount unit named after a container, run outside the
    // container.
    if stem.contains("conmon-") || component.rsplit('.').next() == Some("mount") {
        return None;
    }
    if is_fargate(stem) {
        return Some(stem.to_owned());
    }
    let candidate = stem.rsplit(['-', ':', '_']).next().unwrap_or(stem);
    let id = candidate.len() == 64 && is_lower_hex(candidate);
    id.then(|| candidate.to_owned())
}

/// Whether a component names a container of ECS on Fargate: the task's id and a number.
fn is_fargate(stem: &str) -> bool {
    let Some((task, number)) = stem.split_once('-') else {
        return false;
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    task.len() == 32 && is_lower_hex(task) && digits
}

/// Returns the uid of the pod: `podUID`, or `kubepods-burstable-podUID.slice` where systemd makes
/// the cgroups and writes `_` for `-`.
pub fn pod_uid(path: &str) -> Option<String> {
    let mut below_kubepods = false;
    path.split('/').find_map(|component| {
        below_kubepods |= component.contains("kubepods");
        below_kubepods.then(|| pod_in(component)).flatten()
    })
}

fn pod_in(component: &str) -> Option<String> {
    let rest = match component.strip_prefix("pod") {
        Some(rest) => rest,
        None => component.split_once("-pod")?.1,
    };
    let end = rest.find(['.', ':']).unwrap_or(rest.len());
    let uid = rest[..end].replace('_', "-");
    is_uid(&uid).then_some(uid)
}

/// Whether a text is a pod's uid: digits in the form `8-4-4-4-12`, or 32 without dashes for a
/// static pod.
fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let parts = lengths == [8, 4, 4, 4, 12] || lengths == [32];
    parts && text.split('-').all(is_lower_hex)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns a cgroup and those above it, the innermost first.
pub fn with_those_above(path: &str) -> impl Iterator<Item = &str> {
    let levels = Path::new(path).ancestors().filter_map(Path::to_str);
    levels.filter(|level| !level.is_empty())
}

/// The program that runs a step of a Slurm job.
pub const STEPD: &str = "slurmstepd";

/// A Slurm job and its step: a number, `batch`, `extern` or `interactive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmStep {
    /// The job's id.
    pub job: String,
    /// The step within the job.
    pub step: Option<String>,
}

/// Whether a text is the number of a Slurm job or step: 32 bits.
pub fn is_slurm_id(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the job in a path: `…/slurmstepd.scope/job_7/step_0/user/task_0`, in version 1
/// `/slurm/uid_1000/job_7/step_batch`.
pub fn slurm(path: &str) -> Option<SlurmStep> {
    let slurms = |component: &&str| {
        component.ends_with(SLURM_SCOPE) || *component == "slurm" || component.starts_with("slurm_")
    };
    let mut below = path.split('/').skip_while(|component| !slurms(component));
    let job = below.find_map(|component| component.strip_prefix("job_"))?;
    if !is_slurm_id(job) {
        return None;
    }
    let step = below
        .next()
        .and_then(|component| component.strip_prefix("step_"));
    Some(SlurmStep {
        job: job.to_owned(),
        step: step.map(str::to_owned),
    })
}

/// Returns the job and step in the title of a slurmstepd: `slurmstepd: [12.batch]` (Slurm 22.05,
/// `_step_setup` of `src/slurmd/slurmstepd/slurmstepd.c`).
pub fn job_of_stepd(argv: &[String]) -> Option<SlurmStep> {
    let title = argv.first()?.strip_prefix("slurmstepd: [")?;
    let (job, step) = title.split(']').next()?.split_once('.')?;
    is_slurm_id(job).then(|| SlurmStep {
        job: job.to_owned(),
        step: Some(step.to_owned()),
    })
}

/// Returns the number of a task in a path that names a Slurm job: `…/job_7/step_0/user/task_3`.
pub fn slurm_task(path: &str) -> Option<u32> {
    slurm(path)?;
    let mut parts = path
        .split('/')
        .skip_while(|part| !part.starts_with("step_"));
    parts.find_map(|part| part.strip_prefix("task_")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
    const STATIC: &str = "f7cd5b0a8ab4a1b1e6d2a4b7c9d0e1f2";

    /// A path with `ID`, `UID`, `U_D` (by systemd) and `STATIC` filled in.
    fn path(pattern: &str) -> String {
        pattern
            .replace("STATIC", STATIC)
            .replace("UID", UID)
            .replace("U_D", &UID.replace('-', "_"))
            .replace("ID", HEX)
    }

    /// Covers each container runtime, cgroup driver and cgroup version.
    #[test]
    fn runtime_paths_name_pod_and_container() {
        // What made the path, the path, whether it names a container, and the pod.
        let table = [
            (
                "containerd, systemd, v2, guaranteed",
                "/kubepods.slice/kubepods-podU_D.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            (
                "containerd, systemd, v2, burstable",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            (
                "the same, seen from another pod's cgroup namespace",
                "/../../kubepods-besteffort.slice/kubepods-besteffort-podU_D.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            (
                "containerd, cgroupfs",
                "/kubepods/burstable/podUID/ID",
                Some(UID),
            ),
            (
                "containerd, cgroupfs, guaranteed",
                "/kubepods/podUID/ID",
                Some(UID),
            ),
            (
                "containerd, v1, a kubelet of the other driver",
                "/system.slice/containerd.service/kubepods-burstable-podU_D.slice:cri-containerd:ID",
                Some(UID),
            ),
            ("k3s", "/k8s.io/kubepods/besteffort/podUID/ID", Some(UID)),
            (
                "CRI-O, systemd",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/crio-ID.scope",
                Some(UID),
            ),
            (
                "CRI-O, systemd, a container with a cgroup of its own inside",
                "/kubepods.slice/kubepods-podU_D.slice/crio-ID.scope/container",
                Some(UID),
            ),
            (
                "CRI-O, cgroupfs",
                "/kubepods/besteffort/podUID/crio-ID",
                Some(UID),
            ),
            (
                "cri-dockerd, systemd",
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_D.slice/docker-ID.scope",
                Some(UID),
            ),
            (
                "cri-dockerd, cgroupfs",
                "/kubepods/besteffort/podUID/ID",
                Some(UID),
            ),
            (
                "a static pod",
                "/kubepods/burstable/podSTATIC/ID",
                Some(STATIC),
            ),
            (
                "a static pod, systemd",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSTATIC.slice/cri-containerd-ID.scope",
                Some(STATIC),
            ),
            (
                "kind: a node that is a container",
                "/docker/ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff/kubelet.slice/kubelet-kubepods.slice/\
                 kubelet-kubepods-podU_D.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            (
                "systemd inside a container of a pod",
                "/kubepods.slice/kubepods-podU_D.slice/cri-containerd-ID.scope/system.slice/ssh.service",
                Some(UID),
            ),
            ("Docker, cgroupfs", "/docker/ID", None),
            ("Docker, systemd", "/system.slice/docker-ID.scope", None),
            (
                "Docker, systemd in it",
                "/system.slice/docker-ID.scope/init",
                None,
            ),
            ("Podman", "/machine.slice/libpod-ID.scope/container", None),
            (
                "Podman without root",
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
                None,
            ),
            ("nerdctl", "/system.slice/nerdctl-ID.scope", None),
        ];
        for (who, pattern, pod) in table {
            let path = path(pattern);
            assert_eq!(container(&path).as_deref(), Some(HEX), "{who}: {path}");
            assert_eq!(pod_uid(&path).as_deref(), pod, "{who}: {path}");
            assert_eq!(slurm(&path), None, "{who}: {path}");
        }
    }

    #[test]
    fn cgroups_beside_containers_name_nothing() {
        for pattern in [
            "/",
            "",
            "/../../..",
            "/user.slice/user-1000.slice/session-2.scope",
            "/system.slice/kubelet.service",
            "/kubepods.slice/kubepods-burstable.slice",
            "/machine.slice/libpod-conmon-ID.scope",
            "/system.slice/run-docker-runtime\\x2drunc-moby-ID.mount",
            "/docker/0123456789abcdef",
            "/docker/ID0",
            "/podman.slice/podinfo/pod-1",
            "/system.slice/kubepods-podX.slice",
        ] {
            let path = path(pattern);
            assert_eq!(container(&path), None, "{path}");
            assert_eq!(pod_uid(&path), None, "{path}");
        }
        let monitor = path("/kubepods.slice/kubepods-podU_D.slice/crio-conmon-ID.scope");
        assert_eq!(container(&monitor), None);
        assert_eq!(pod_uid(&monitor).as_deref(), Some(UID));
        let task =
            "/ecs/f7cd5b0a8ab4a1b1e6d2a4b7c9d0e1f2/f7cd5b0a8ab4a1b1e6d2a4b7c9d0e1f2-3264616537";
        let own = "f7cd5b0a8ab4a1b1e6d2a4b7c9d0e1f2-3264616537";
        assert_eq!(container(task).as_deref(), Some(own));
    }

    /// A process in a container can make cgroups with names of other pods and jobs.
    #[test]
    fn nested_cgroups_cannot_forge_a_pod_or_job() {
        let other = "11111111-2222-3333-4444-555555555555";
        let own = path("/kubepods.slice/kubepods-podU_D.slice/cri-containerd-ID.scope");
        let forged = format!("{own}/kubepods/pod{other}");
        assert_eq!(pod_uid(&forged).as_deref(), Some(UID));
        assert_eq!(pod_uid(&format!("/user.slice/pod{other}")), None);
        let forged = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/slurm/job_8/step_1";
        assert_eq!(slurm(forged).map(|found| found.job).as_deref(), Some("7"));
    }

    #[test]
    fn stepd_title_names_job_and_step() {
        let job = |title: &str| job_of_stepd(&[title.to_owned()]);
        let found = job("slurmstepd: [12.batch]").expect("a job");
        assert_eq!(
            (found.job.as_str(), found.step.as_deref()),
            ("12", Some("batch"))
        );
        assert_eq!(job("slurmstepd: [x.0]"), None);
        assert_eq!(job("/usr/sbin/slurmstepd"), None);
        let path = "/slurm_node1/uid_1/job_36/step_0/task_1";
        assert_eq!(slurm_task(path), Some(1));
        assert_eq!(slurm_task("/job_36/step_0/task_1"), None);
    }

    #[test]
    fn slurm_paths_name_job_and_step() {
        for (path, job, step) in [
            (
                "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_3",
                "4711",
                Some("0"),
            ),
            (
                "/system.slice/node7_slurmstepd.scope/job_4711/step_batch/user/task_0",
                "4711",
                Some("batch"),
            ),
            (
                "/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_special",
                "4711",
                Some("extern"),
            ),
            ("/system.slice/slurmstepd.scope/job_4711", "4711", None),
            ("/slurm/uid_1000/job_12/step_batch", "12", Some("batch")),
            (
                "/slurm_node7/uid_1000/job_12/step_interactive/task_0",
                "12",
                Some("interactive"),
            ),
        ] {
            let found = slurm(path).expect(path);
            assert_eq!(
                (found.job.as_str(), found.step.as_deref()),
                (job, step),
                "{path}"
            );
        }
        for path in [
            "/system.slice/slurmd.service",
            "/system.slice/slurmstepd.scope/system",
            "/user.slice/job_5/step_0",
            "/slurm/uid_1000/job_x",
        ] {
            assert_eq!(slurm(path), None, "{path}");
        }
    }
}
