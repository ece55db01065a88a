//! Finds the raylets of this machine, with their session, version, settings and log folder.
//!
//! These come from the raylet's command line and environment. Files of a raylet in a container are
//! reached through `/proc/PID/root`; nothing there is executed.

use std::path::{Path, PathBuf};

use crate::{
    bounded,
    event::{Cluster, Process, Role},
    ids::{BootTime, Bytes, HexId, Pid, SECOND_NS},
    observe::{
        clock, pods, processes,
        rooted::{self, Folder},
        timed_read,
    },
    ray::{
        identify::{option, role},
        knobs,
        log::file_name,
    },
};

/// How many bytes of an environment are read.
const ENVIRONMENT_BYTES: u64 = 256 << 10;
/// The most `RAY_*` variables that are kept, and the most characters of a name.
const MOST_SETTINGS: usize = 512;
const NAME: usize = 200;

/// Returns the pids of all raylets that run.
pub fn raylets() -> Vec<Pid> {
    let mut found = called_raylet();
    found.retain(|pid| {
        let parent = processes::stat(*pid).map(|stat| stat.parent);
        is_raylet(&processes::argv(*pid), parent)
    });
    found
}

/// Whether a process named `raylet` with this command line is a raylet. A child of a raylet has
/// both too until it executes its own program.
pub fn is_raylet(argv: &[String], parent: Option<Pid>) -> bool {
    role("raylet", argv) == Some(Role::Raylet)
        && parent.is_none_or(|parent| processes::argv(parent) != argv)
}

/// Returns the pids of all processes named `raylet`.
fn called_raylet() -> Vec<Pid> {
    let named = |pid: &Pid| {
        bounded::text_of_process(*pid, "comm", bounded::SMALL)
            .is_ok_and(|comm| comm.trim_end() == "raylet")
    };
    processes::all().into_iter().filter(named).collect()
}

/// Describes the cluster of a raylet.
pub fn describe(raylet: &Process) -> Cluster {
    let pid = raylet.process.pid;
    let argv = &raylet.argv;
    let text = |key: &str| option(argv, key).map(str::to_owned);
    let session_dir = text("session-dir").or_else(|| {
        // Up to Ray 2.9 the folder is named only in the socket's path: SESSION/sockets/raylet.
        let socket = option(argv, "raylet-socket-name")?;
        Path::new(socket)
            .parent()?
            .parent()
            .map(|path| path.to_string_lossy().into_owned())
    });
    let session = text("session-name").or_else(|| {
        Some(
            Path::new(session_dir.as_deref()?)
                .file_name()?
                .to_string_lossy()
                .into_owned(),
        )
    });
    Cluster {
        raylet: raylet.process,
        raylet_ns_pid: raylet.ns_pid.unwrap_or(pid),
        session,
        ray_version: ray_version(raylet),
        node_id: option(argv, "node-id").and_then(HexId::parse),
        gcs_address: text("gcs-address"),
        head: argv
            .iter()
            .any(|argument| argument == "--head" || argument == "--head=true"),
        object_store_bytes: option(argv, "object-store-memory")
            .and_then(|bytes| bytes.parse().ok())
            .map(Bytes),
        container_id: raylet.container_id.clone(),
        settings: settings(pid),
        log_utc_offset_s: Some(log_offset(pid)),
        commands: Vec::new(),
        pod: pods::names(raylet),
        session_dir,
    }
}

/// Returns the name of a raylet's log. Several raylets of one session have a log each. The name is
/// on the command line; before Ray 2.45 it is that of the raylet's standard output.
pub fn log_name(raylet: Pid, argv: &[String]) -> String {
    let named = option(argv, "stdout-filepath").map(PathBuf::from);
    let output = || std::fs::read_link(format!("/proc/{raylet}/fd/1")).ok();
    let path = named.or_else(output);
    let name = path.as_deref().and_then(Path::file_name);
    let name = name.and_then(|name| name.to_str());
    name.filter(|name| file_name::is_raylet_file(name))
        .unwrap_or("raylet.out")
        .to_owned()
}

/// Finds the version of Ray. The raylet is at `site-packages/ray/core/src/ray/raylet/raylet`, and
/// the version is in the name of `site-packages/ray-VERSION.dist-info`.
fn ray_version(raylet: &Process) -> Option<String> {
    let packages = site_packages(raylet)?
        .names(|name| name.starts_with("ray-") && name.ends_with(".dist-info"));
    packages.into_iter().find_map(|name| {
        let version = name.strip_prefix("ray-")?.strip_suffix(".dist-info")?;
        version
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| version.to_owned())
    })
}

/// Returns the folder that Ray's package is installed in.
pub(super) fn site_packages(raylet: &Process) -> Option<Folder> {
    let exe = Path::new(raylet.exe.as_deref()?);
    let package = exe.ancestors().find(|path| {
        path.join("core/src/ray").ends_with("ray/core/src/ray")
            && path.file_name().is_some_and(|name| name == "ray")
    });
    let package = exe
        .ancestors()
        .nth(5)
        .filter(|path| path.ends_with("ray"))
        .or(package)?;
    Folder::at(raylet.process.pid, package.parent()?)
}

/// Returns the drivers of a cluster that run. Each keeps its log file open, and the file's name has
/// its pid.
pub fn drivers(cluster: &Cluster) -> Vec<Pid> {
    let Some(folder) = Folder::logs(cluster) else {
        return Vec::new();
    };
    let contained = cluster.raylet_ns_pid != cluster.raylet.pid;
    let names = folder.names(|name| name.starts_with("python-core-driver-"));
    names
        .into_iter()
        .filter_map(|name| {
            let ray_pid = file_name::parse(&name)?.pid?;
            let pid = if contained {
                processes::in_namespace(cluster.raylet.pid, ray_pid)?
            } else {
                ray_pid
            };
            let holds = |path: &PathBuf| path.file_name().is_some_and(|open| open == name.as_str());
            processes::open_logs(pid).iter().any(holds).then_some(pid)
        })
        .collect()
}

/// Returns the `RAY_*` variables of a process. Other variables are left out, their names too. A
/// value is kept only if the variable tunes Ray: values that a runtime environment or a user passes
/// on may be secret.
pub fn settings(pid: Pid) -> Vec<(String, String)> {
    kept(&environment(pid).unwrap_or_default())
}

/// Whether the environment of a process may be read. Its own user and root may read it.
pub fn has_readable_environment(pid: Pid) -> bool {
    environment(pid).is_some()
}

/// The variables that say which Slurm job a process is of, what memory that requested, and when it
/// ends.
const SLURM: [&str; 6] = [
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_CPUS_ON_NODE",
    "SLURM_JOB_END_TIME",
];

/// Returns those of Slurm's variables that [`super::slurm`] reads.
pub(super) fn slurm_variables(pid: Pid) -> Vec<(String, String)> {
    let bytes = environment(pid).unwrap_or_default();
    let texts = bytes.split(|byte| *byte == 0);
    let entries = texts.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
    let wanted = entries.filter(|(key, value)| SLURM.contains(key) && value.len() < NAME);
    wanted
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .take(SLURM.len())
        .collect()
}

fn environment(pid: Pid) -> Option<Vec<u8>> {
    let read = move || bounded::of_process(pid, "environ", ENVIRONMENT_BYTES).ok();
    timed_read::run_optional(pid, read)
}

fn kept(environment: &[u8]) -> Vec<(String, String)> {
    let variables = environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok());
    let mut found: Vec<(String, String)> = variables
        .filter(|entry| entry.starts_with("RAY_"))
        .filter_map(|entry| entry.split_once('='))
        .map(|(key, value)| {
            let value = Some(value).filter(|value| knobs::may_keep(key, value));
            let value = value.unwrap_or_default().chars().take(200).collect();
            (key.chars().take(NAME).collect(), value)
        })
        .take(MOST_SETTINGS)
        .collect();
    found.sort();
    found
}

/// Returns the UTC offset of the raylet's local time: that of its TZ variable, or else of its
/// `/etc/localtime`. Comparing the first timestamp in its log with the creation time of the file
/// would be uncertain.
pub fn log_offset(pid: Pid) -> i32 {
    let zone = zone_variable(pid).and_then(|name| {
        let name = name.trim_start_matches(':');
        jiff::tz::TimeZone::get(name)
            .or_else(|_| jiff::tz::TimeZone::posix(name))
            .ok()
    });
    let zone = zone.or_else(|| {
        let data = rooted::read(pid, Path::new("/etc/localtime"), bounded::SMALL)?;
        jiff::tz::TimeZone::tzif("localtime", &data).ok()
    });
    let now = clock::wall().timestamp();
    zone.unwrap_or(jiff::tz::TimeZone::UTC)
        .to_offset(now)
        .seconds()
}

/// Returns `CUDA_VISIBLE_DEVICES` of a process. This is for `doctor`, which stores nothing.
pub fn visible_devices(pid: Pid) -> Option<String> {
    variable(pid, b"CUDA_VISIBLE_DEVICES=")
}

fn zone_variable(pid: Pid) -> Option<String> {
    variable(pid, b"TZ=").filter(|zone| !zone.is_empty())
}

/// Returns the value of a variable of a process's environment. `prefix` is its name with the `=`.
pub(super) fn variable(pid: Pid, prefix: &[u8]) -> Option<String> {
    let bytes = environment(pid)?;
    let entry = bytes
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(prefix))?;
    String::from_utf8(entry.to_vec()).ok()
}

/// Converts a local time in a cluster's logs to boot time.
pub fn log_time(local_time: i64, utc_offset_s: Option<i32>) -> BootTime {
    let wall = local_time - i64::from(utc_offset_s.unwrap_or(0)) * SECOND_NS;
    clock::boot_at(crate::ids::WallTime(wall))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn raylets_child_before_exec_is_no_raylet() {
        let mut shell = Command::new("/bin/bash");
        shell.arg0("/ray/raylet/raylet").args([
            "-c",
            "( read line ); :",
            "--raylet_socket_name=/x",
        ]);
        let mut shell = shell.stdin(Stdio::piped()).spawn().expect("a shell");
        let pid = Pid(shell.id());
        let end = Instant::now() + Duration::from_secs(60);
        let child = loop {
            let mut all = processes::all().into_iter();
            let of_shell = |one: &Pid| processes::stat(*one).is_some_and(|stat| stat.parent == pid);
            if let Some(child) = all.find(of_shell) {
                break child;
            }
            assert!(Instant::now() < end, "it starts no child");
        };
        let argv = processes::argv(child);
        assert_eq!(argv, processes::argv(pid));
        assert!(!is_raylet(&argv, Some(pid)));
        assert!(is_raylet(&argv, Some(Pid(std::process::id()))));
        drop(shell.stdin.take());
        shell.wait().expect("its end");
    }

    /// Only the names of variables that may hold secrets are kept.
    #[test]
    fn secret_values_are_not_kept() {
        let environment = b"PATH=/bin\0RAY_JOB_HEADERS={\"Authorization\": \"Bearer abc\"}\0RAY_memory_usage_threshold=0.9\0\
            RAY_JOB_CONFIG_JSON_ENV_VAR={\"runtime_env\":{\"env_vars\":{\"WANDB_API_KEY\":\"abc\"}}}\0RAY_redis_password=abc\0";
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let expected = [
            ("RAY_JOB_CONFIG_JSON_ENV_VAR", ""),
            ("RAY_JOB_HEADERS", ""),
            ("RAY_memory_usage_threshold", "0.9"),
            ("RAY_redis_password", ""),
        ];
        assert_eq!(kept(environment), expected.map(pair));
    }
}
