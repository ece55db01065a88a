//! `raytrace doctor`: checks what this machine will do to a Ray job, and if it can be recorded.
//!
//! It changes nothing: the probes are attached and detached again.

mod node;
#[cfg_attr(not(feature = "record"), path = "doctor/stub.rs")]
mod probe;

use std::{path::Path, process::ExitCode};

use super::{
    code, no_raylet, own_path, parse_pid,
    view::output::{print, width},
};
use crate::{
    bounded,
    event::{GpuHolder, GpuState, Mode},
    ids::{Bytes, Pid},
    judge::doctor::{
        self, Check, State,
        facts::{Folder, Gpu, GpuProcess, Machine, OldSessions},
    },
    observe::{clock, clusters, gpu, host, memory, processes, sessions},
    recording::place,
    show,
};

/// Arguments of `doctor`.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(after_long_help = "Examples:
  sudo raytrace doctor                      Check every raylet of this machine
  sudo --preserve-env raytrace doctor       Check what `ray start` would do in this shell
  sudo raytrace doctor --raylet-pid 12104   Check one of them
  raytrace doctor --format json | jq '.checks[] | select(.state == \"problem\")'

Exit codes:
  0  no problem
  2  no such raylet
  9  a problem was found")]
pub struct DoctorArgs {
    /// Check only this raylet.
    #[arg(long, value_name = "PID", value_parser = parse_pid)]
    raylet_pid: Option<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The forms of the output.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// One object, each check with id, state, value, expected, command.
    Json,
}

/// Runs the subcommand.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let machine = look(args.raylet_pid.map(Pid))?;
    let checks = doctor::checks(&machine);
    let text = match args.format {
        Format::Text => {
            let checks = with_own_path(checks.clone());
            show::doctor::render(&machine, &checks, usize::from(width()))
        }
        Format::Json => show::doctor::render_json(&machine, &checks)?,
    };
    print(&text)?;
    let problem = checks.iter().any(|check| check.state == State::Problem);
    Ok(ExitCode::from(if problem { code::PROBLEM } else { 0 }))
}

/// Puts the path of this program into the commands, where sudo needs it.
fn with_own_path(mut checks: Vec<Check>) -> Vec<Check> {
    for check in &mut checks {
        check.text = own_path::with_path(&check.text);
        let command = check.command.as_deref();
        check.command = command.map(own_path::with_path);
    }
    checks
}

/// Collects the facts that are checked.
fn look(wanted: Option<Pid>) -> anyhow::Result<Machine> {
    let mut raylets = clusters::raylets();
    raylets.retain(|pid| wanted.is_none_or(|wanted| wanted == *pid));
    if let (Some(pid), true) = (wanted, raylets.is_empty()) {
        return Err(no_raylet(pid));
    }
    let mut nodes: Vec<_> = raylets.into_iter().filter_map(node::running).collect();
    if nodes.is_empty() {
        nodes.push(node::from_here());
    }
    let (mode, probes) = probe::probe();
    let started = host::started(mode.unwrap_or(Mode::Procfs));
    let clusters: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.cluster.as_ref())
        .collect();
    let old = sessions::old(&clusters).map(|(folder, sessions, bytes)| OldSessions {
        folder: folder.to_string_lossy().into_owned(),
        sessions,
        bytes,
    });
    Ok(Machine {
        host: started.host,
        kernel: started.kernel,
        memory: memory::node().unwrap_or_default(),
        overcommit: memory::overcommit(),
        mode,
        probes,
        advice: host::advice(host::place()).to_owned(),
        output: output(),
        gpus: gpus(),
        old_sessions: old.into_iter().collect(),
        nodes,
    })
}

/// Returns the folder into which `record` writes without `-o`.
fn output() -> Folder {
    let here = Path::new(".");
    let folder = match place::remote(here) {
        Some(_) => Path::new(place::FALLBACK),
        None => here,
    };
    let path = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    node::folder(sessions::space(&path), &path.to_string_lossy()).unwrap_or(Folder {
        path: path.display().to_string(),
        free: Bytes(0),
        total: Bytes(0),
    })
}

fn gpus() -> Result<Vec<Gpu>, String> {
    let states = gpu::Gpus::open()?.read()?;
    let gpu = |state: &GpuState| Gpu {
        index: state.device,
        processes: state.holders.iter().map(on_gpu).collect(),
    };
    Ok(states.iter().map(gpu).collect())
}

fn on_gpu(process: &GpuHolder) -> GpuProcess {
    let seen = processes::describe(process.pid);
    let seen = seen.as_ref();
    let age = seen.and_then(|seen| u64::try_from(clock::boot().since(seen.process.start)).ok());
    GpuProcess {
        pid: process.pid,
        used: process.used,
        comm: seen.map(|seen| seen.comm.clone()),
        title: seen.map_or_else(
            || "not visible from here".into(),
            |seen| {
                seen.argv
                    .first()
                    .filter(|title| title.contains("::"))
                    .unwrap_or(&seen.comm)
                    .clone()
            },
        ),
        parent: seen.and_then(|seen| seen.parent),
        user: seen
            .and_then(|seen| seen.uid)
            .map(|uid| user(uid).unwrap_or_else(|| uid.to_string())),
        age_s: age.map(|ns| ns / 1_000_000_000),
    }
}

/// Returns a user's name from /etc/passwd.
fn user(uid: u32) -> Option<String> {
    let users = bounded::text("/etc/passwd", bounded::LARGE).ok()?;
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(uid)).then(|| fields[0].to_owned())
    })
}
