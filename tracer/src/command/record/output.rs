//! Prints to stderr what `record` says: where it writes, that it records, each death, the end.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    collect::{Collector, DeathUpdate},
    command::own_path,
    event::{LimitWarning, Mode, Probe, ProbeState},
    ids::Pid,
    judge::report::{Killer, Utc},
    observe::{clock, host},
    recording::{Sender, Summary, place},
    show::{limit_warning, live, sanitize, time::Zone, trend::GrowthTrends},
};

/// Chooses the recording's path: as asked, else in this folder, or in /var/lib/raytrace if this
/// folder is on a network file system.
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
            anyhow::bail!(
                "{} is on {kind}, where SQLite's WAL does not work; choose a local folder: -o {}/FILE",
                path.display(),
                place::FALLBACK
            );
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
        "This folder is on {kind}, where SQLite's WAL does not work: recording to {}",
        path.display()
    );
    Ok(path)
}

/// Says that no Ray is running, where it was looked for, and what to do.
pub(super) fn no_ray() -> String {
    "no Ray is running: no process named raylet in /proc. Start one (ray start --head), or leave out --require-ray to wait for it".into()
}

/// The state of the line that is rewritten in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatusLine {
    /// Not shown, because stderr is not a suitable terminal.
    Never,
    /// Not shown at the moment.
    Away,
    /// Shown in the line of the cursor.
    Shown,
}

/// The terminal or file behind stderr.
pub(super) struct Screen {
    status: StatusLine,
    trends: GrowthTrends,
    wraps: bool,
    killers: BTreeMap<Killer, u64>,
    failing: bool,
    /// Whether the recording went on in another file of its folder.
    several_files: bool,
    zone: Zone,
}

impl Screen {
    /// `wraps` is set if a command runs on the same terminal.
    pub(super) fn new(wraps: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        Self {
            // The output of a command would run into the status line.
            status: if std::io::stderr().is_terminal() && !dumb && !wraps {
                StatusLine::Away
            } else {
                StatusLine::Never
            },
            trends: GrowthTrends::default(),
            wraps,
            killers: BTreeMap::new(),
            failing: false,
            several_files: false,
            zone: Zone::default(),
        }
    }

    fn say(&mut self, text: &str) {
        self.clear();
        anstream::eprintln!("{text}");
    }

    /// Removes the status line.
    fn clear(&mut self) {
        if self.status == StatusLine::Shown {
            self.status = StatusLine::Away;
            write(CLEAR);
        }
    }

    pub(super) fn started(
        &mut self,
        path: &Path,
        mode: Mode,
        probes: &[Probe],
        clusters: usize,
        workers: usize,
        gpus: &Result<u32, String>,
    ) {
        let attached = probes
            .iter()
            .filter(|probe| probe.state != ProbeState::Missing)
            .count();
        let mode = match mode {
            Mode::Ebpf => format!(
                "ebpf: verdicts can be proven; probes {attached}/{}",
                probes.len()
            ),
            // `/proc` and logs are no probes, and are always read.
            Mode::Procfs => {
                "procfs: from /proc and Ray's logs; signals are not observed, verdicts are inferred"
                    .to_owned()
            }
        };
        for probe in probes
            .iter()
            .filter(|probe| probe.state == ProbeState::Missing)
        {
            let reason = probe.reason.as_deref().unwrap_or("unknown");
            let reason = own_path::with_path(reason);
            self.say(&format!("missing  {}: {reason}", probe.name));
        }
        match gpus {
            Ok(count) => self.say(&format!("GPU memory: {count} through NVML, once a second")),
            Err(reason) => self.say(&format!("GPU memory is not recorded: {reason}")),
        }
        let end = if self.wraps {
            "Ends with the command."
        } else {
            "Press Ctrl-C to stop."
        };
        if clusters == 0 && !self.wraps {
            self.say("Waiting for Ray (no process named raylet in /proc).");
        }
        self.say(&format!(
            "Recording to {}  mode {mode}; clusters {clusters}, workers {workers}. {end}",
            path.display()
        ));
    }

    /// Prints a line for a listed death, and another one if its verdict changes when it settles.
    pub(super) fn death(&mut self, told: &DeathUpdate) {
        let death = &told.death;
        let settled = death.verdict.settled;
        if settled && death.listed {
            *self.killers.entry(death.verdict.killer).or_default() += 1;
        }
        match &told.before {
            None if death.listed => self.say(&live::death(death, &self.zone)),
            Some(before) if settled && *before != death.verdict.cause => {
                self.say(&live::settled(death, &self.zone));
            }
            _ => {}
        }
    }

    /// Draws the status line in place of the last one, if this process is in the foreground.
    pub(super) fn status(&mut self, elapsed: Duration, collector: &Collector) {
        if self.status == StatusLine::Never {
            return;
        }
        if !in_foreground() {
            self.status = StatusLine::Away;
            return;
        }
        let live = collector.live();
        self.trends.add(&live);
        let status = live::Status {
            elapsed,
            deaths: usize::try_from(self.killers.values().sum::<u64>()).unwrap_or(usize::MAX),
            ..live::Status::near(&live, &self.trends)
        };
        let columns =
            rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
        let columns = if columns == 0 { 80 } else { columns };
        // The last column is left free, because a full line would wrap.
        let line = live::status(&status, usize::from(columns.saturating_sub(1)));
        // The cursor stays at the beginning of the line: if the window gets narrower and the line
        // wraps, the whole line is behind the cursor and can be cleared.
        write(&format!("{CLEAR}{line}\r"));
        self.status = StatusLine::Shown;
    }

    /// Prints a warning that begins or ends.
    pub(super) fn warning(&mut self, time: Option<Utc>, warning: &LimitWarning) {
        self.say(&limit_warning::line(time, warning, &self.zone));
    }

    /// Prints news from the GCS, one line each.
    pub(super) fn gcs_updates(&mut self, lines: Vec<String>) {
        for line in lines {
            self.say(&sanitize::line(&line, sanitize::LONGEST));
        }
    }

    /// Reports once that the recording cannot be written.
    pub(super) fn trouble(&mut self, sender: &Sender) {
        match sender.take_failure() {
            Some(text) if !self.failing => {
                self.failing = true;
                self.say(&format!("The recording cannot be written ({text}). Deaths are still printed here. Retrying every 2 s"));
            }
            Some(_) => {}
            None => self.failing = false,
        }
        if sender.take_too_large() {
            self.say("The recording is larger than --max-size and cannot be made smaller: only events, samples around deaths and the last 10 minutes are left");
        }
        if let Some(path) = sender.take_next_file() {
            self.say(&format!("Recording continues in {}", path.display()));
            self.several_files = true;
        }
        if sender.take_rewritten() {
            self.say("The recording was deleted; writing it again with everything recorded so far");
        }
    }

    /// Reports reads of `/proc` that hang: a process cannot end while a thread of it is in the
    /// kernel.
    pub(super) fn hanging(&mut self, pids: &[Pid]) {
        let pids: Vec<String> = pids.iter().map(Pid::to_string).collect();
        if !pids.is_empty() {
            self.say(&format!(
                "The recording is complete. A read of /proc/{} hangs; raytrace exits when it returns",
                pids.join(", ")
            ));
        }
    }

    pub(super) fn ended(&mut self, path: &Path, elapsed: Duration, summary: &Summary, lost: u64) {
        let deaths: Vec<String> = self
            .killers
            .iter()
            .map(|(killer, count)| format!("{} {count}", killer.name()))
            .collect();
        let deaths = if deaths.is_empty() {
            "no abnormal deaths".to_owned()
        } else {
            format!("deaths: {}", deaths.join(", "))
        };
        let events = match summary.events {
            1 => "1 event".to_owned(),
            many => format!("{many} events"),
        };
        self.say(&format!(
            "Recorded {:.1} s; {deaths}; {}, {} KiB, {lost} lost.",
            elapsed.as_secs_f64(),
            events,
            summary.bytes / 1024
        ));
        if let Some(failure) = &summary.failure {
            self.say(&format!("The recording was not closed cleanly: {failure}"));
        }
        let folder = path.parent().filter(|_| self.several_files);
        let path = sanitize::quoted(&folder.unwrap_or(path).to_string_lossy());
        self.say(&format!("Next: raytrace report {path}"));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Moves to the beginning of the line and clears everything from there.
const CLEAR: &str = "\r\x1b[J";

/// Writes `text` at once, so that no other output comes in between. Errors are ignored, since
/// without a terminal nobody misses it.
fn write(text: &str) {
    let _nobody_looks = std::io::stderr().write_all(text.as_bytes());
}

/// Returns whether this process is in the foreground, so that it may draw.
fn in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(std::io::stderr());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}
