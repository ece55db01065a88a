//! Turns log records of Ray's components (raylet, GCS, core workers) into claims.
//!
//! `ray::log` has the parsers.

use super::{line::LogLine, ray_exit, rows};
use crate::{
    event::Role,
    ids::{HexId, Pid},
    judge::{
        cause::Cause,
        from_text::{
            claim::{Claim, Stamp, Statement, Subject, TextRemarks},
            text_evidence::TextEvidence,
        },
        log_mentions,
        ray_reason::{RayReason, owner_ended},
        report::Monitor,
    },
    ray::{
        facts::{ExitType, RayFact},
        log::{FileKind, LogParser, Record},
    },
};

/// The most jobs that are kept.
const MAX_JOBS: usize = 10_000;

/// At least this many of the 48 digits behind the job are `f` in a driver's id.
const DRIVER_DIGITS: usize = 40;

/// The parsers of one text. A line's own prefix decides which one reads it.
#[derive(Debug)]
pub(super) struct Components {
    raylet: LogParser,
    gcs: LogParser,
    core_worker: LogParser,
    /// The worker and pid in the name of a core worker's file.
    own: (Option<HexId>, Option<Pid>),
    records: Vec<Record>,
}

impl Components {
    /// Creates the parsers for a text that belongs to this worker and pid.
    pub(super) fn new(worker_id: Option<HexId>, pid: Option<Pid>) -> Self {
        Self {
            raylet: LogParser::new(FileKind::Raylet, None),
            gcs: LogParser::new(FileKind::Gcs, None),
            core_worker: LogParser::new(FileKind::CoreWorker, worker_id.clone()),
            own: (worker_id, pid),
            records: Vec::new(),
        }
    }

    /// Returns whether a record of several lines is being read.
    pub(super) fn is_open(&self) -> bool {
        self.raylet.is_open()
    }

    /// Reads a line.
    pub(super) fn line(
        &mut self,
        line: &LogLine,
        out: &mut Vec<Statement>,
        gathered: &mut TextEvidence,
    ) {
        let Some((component, pid)) = &line.component else {
            if self.raylet.is_open() {
                self.raylet.push(&line.text, &mut self.records);
                self.emit(None, line, out, gathered);
            }
            return;
        };
        // `ray_monitor` reads kill records line by line. Here, a cut one would swallow what
        // follows.
        if line.text.starts_with("Killing ") && !line.text.starts_with("Killing leased") {
            return;
        }
        let Some(record) = line.record.as_deref() else {
            return;
        };
        let parser = match component.as_str() {
            "raylet" => &mut self.raylet,
            "gcs_server" | "gcs" => &mut self.gcs,
            _ => &mut self.core_worker,
        };
        parser.push(record, &mut self.records);
        self.emit(Some((component, *pid)), line, out, gathered);
    }

    /// Ends the record that is being read.
    pub(super) fn flush(
        &mut self,
        end: &LogLine,
        out: &mut Vec<Statement>,
        gathered: &mut TextEvidence,
    ) {
        self.raylet.flush(&mut self.records);
        self.emit(None, end, out, gathered);
    }

    fn emit(
        &mut self,
        writer: Option<(&str, Pid)>,
        line: &LogLine,
        out: &mut Vec<Statement>,
        gathered: &mut TextEvidence,
    ) {
        let raylet = writer
            .filter(|(component, _)| *component == "raylet")
            .map(|(_, pid)| pid);
        // The prefix of a worker or driver names no component; its pid is its own.
        let itself = writer
            .filter(|(component, _)| component.is_empty())
            .map(|(_, pid)| pid);
        for record in std::mem::take(&mut self.records) {
            remark(&record.fact, line.stamp, &mut gathered.remarks);
            for what in log_mentions::mentions(&record.fact) {
                gathered.mention(line.mentions(self.own.0.clone(), what));
            }
            let Some(claim) = claim(&record.fact) else {
                continue;
            };
            let mut subject = subject(&record.fact, raylet);
            if !whole(&subject) {
                continue;
            }
            if subject.worker_id.is_some() && subject.worker_id == self.own.0 {
                subject.pid = subject.pid.or(self.own.1);
            }
            if !subject.is_named() {
                subject.pid = itself.filter(|pid| pid.0 != 0);
            }
            out.push(Statement {
                quote: record.text,
                ..line.states(subject, claim)
            });
        }
    }
}

/// Returns whether all ids have their full length. A cut id would be another one.
fn whole(subject: &Subject) -> bool {
    let whole = |id: &Option<HexId>, digits| id.as_ref().is_none_or(|id| id.has_digits(digits));
    whole(&subject.worker_id, HexId::WORKER_DIGITS) && whole(&subject.actor_id, HexId::ACTOR_DIGITS)
}

/// Keeps what a record says about other things than deaths.
fn remark(fact: &RayFact, stamp: Stamp, remarks: &mut TextRemarks) {
    let room = remarks.jobs.len() < MAX_JOBS;
    match fact {
        RayFact::JobStarted { job_id, .. } if room => {
            remarks.jobs.entry(job_id.clone()).or_insert(None);
        }
        RayFact::JobEnded { job_id } if room => {
            remarks.jobs.insert(job_id.clone(), Some(stamp));
        }
        RayFact::MonitorStarted {
            threshold,
            total,
            interval_ms,
            ..
        } => {
            remarks.monitor = Some(Monitor {
                enabled: true,
                threshold_bytes: Some(*threshold),
                total_bytes: Some(*total),
                refresh_ms: *interval_ms,
            });
        }
        RayFact::MonitorDisabled => remarks.monitor = Some(Monitor::default()),
        RayFact::ObjectStorePressure { spilled } => {
            remarks.spilled = (*spilled).max(remarks.spilled);
        }
        _ => {}
    }
}

/// Returns what a record claims about the end of a worker or raylet.
fn claim(fact: &RayFact) -> Option<Claim> {
    Some(match fact {
        RayFact::WorkerStarted {
            worker_id: Some(_), ..
        } => Claim::Identity,
        RayFact::RayletSigterm => Claim::Signalled(libc::SIGTERM),
        // Ray up to 2.35 names no worker.
        RayFact::Disconnected {
            exit_type,
            driver: false,
            ..
        } => disconnected(*exit_type)?,
        RayFact::NotRegistered { alive: false, .. } => Claim::Unregistered,
        RayFact::OwnerDied {
            owner_worker_id,
            reason,
            ..
        } => owner_died(owner_worker_id.as_ref(), reason),
        RayFact::SelfDisconnect {
            exit_type, detail, ..
        }
        | RayFact::GcsWorkerExit {
            exit_type, detail, ..
        } => ray_exit::exit(*exit_type, detail),
        RayFact::ForceKillActor { reason, .. } => Claim::Intended(Cause::asked(reason.as_str())),
        RayFact::FailureSignal {
            signal,
            worker_id: Some(_),
        } => rows::failure(signal),
        fact => RayReason::of(fact)?.into(),
    })
}

/// Returns whom a record is about. Records about a node are about its raylet.
fn subject(fact: &RayFact, raylet: Option<Pid>) -> Subject {
    let about = fact.about();
    let actor_id = match fact {
        RayFact::KillActorRequested { actor_id, .. } => actor_id.clone(),
        _ => None,
    };
    Subject {
        role: about.node.then_some(Role::Raylet),
        pid: about
            .pids
            .first()
            .copied()
            .or(raylet.filter(|_| about.node)),
        worker_id: about.workers.into_iter().next(),
        actor_id,
        ..Subject::default()
    }
}

/// Returns the claim for a dead owner. If the owner is a driver, its job has ended, which is
/// normal; if it is a worker, it died.
fn owner_died(owner: Option<&HexId>, reason: &str) -> Claim {
    let died = owner_ended(reason);
    let owner = owner.filter(|owner| owner.has_digits(HexId::WORKER_DIGITS));
    // In an undamaged text all of a driver's are; a worker's digits are random.
    let tail = |owner: &HexId| owner.0[8..].bytes().filter(|digit| *digit == b'f').count();
    match owner {
        _ if died == Cause::JobEnded => Claim::Intended(died),
        None => Claim::Died,
        Some(owner) if tail(owner) >= DRIVER_DIGITS => Claim::Intended(died),
        Some(_) => Claim::Collapse {
            cause: died,
            remote: None,
        },
    }
}

/// Returns what the raylet says about a disconnect. For an unexpected one it does not know the
/// reason.
fn disconnected(exit_type: ExitType) -> Option<Claim> {
    Some(match exit_type {
        ExitType::NodeOutOfMemory => Claim::DisconnectTypeMemory,
        ExitType::SystemError => Claim::Lost,
        ExitType::UserError => Claim::Exit {
            code: None,
            creating_actor: true,
        },
        // An intended end; another line says who asked for it.
        ExitType::IntendedSystemExit | ExitType::IntendedUserExit | ExitType::Other => return None,
    })
}
