//! One text, line by line: every recogniser sees every interesting line, since a text may be any mix of logs.

use super::{
    configured::Configurations,
    daemons,
    kernel::{self, Kernel},
    line::{Groups, LogLine},
    ray_actor::Actors,
    ray_component::Components,
    ray_monitor::Monitor,
    ray_words, ray_worker, warnings,
    wrapped::Wrapped,
};
use crate::{
    event::Role,
    ids::MINUTE_NS,
    judge::{
        from_text::{
            claim::{Claim, Domain, Place, Stamp, Statement, Subject, Text, TextMention},
            text_evidence::TextEvidence,
        },
        log_mentions,
    },
    path,
    ray::log::{FileKind, file_name},
};

/// Lines that the driver quotes of a raylet that ended.
const QUOTED: u32 = 24;
/// Raylets whose pids are kept.
const MAX_RAYLETS: usize = 64;

/// The state of one text.
#[derive(Debug)]
pub(super) struct Source {
    number: usize,
    monitor: Monitor,
    actors: Actors,
    components: Components,
    kernel: Kernel,
    wrapped: Wrapped,
    configurations: Configurations,
    /// The worker that writes this file, by the file's name and markers.
    own: Subject,
    /// The folder of this file, where it is a raylet's.
    folder: Option<String>,
    /// Whether it is a log: a session's folder also holds dashboards and settings, with texts of Ray's.
    is_log: bool,
    /// Lines of a raylet's log that may still be quoted after its end.
    quoted: u32,
    /// Whether this worker has said that a connection to its peers broke.
    told_of_peers: bool,
    found: Vec<Statement>,
}

impl Source {
    /// The state before the first line of text number `number`.
    pub(super) fn new(number: usize, name: &str) -> Self {
        let base = path::base(name);
        let parsed = file_name::parse(base);
        let folder = parsed
            .as_ref()
            .filter(|parsed| parsed.kind == FileKind::Raylet)
            .map(|_| name[..name.len() - base.len()].to_owned());
        let (worker, pid) = parsed.map_or((None, None), |parsed| (parsed.worker_id, parsed.pid));
        let own = Subject {
            worker_id: worker.clone(),
            pid,
            ..Subject::default()
        };
        Self {
            number,
            monitor: Monitor::default(),
            actors: Actors::default(),
            components: Components::new(worker, pid),
            kernel: Kernel::default(),
            wrapped: Wrapped::default(),
            configurations: Configurations::default(),
            own,
            folder,
            is_log: is_log(base),
            quoted: 0,
            told_of_peers: false,
            found: Vec::new(),
        }
    }

    /// Whether the next line matters whatever it says.
    pub(super) fn wants_all(&self) -> bool {
        self.quoted > 0
            || self.monitor.is_open()
            || self.actors.is_open()
            || self.actors.is_watching()
            || self.components.is_open()
            || self.kernel.is_open()
            || self.wrapped.is_open()
            || self.configurations.is_open()
    }

    /// Takes a line, or the lines that stood in one.
    pub(super) fn line(&mut self, lines: Vec<LogLine>, number: u64, gathered: &mut TextEvidence) {
        let place = Place {
            text: self.number,
            line: number,
        };
        for line in lines {
            clocks(&line, &mut gathered.texts[self.number]);
            for (line, place) in self.wrapped.take(line, place) {
                self.take_line(&line, place, gathered);
            }
        }
        self.hand_over(gathered);
    }

    fn take_line(&mut self, line: &LogLine, place: Place, gathered: &mut TextEvidence) {
        let before = self.found.len();
        let has = |group| line.words.groups.has(group);
        note_raylet(line, gathered);
        if has(Groups::WORDS) && self.folder.is_some() {
            let node_id = &mut gathered.texts[self.number].node_id;
            *node_id = node_id.take().or_else(|| ray_words::node_id(line));
        }
        if has(Groups::MONITOR) || self.monitor.is_open() {
            self.monitor.line(line, place, &mut self.found);
        }
        if has(Groups::ACTOR) || self.actors.is_open() || self.actors.is_watching() {
            self.actors.line(line, place, &mut self.found);
        }
        if has(Groups::COMPONENT) || self.components.is_open() {
            self.components.line(line, place, &mut self.found, gathered);
        }
        if has(Groups::KERNEL) || self.kernel.is_open() {
            self.kernel.line(line, place, &mut self.found);
            kernel::gpu_error(line, place, &mut gathered.remarks);
        }
        if has(Groups::DAEMON) {
            daemons::line(line, place, &mut self.found);
        }
        if has(Groups::WORKER) && !self.actors.is_open() {
            self.other(line, place);
        }
        if has(Groups::MONITOR) || has(Groups::ACTOR) || has(Groups::WORKER) || has(Groups::WORDS) {
            ray_words::line(line, &mut gathered.remarks);
        }
        if has(Groups::CONFIGURED) || self.configurations.is_open() {
            let own = own_name(&self.own);
            self.configurations
                .line(line, own, place, &mut gathered.remarks);
        }
        self.raylet(line, place);
        let claimed = self.found.len() > before || self.monitor.is_open();
        if has(Groups::WARNING) {
            if self.is_log {
                warnings::line(line, place, claimed, &mut gathered.remarks);
            }
            self.of_peers(line, place, gathered);
        }
        if claimed {
            gathered.remarks.repeated += line.repeated;
        }
    }

    /// What a worker's own output says of its peers, once.
    fn of_peers(&mut self, line: &LogLine, place: Place, gathered: &mut TextEvidence) {
        let Some(worker) = self.own.worker_id.clone().filter(|_| !self.told_of_peers) else {
            return;
        };
        if let Some(what) = log_mentions::peer_error("", &line.text) {
            self.told_of_peers = true;
            gathered.mentions.push(TextMention {
                place,
                stamp: line.stamp,
                by: Some(worker),
                what,
            });
        }
    }

    /// Lines that no block has taken: a reason inside one must not count twice.
    fn other(&mut self, line: &LogLine, place: Place) {
        if self.own.worker_id.is_some() {
            ray_worker::marker(&line.text, &mut self.own);
        }
        let reason = line.text.contains("The actor is dead because")
            || line.text.contains("The actor died because");
        if !reason && line.component.is_none() {
            ray_worker::line(line, &self.own, place, &mut self.found);
        }
    }

    /// Lines that the driver quotes of a raylet that ended name its pid.
    fn raylet(&mut self, line: &LogLine, place: Place) {
        if line.words.groups.has(Groups::WORKER)
            && line.text.contains("Raylet is terminated. Termination is")
        {
            self.quoted = QUOTED;
            return;
        }
        if self.quoted == 0 {
            return;
        }
        self.quoted -= 1;
        let Some((_, pid)) = line
            .component
            .as_ref()
            .filter(|(component, _)| component == "raylet")
        else {
            return;
        };
        self.quoted = 0;
        self.found.push(Statement {
            place,
            stamp: line.stamp,
            quote: super::cut(&line.text),
            subject: Subject {
                role: Some(Role::Raylet),
                pid: Some(*pid),
                ..Subject::default()
            },
            claim: Claim::Identity,
        });
    }

    /// Ends the text.
    pub(super) fn end(&mut self, gathered: &mut TextEvidence) {
        for (line, place) in self.wrapped.flush() {
            self.take_line(&line, place, gathered);
        }
        let place = Place {
            text: self.number,
            line: gathered.texts[self.number].lines,
        };
        if self.own.worker_id.is_some() {
            self.found.push(Statement {
                place,
                stamp: Stamp::default(),
                quote: String::new(),
                subject: self.own.clone(),
                claim: Claim::Identity,
            });
        }
        self.monitor.flush(&mut self.found);
        self.actors.finish(place, &mut self.found);
        self.components.flush(place, &mut self.found, gathered);
        self.kernel.flush(&mut self.found);
        self.hand_over(gathered);
    }

    fn hand_over(&mut self, gathered: &mut TextEvidence) {
        for mut statement in self.found.drain(..) {
            if statement.subject.domain == Domain::Ray {
                statement.subject.folder.clone_from(&self.folder);
            }
            gathered.claims.add(statement);
        }
    }
}

/// Whether a file of this name is what a program printed, and no settings of one.
fn is_log(base: &str) -> bool {
    const SETTINGS: [&str; 6] = ["yml", "yaml", "ini", "html", "js", "toml"];
    let end = std::path::Path::new(base).extension();
    let end = end.and_then(|end| end.to_str()).unwrap_or_default();
    // A container's log may be JSON by its name; a dashboard's is one whole document.
    let dashboard = end == "json" && base.contains("dashboard");
    !dashboard && !SETTINGS.contains(&end)
}

/// Who writes this file, where that is a worker.
fn own_name(own: &Subject) -> Option<String> {
    let pid = own.pid?;
    let class = own.class.as_deref().unwrap_or("a worker");
    Some(format!("{class} (pid {pid})"))
}

/// The pid of a raylet in its own pid namespace tells whether a kernel log counts in the same one.
fn note_raylet(line: &LogLine, gathered: &mut TextEvidence) {
    let raylets = &mut gathered.remarks.raylets;
    let component = line
        .component
        .as_ref()
        .filter(|(component, pid)| component == "raylet" && pid.0 != 0);
    if let Some((_, pid)) = component.filter(|_| raylets.len() < MAX_RAYLETS) {
        raylets.insert(*pid);
    }
}

/// Which clocks a line shows, and its zone where it shows two.
fn clocks(line: &LogLine, text: &mut Text) {
    let stamp = line.stamp;
    text.clocks.utc |= stamp.utc.is_some();
    text.clocks.local |= stamp.local.is_some();
    text.clocks.boot |= stamp.boot.is_some();
    if let (Some(utc), Some(local)) = (stamp.utc, stamp.local) {
        let quarter = 15 * MINUTE_NS;
        let offset = (local - utc + quarter / 2).div_euclid(quarter);
        let rest = (local - utc) - offset * quarter;
        if rest.abs() < MINUTE_NS && offset.abs() <= 60 {
            *text
                .offsets
                .entry(i32::try_from(offset).unwrap_or(0))
                .or_default() += 1;
        }
    }
}
