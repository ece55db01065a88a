//! Records where the kernel refuses hooks that proof rests on: all of them, or one.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::mount::{MountFlags, mount};
use serde_json::json;

use crate::{
    init::{read, section},
    stage::{Actor, Cgroup, Stage},
};

/// Records on a locked-down kernel. If it is locked down at its start, Linux does not let eBPF
/// programs read kernel memory.
pub(crate) fn by_lockdown(out: &mut File) -> Result<()> {
    let folder = "/sys/kernel/security";
    mount(
        "securityfs",
        folder,
        "securityfs",
        MountFlags::empty(),
        None,
    )
    .context(folder)?;
    section(out, "lockdown", &read("/sys/kernel/security/lockdown"))?;
    recorded(out, "all", &[])
}

/// Records with one hook refused at a time. `machine refuse` makes the kernel refuse the programs
/// of that hook.
pub(crate) fn by_hooks(out: &mut File) -> Result<()> {
    for stem in ["fork_", "exit_", "signal_generate"] {
        recorded(out, stem, &["/machine", "refuse", stem])?;
    }
    Ok(())
}

/// Records a few deaths. `before`, if it is not empty, is the command that runs the recorder. The
/// names of the sections begin with `name`.
fn recorded(out: &mut File, name: &str, before: &[&str]) -> Result<()> {
    let mut words = before.to_vec();
    words.extend(["/raytrace", "record", "-o"]);
    let command = |more: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(more).stdin(Stdio::null());
        command
    };
    let path = format!("/tmp/{name}.required");
    let ended = command(&[&path, "--require-ebpf", "--duration", "100ms"]).output()?;
    let required = json!({
        "code": ended.status.code(),
        "said": String::from_utf8_lossy(&ended.stderr),
        "file": Path::new(&path).exists(),
    });
    section(
        out,
        &format!("{name} required"),
        required.to_string().as_bytes(),
    )?;
    let (path, truth) = (
        format!("/tmp/{name}.raytrace"),
        format!("/tmp/{name}.truth"),
    );
    let ended = command(&[&path, "--", "/init", "few", &truth]).output()?;
    section(out, &format!("{name} screen"), &ended.stderr)?;
    ensure!(ended.status.success(), "{name}: {}", ended.status);
    section(out, &format!("{name} truth"), &read(&truth))?;
    let report = Command::new("/raytrace")
        .args(["report", "--format", "json", &path])
        .output()?;
    section(out, &format!("{name} report"), &report.stdout)
}

/// Stages deaths of processes that the recorder holds a pidfd of.
pub(crate) fn few(truth: &Path) -> Result<()> {
    fs::write("/proc/self/oom_score_adj", "-900")?;
    let supervisor = std::os::unix::process::parent_id();
    let mut stage = Stage::new(truth)?;
    let mut begun = |act: &[&str], cgroup: Option<&Cgroup>, killer: &str, fields| {
        let actor = Actor::start(act, cgroup)?;
        actor.is_watched_by_child_of(supervisor)?;
        stage.death(act[0], &actor, killer, &fields)?;
        anyhow::Ok(actor)
    };
    let mut exits = begun(&["exit", "3"], None, "exit", json!({"exit_code": 3}))?;
    exits.go()?;
    exits.exits_with(3)?;
    let mut killed = begun(&["sleep"], None, "signal", json!({"signal": 9}))?;
    let pid = i32::try_from(killed.pid)?;
    // SAFETY: kill(2) takes two numbers.
    ensure!(unsafe { libc::kill(pid, 9) } == 0, "kill");
    killed.dies_of(9)?;
    let cgroup = Cgroup::new(&format!("few-{}", std::process::id()), Some(24))?;
    let killer = "kernel-oom-memcg";
    let mut eats = begun(&["eat"], Some(&cgroup), killer, json!({"signal": 9}))?;
    eats.go()?;
    eats.dies_of(9)
}
