//! Reads one text line by line with all recognisers, since a text may be any mix of logs.

use super::{
    broken_lines::BrokenLines,
    configurations::Configurations,
    headings::Headings,
    kernel::{self, Kernels},
    line::{Groups, LogLine},
    ray_actor::Actors,
    ray_component::Components,
    ray_monitor::Monitor,
    ray_remarks, rows,
    said::Said,
    torchrun::Torchrun,
    warnings,
};
use crate::{
    event::Role,
    ids::{MINUTE_NS, Pid},
    judge::{
        from_text::{
            claim::{Claim, PidNamespace, Place, Statement, Subject, Text},
            text_evidence::TextEvidence,
        },
        log_mentions,
    },
    path,
    ray::log::{FileKind, file_name},
};

/// How many lines the driver quotes from the log of a raylet that has ended.
const QUOTED: u32 = 24;
/// In a frame of a raylet's own stack: its program, with an offset. It prints one only if it ends.
const RAYLETS_FRAME: &str = "/raylet/raylet(+0x";
const OWN_STACK: &str = "a fatal error of its own (it printed a C++ stack trace)";
/// The most raylet pids that are kept.
const MAX_RAYLETS: usize = 64;

/// The state of reading one text.
#[derive(Debug)]
pub(super) struct Source {
    number: usize,
    monitor: Monitor,
    actors: Actors,
    components: Components,
    kernels: Kernels,
    broken_lines: BrokenLines,
    configurations: Configurations,
    headings: Headings,
    torchrun: Torchrun,
    /// The worker that writes this file, from the file's name and its markers.
    own: Subject,
    /// The folder of this file, if it is a raylet's log.
    folder: Option<String>,
    /// Whether it is a log. A session's folder also holds dashboards and settings, which contain
    /// texts of Ray.
    is_log: bool,
    /// How many of the next lines may be quotes from the log of this raylet, which has ended.
    quoted: u32,
    ended: Subject,
    /// What the text said last that may be why a process ends: an error, or Ctrl+C.
    said: Said,
    /// Whether this worker's broken connection to its peers has been noted.
    told_of_peers: bool,
    found: Vec<Statement>,
}

impl Source {
    /// Creates the state before the first line of text number `number`.
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
            kernels: Kernels::default(),
            broken_lines: BrokenLines::default(),
            configurations: Configurations::default(),
            headings: Headings::default(),
            torchrun: Torchrun::default(),
            own,
            folder,
            is_log: is_log(base),
            quoted: 0,
            ended: Subject::raylet(None),
            said: Said::default(),
            told_of_peers: false,
            found: Vec::new(),
        }
    }

    /// Returns whether a raylet writes this text.
    pub(super) fn is_raylets(&self) -> bool {
        self.folder.is_some()
    }

    /// Returns whether the next line matters even if it contains no keywords.
    pub(super) fn wants_all(&self) -> bool {
        self.quoted > 0
            || self.monitor.is_open()
            || self.actors.is_open()
            || self.actors.is_watching()
            || self.components.is_open()
            || self.kernels.are_open()
            || self.broken_lines.is_open()
            || self.configurations.is_open()
            || self.headings.is_open()
    }

    /// Reads a line, or the lines that were wrapped in one.
    pub(super) fn line(&mut self, lines: Vec<LogLine>, number: u64, gathered: &mut TextEvidence) {
        let place = Place {
            text: self.number,
            line: number,
        };
        for mut line in lines {
            line.place = place;
            clocks(&line, &mut gathered.texts[self.number]);
            for line in self.broken_lines.take(line) {
                self.take_line(&line, gathered);
            }
        }
        self.hand_over(gathered);
    }

    fn take_line(&mut self, line: &LogLine, gathered: &mut TextEvidence) {
        let before = self.found.len();
        // What a worker prints of the kernel, the raylet or the GCS is a quotation.
        let by_worker = line.is_of_worker(&self.own);
        let of_ray = |(name, _): &(String, Pid)| matches!(name.as_str(), "raylet" | "gcs_server");
        if by_worker && line.component.as_ref().is_some_and(of_ray) {
            return self.raylet(line);
        }
        let has = |group| line.keywords.groups.has(group);
        note_raylet(line, gathered);
        if has(Groups::RAY_REMARKS) && self.folder.is_some() {
            let node_id = &mut gathered.texts[self.number].node_id;
            *node_id = node_id.take().or_else(|| ray_remarks::node_id(line));
        }
        if has(Groups::MONITOR) || self.monitor.is_open() {
            self.monitor.line(line, &mut self.found);
        }
        if has(Groups::ACTOR) || self.actors.is_open() || self.actors.is_watching() {
            self.actors.line(line, &mut self.found);
            if let Some(actor) = self.actors.ended_at(line.place) {
                self.monitor.of_actor(line.place, actor);
            }
        }
        if has(Groups::COMPONENT) || self.components.is_open() {
            self.components.line(line, &mut self.found, gathered);
        }
        if !by_worker && (has(Groups::KERNEL) || self.kernels.are_open()) {
            self.kernels.line(line, &mut self.found);
            kernel::gpu_error(line, &mut gathered.remarks);
        }
        if has(Groups::CATALOGUE) || has(Groups::MARKERS) || line.level == Some('C') {
            self.other(line, before);
        }
        if has(Groups::HEADINGS) || self.headings.is_open() {
            self.headings.line(line, before, &mut self.found);
        }
        self.headings.name(line, before, &mut self.found);
        if has(Groups::CATALOGUE) {
            self.torchrun.line(line, before, &mut self.found);
        }
        if has(Groups::MONITOR)
            || has(Groups::ACTOR)
            || has(Groups::CATALOGUE)
            || has(Groups::RAY_REMARKS)
        {
            ray_remarks::line(line, &mut gathered.remarks);
            for what in ray_remarks::dead_node(line).into_iter().flatten() {
                gathered.mention(line.mentions(self.own.worker_id.clone(), what));
            }
        }
        if has(Groups::CONFIGURATIONS) || self.configurations.is_open() {
            let own = own_name(&self.own);
            self.configurations.line(line, own, &mut gathered.remarks);
        }
        self.raylet(line);
        self.said.join(before, &mut self.found);
        let tells = |one: &Statement| !one.claim.is_no_end();
        let claimed = self.found[before..].iter().any(tells) || self.monitor.is_open();
        if has(Groups::WARNING) {
            if self.is_log {
                warnings::line(line, claimed, &mut gathered.remarks);
            }
            self.of_peers(line, gathered);
        }
        if claimed {
            gathered.remarks.repeated += line.repeated;
        }
    }

    /// Notes, once, what a worker's own output says about its peers.
    fn of_peers(&mut self, line: &LogLine, gathered: &mut TextEvidence) {
        let Some(worker) = self.own.worker_id.clone().filter(|_| !self.told_of_peers) else {
            return;
        };
        if let Some(what) = log_mentions::peer_error("", &line.text) {
            self.told_of_peers = true;
            gathered.mention(line.mentions(Some(worker), what));
        }
    }

    /// Reads a line by the rows of the catalogue. What belongs to a block of a dead actor is left
    /// out, because it would count twice; so is what others have read of a fatal record.
    fn other(&mut self, line: &LogLine, before: usize) {
        if self.own.worker_id.is_some() {
            rows::marker(&line.text, &mut self.own);
        }
        let reason = line.text.contains("The actor is dead because")
            || line.text.contains("The actor died because");
        let hosts = reason || self.actors.is_open();
        rows::line(line, &self.own, hosts, &mut self.found);
        if self.found.len() == before && !hosts && !self.monitor.is_open() {
            self.found.extend(rows::fatal(line, &self.own));
        }
    }

    /// Reads the pid of a raylet, and whether it crashed, from the log lines that the driver quotes
    /// after its end.
    fn raylet(&mut self, line: &LogLine) {
        if line.keywords.groups.has(Groups::CATALOGUE)
            && line.text.contains("Raylet is terminated")
            && line.text.contains("Termination is")
        {
            self.quoted = QUOTED;
            let told = self.found.last().map(|one| one.subject.clone());
            let told = told.filter(|one| one.role == Some(Role::Raylet));
            self.ended = told.unwrap_or_else(|| Subject::raylet(None));
            return;
        }
        if self.quoted == 0 {
            return;
        }
        self.quoted -= 1;
        let record = line.component.as_ref();
        let record = record.filter(|(name, _)| name == "raylet" && self.ended.pid.is_none());
        let claim = if let Some((_, pid)) = record {
            self.ended.pid = Some(*pid);
            Claim::Identity
        } else if line.speaker.is_none() && line.text.contains(RAYLETS_FRAME) {
            self.quoted = 0;
            let says = OWN_STACK.to_owned();
            Claim::FatalError { says }
        } else {
            return;
        };
        self.found.push(line.states(self.ended.clone(), claim));
    }

    /// Ends the text and adds what is still open.
    pub(super) fn end(&mut self, gathered: &mut TextEvidence) {
        for line in self.broken_lines.flush() {
            self.take_line(&line, gathered);
        }
        let place = Place {
            text: self.number,
            line: gathered.texts[self.number].lines,
        };
        let end = LogLine {
            place,
            ..LogLine::default()
        };
        if self.own.worker_id.is_some() {
            let own = self.own.clone();
            self.found.push(end.states(own, Claim::Identity));
        }
        self.monitor.flush(&mut self.found);
        self.actors.finish(place, &mut self.found);
        self.components.flush(&end, &mut self.found, gathered);
        self.kernels.flush(&mut self.found);
        self.headings.flush(&mut self.found);
        self.torchrun.flush(&mut self.found);
        self.hand_over(gathered);
    }

    fn hand_over(&mut self, gathered: &mut TextEvidence) {
        for mut statement in self.found.drain(..) {
            // A time beside an end, in a line of its own.
            let clocks = &mut gathered.texts[self.number].clocks;
            clocks.utc |= statement.stamp.utc.is_some();
            clocks.local |= statement.stamp.local.is_some();
            if statement.subject.pid_namespace == PidNamespace::Ray {
                statement.subject.folder.clone_from(&self.folder);
            }
            gathered.claims.add(statement);
        }
    }
}

/// Returns whether a file of this name is a log, rather than settings or a page.
fn is_log(base: &str) -> bool {
    const SETTINGS: [&str; 6] = ["yml", "yaml", "ini", "html", "js", "toml"];
    let end = std::path::Path::new(base).extension();
    let end = end.and_then(|end| end.to_str()).unwrap_or_default();
    // A container's log may have a name that ends with `json`. A dashboard is one JSON document.
    let dashboard = end == "json" && base.contains("dashboard");
    !dashboard && !SETTINGS.contains(&end)
}

/// Names the worker that writes this file, if it is one.
fn own_name(own: &Subject) -> Option<String> {
    let pid = own.pid?;
    let class = own.class.as_deref().unwrap_or("a worker");
    Some(format!("{class} (pid {pid})"))
}

/// Notes the pid that a raylet has in its own pid namespace. It shows whether a kernel log uses the
/// same namespace.
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

/// Notes which clocks a line shows, and its time zone if it shows both UTC and local time.
fn clocks(line: &LogLine, text: &mut Text) {
    let stamp = line.stamp;
    text.clocks.utc |= stamp.utc.is_some();
    text.clocks.local |= stamp.local.is_some();
    text.clocks.boot |= stamp.boot.is_some();
    text.clocks.day |= stamp.day.is_some();
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
