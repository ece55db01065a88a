//! What `record` says: where it writes, that it records, each death, the end. All of it goes to stderr.

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    collect::Told,
    command::Failure,
    event::{Ledger, Mode, Probe, ProbeState},
    judge::report::Killer,
    observe::{clock, host},
    recording::{Sender, Summary, place},
    show::{live, time::Zone},
};

/// The recording's path: as asked, else in this folder, else (on a network file system) in /var/lib/raytrace.
pub(super) fn choose(asked: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let remote = |folder: &Path| {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        place::remote(folder)
    };
    if let Some(path) = asked {
        if let Some(kind) = path.parent().and_then(remote) {
            anyhow::bail!(Failure {
                code: 1,
                message: format!(
                    "{} lies on {kind}, where SQLite's WAL does not work; choose a local folder: -o {}/FILE",
                    path.display(),
                    place::FALLBACK
                ),
            });
        }
        return Ok(path);
    }
    let name = place::default_name(&host::started(Mode::Procfs).host, clock::wall().timestamp());
    let Some(kind) = remote(Path::new(".")) else {
        return Ok(PathBuf::from(name));
    };
    std::fs::create_dir_all(place::FALLBACK)?;
    let path = Path::new(place::FALLBACK).join(name);
    anstream::eprintln!(
        "This folder lies on {kind}, where SQLite's WAL does not work: recording to {}",
        path.display()
    );
    Ok(path)
}

/// No Ray, where it was looked for, what to do.
pub(super) fn no_ray() -> String {
    "no Ray is running: no process named raylet in /proc. Start one (ray start --head), or leave out --require-ray to wait for it".into()
}

/// The terminal (or file) that stderr is.
pub(super) struct Screen {
    terminal: bool,
    status: bool,
    killers: BTreeMap<Killer, u64>,
    failing: bool,
    zone: Zone,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            status: false,
            killers: BTreeMap::new(),
            failing: false,
            zone: Zone::default(),
        }
    }

    fn say(&mut self, text: &str) {
        if std::mem::take(&mut self.status) {
            anstream::eprint!("\r\x1b[K");
        }
        anstream::eprintln!("{text}");
    }

    pub(super) fn started(
        &mut self,
        path: &Path,
        mode: Mode,
        probes: &[Probe],
        clusters: usize,
        workers: usize,
        wraps: bool,
    ) {
        let attached = probes
            .iter()
            .filter(|probe| probe.state != ProbeState::Missing)
            .count();
        let mode = match mode {
            Mode::Ebpf => "ebpf: verdicts can be proven",
            Mode::Procfs => "procfs: no acts are observed, verdicts are inferred at most",
        };
        for probe in probes
            .iter()
            .filter(|probe| probe.state == ProbeState::Missing)
        {
            self.say(&format!(
                "missing  {}: {}",
                probe.name,
                probe.reason.as_deref().unwrap_or("unknown")
            ));
        }
        if clusters == 0 && !wraps {
            self.say("No Ray is running yet (no process named raylet in /proc): waiting for one. Ctrl-C ends.");
        }
        self.say(&format!(
            "Recording to {}  mode {mode}; probes {attached}/{}; clusters {clusters}, workers {workers}. Ctrl-C ends.",
            path.display(),
            probes.len()
        ));
    }

    /// One line a listed death, and one more where a verdict that waited for Ray's log turned out another.
    pub(super) fn death(&mut self, told: &Told) {
        let death = &told.death;
        let settled = death.verdict.settled;
        if settled && death.listed {
            *self.killers.entry(death.verdict.killer).or_default() += 1;
        }
        match &told.before {
            None if death.listed => self.say(&live::death(death, &self.zone)),
            Some(before) if settled && *before != death.verdict.clause => {
                self.say(&live::settled(death, &self.zone));
            }
            _ => {}
        }
    }

    /// The status line, rewritten in place, on a terminal only.
    pub(super) fn status(&mut self, elapsed: Duration, workers: usize, ledger: &[Ledger]) {
        if !self.terminal {
            return;
        }
        let columns =
            rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| size.ws_col);
        let status = live::Status {
            elapsed,
            workers,
            deaths: usize::try_from(self.killers.values().sum::<u64>()).unwrap_or(usize::MAX),
            lost: ledger.iter().map(Ledger::lost).sum(),
            ..live::Status::default()
        };
        anstream::eprint!(
            "\r\x1b[K{}",
            live::status(&status, usize::from(columns.max(20)))
        );
        self.status = true;
    }

    /// A failure to write, said once.
    pub(super) fn trouble(&mut self, sender: &Sender) {
        match sender.failure() {
            Some(text) if !self.failing => {
                self.failing = true;
                self.say(&format!("The recording cannot be written ({text}); deaths are still told here, and it is tried again every 2 s"));
            }
            Some(_) => {}
            None => self.failing = false,
        }
    }

    pub(super) fn ended(&mut self, path: &Path, elapsed: Duration, summary: &Summary, lost: u64) {
        let deaths: Vec<String> = self
            .killers
            .iter()
            .map(|(killer, count)| format!("{count} {}", killer.name()))
            .collect();
        let deaths = if deaths.is_empty() {
            "no deaths that anyone would ask about".to_owned()
        } else {
            deaths.join(", ")
        };
        self.say(&format!(
            "Recorded {:.1} s: {deaths}; {} events, {} KiB, {lost} lost.",
            elapsed.as_secs_f64(),
            summary.events,
            summary.bytes / 1024
        ));
        if let Some(failure) = &summary.failure {
            self.say(&format!("The last events could not be written: {failure}"));
        }
        self.say(&format!("Next: raytrace report {}", path.display()));
    }
}
