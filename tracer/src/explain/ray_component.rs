//! Turns log records of Ray's components (raylet, GCS, core workers) into claims.
//!
//! `ray::log` has the parsers.

use super::{line::LogLine, ray_exit, rows};
use crate::{
    event::Role,
    ids::{HexId, Pid},
    judge::{
        cause::{Cause, Request},
        from_text::{
            claim::{
                Claim, MonitorState, Place, Stamp, Statement, Subject, TextMention, TextRemarks,
            },
            text_evidence::TextEvidence,
        },
        log_mentions,
    },
    ray::{
        facts::{ExitType, RayFact},
        log::{FileKind, LogParser, Record},
        words::{lost_the_gcs, was_drained, what_ended},
    },
};

/// Keywords of these records.
pub(super) const KEYWORDS: [&str; 42] = [
    "Registering job.",
    "Adding job,",
    "Marking job as finished.",
    "Finished marking job state",
    "Stop: sending SIG",
    "Started worker process with pid",
    "disconnect_type=0",
    "disconnect_type=2",
    "disconnect_type=4",
    "Driver (pid=",
    "Killing leased worker",
    "The leased worker ",
    "exit request to worker",
    "Force exiting worker",
    "Received KillLocalActor",
    "force killing with SIGKILL",
    "not registered within the timeout",
    "received SIGTERM",
    "Ray agent failed",
    "exited immediately because",
    "shutdown triggered with death info",
    "reason_message: ",
    "been marked as dead by the",
    "marked dead by the GCS",
    "may have been killed",
    "Failed to connect to GCS within",
    "MemoryMonitor initialized",
    "MemoryMonitor disabled",
    "process killed to reclaim memory",
    "Reporting worker exit",
    "Client::Disconnect, exit_type=",
    "because the local raylet",
    "Force kill actor request has received",
    "Will resubmit task",
    "no workers are available for killing",
    "Registering new node.",
    "Registering node info,",
    "death reason = ",
    "Removing node, node id = ",
    "received notification on actor, state: ",
    " is failed on worker ",
    "Actor creation task succeeded.",
];

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
        place: Place,
        out: &mut Vec<Statement>,
        gathered: &mut TextEvidence,
    ) {
        let Some((component, pid)) = &line.component else {
            if self.raylet.is_open() {
                self.raylet.push(&line.text, &mut self.records);
                self.emit(None, line, place, out, gathered);
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
        self.emit(Some((component, *pid)), line, place, out, gathered);
    }

    /// Ends the record that is being read.
    pub(super) fn flush(
        &mut self,
        place: Place,
        out: &mut Vec<Statement>,
        gathered: &mut TextEvidence,
    ) {
        self.raylet.flush(&mut self.records);
        self.emit(None, &LogLine::default(), place, out, gathered);
    }

    fn emit(
        &mut self,
        writer: Option<(&str, Pid)>,
        line: &LogLine,
        place: Place,
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
            self.keep_mentions(&record.fact, line, place, gathered);
            let Some((mut subject, claim)) = claim(&record.fact, raylet) else {
                continue;
            };
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
                place,
                stamp: line.stamp,
                quote: record.text,
                subject,
                claim,
            });
        }
    }
}

impl Components {
    /// Keeps what a record says about processes and nodes that may be elsewhere.
    fn keep_mentions(
        &self,
        fact: &RayFact,
        line: &LogLine,
        place: Place,
        gathered: &mut TextEvidence,
    ) {
        for what in log_mentions::mentions(fact).into_iter().flatten() {
            gathered.mention(TextMention {
                place,
                stamp: line.stamp,
                by: self.own.0.clone(),
                what,
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
            remarks.monitor = Some(MonitorState::On {
                threshold: *threshold,
                total: *total,
                refresh_ms: *interval_ms,
            });
        }
        RayFact::MonitorDisabled => remarks.monitor = Some(MonitorState::Off),
        RayFact::ObjectStorePressure { spilled } => {
            remarks.spilled = (*spilled).max(remarks.spilled);
        }
        _ => {}
    }
}

/// Returns what a record claims about the end of a worker or raylet.
fn claim(fact: &RayFact, raylet: Option<Pid>) -> Option<(Subject, Claim)> {
    about_raylet(fact, raylet).or_else(|| about_worker(fact))
}

fn worker(worker_id: Option<&HexId>, pid: Option<Pid>) -> Subject {
    Subject {
        worker_id: worker_id.cloned(),
        pid,
        ..Subject::default()
    }
}

fn collapse(cause: Cause) -> Claim {
    Claim::Collapse {
        cause,
        remote: None,
    }
}

fn about_worker(fact: &RayFact) -> Option<(Subject, Claim)> {
    Some(match fact {
        RayFact::WorkerStarted {
            pid,
            worker_id: Some(id),
            ..
        } => (worker(Some(id), Some(*pid)), Claim::Identity),
        RayFact::MonitorEvicted { pid, worker_id } => {
            let memory = Claim::RayMemory(Box::default());
            (worker(worker_id.as_ref(), Some(*pid)), memory)
        }
        // Ray up to 2.35 names no worker.
        RayFact::Disconnected {
            worker_id,
            exit_type,
            driver: false,
            ..
        } => (worker(worker_id.as_ref(), None), disconnected(*exit_type)?),
        RayFact::OwnerDied {
            worker_id,
            owner_worker_id,
            reason,
        } => (
            worker(Some(worker_id), None),
            owner_died(owner_worker_id.as_ref(), reason),
        ),
        RayFact::JobFinished { worker_id } => {
            let subject = worker(Some(worker_id), None);
            (subject, Claim::Intended(Cause::JobEnded))
        }
        RayFact::KillActorRequested {
            worker_id,
            actor_id,
        } => {
            let mut subject = worker(Some(worker_id), None);
            subject.actor_id.clone_from(actor_id);
            let cause = Cause::requested(Request::KillOrOutOfScope);
            (subject, Claim::Intended(cause))
        }
        RayFact::NotRegistered { pid, alive: true } => {
            let claim = Claim::Intended(Cause::DidNotRegister);
            (worker(None, Some(*pid)), claim)
        }
        RayFact::NotRegistered { pid, alive: false } => {
            (worker(None, Some(*pid)), Claim::Unregistered)
        }
        RayFact::StopSignal {
            process_group,
            worker_id,
            ..
        } => {
            let subject = worker(worker_id.as_ref(), Some(*process_group));
            (
                subject,
                collapse(Cause::RayletShutdown { requested_by: None }),
            )
        }
        _ => return by_itself(fact),
    })
}

/// Returns what a worker says about its own end, and what the GCS says about any worker's.
fn by_itself(fact: &RayFact) -> Option<(Subject, Claim)> {
    Some(match fact {
        RayFact::SelfDisconnect {
            exit_type,
            detail,
            worker_id,
        } => (
            worker(worker_id.as_ref(), None),
            ray_exit::exit(name(*exit_type), detail),
        ),
        RayFact::GcsWorkerExit {
            worker_id,
            exit_type,
            detail,
            ..
        } => (
            worker(Some(worker_id), None),
            ray_exit::exit(name(*exit_type), detail),
        ),
        RayFact::RayletLost {
            worker_id,
            raylet_pid,
        } => (
            worker(worker_id.as_ref(), None),
            collapse(Cause::RayletDied {
                raylet_pid: *raylet_pid,
                by_own_log: true,
            }),
        ),
        RayFact::ForceKillActor { worker_id, reason } => {
            let claim = Claim::Intended(Cause::asked(reason.as_str()));
            (worker(worker_id.as_ref(), None), claim)
        }
        RayFact::FailureSignal {
            signal,
            worker_id: Some(id),
        } => (worker(Some(id), None), rows::failure(signal)),
        _ => return None,
    })
}

/// Returns the claim for a dead owner. If the owner is a driver, its job has ended, which is
/// normal; if it is a worker, it died.
fn owner_died(owner: Option<&HexId>, reason: &str) -> Claim {
    let died = Cause::OwnerDied {
        says: Some(what_ended(reason).to_owned()),
        owner_lived: None,
    };
    let Some(owner) = owner.filter(|owner| owner.has_digits(HexId::WORKER_DIGITS)) else {
        return match reason {
            "job finished" | "its job finished" => Claim::Intended(Cause::JobEnded),
            _ => Claim::Died,
        };
    };
    let tail = owner.0[8..].bytes().filter(|digit| *digit == b'f').count();
    // In an undamaged text all of a driver's are; a worker's digits are random.
    if tail >= DRIVER_DIGITS {
        Claim::Intended(died)
    } else {
        collapse(died)
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

fn about_raylet(fact: &RayFact, pid: Option<Pid>) -> Option<(Subject, Claim)> {
    let claim = match fact {
        RayFact::RayletSigterm => Claim::Signalled(libc::SIGTERM),
        RayFact::AgentFailed { agent } => collapse(Cause::AgentDied {
            agent: agent.clone(),
        }),
        RayFact::RayletShutdown { reason, message } => {
            let words = message.as_deref().unwrap_or(reason);
            if was_drained(reason) {
                let says = words.to_owned();
                return Some((raylet(pid), Claim::Intended(Cause::NodeDrained { says })));
            }
            let cause = Cause::RayletEndedItself {
                says: words.to_owned(),
            };
            match reason.as_str() {
                "EXPECTED_TERMINATION" => Claim::Intended(cause),
                _ => collapse(cause),
            }
        }
        RayFact::RayletMarkedDead { reason } => Claim::Collapse {
            cause: if lost_the_gcs(reason) {
                Cause::GcsLost
            } else {
                Cause::NodeDead {
                    says: Some(reason.clone()),
                }
            },
            remote: Some(reason.clone()),
        },
        _ => return None,
    };
    Some((raylet(pid), claim))
}

fn raylet(pid: Option<Pid>) -> Subject {
    Subject {
        role: Some(Role::Raylet),
        pid,
        ..Subject::default()
    }
}

fn name(exit_type: ExitType) -> &'static str {
    match exit_type {
        ExitType::SystemError => "SYSTEM_ERROR",
        ExitType::IntendedSystemExit => "INTENDED_SYSTEM_EXIT",
        ExitType::UserError => "USER_ERROR",
        ExitType::IntendedUserExit => "INTENDED_USER_EXIT",
        ExitType::NodeOutOfMemory => "NODE_OUT_OF_MEMORY",
        ExitType::Other => "",
    }
}
