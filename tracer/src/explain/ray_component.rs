//! Records of Ray's own components (raylet, GCS, core workers) as claims, read by the parsers of `ray::log`.

use super::{peel::Peeled, ray_exit, ray_worker};
use crate::{
    event::Role,
    ids::{HexId, Pid},
    judge::from_text::claim::{
        Claim, MonitorState, Place, Remarks, Statement, Subject, UNREGISTERED,
    },
    ray::{
        facts::{ExitType, RayFact},
        log::{FileKind, LogParser, Record},
    },
};

/// Words of these records.
pub(super) const ANCHORS: [&str; 31] = [
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
];

/// Digits of a worker's id.
const WORKER_DIGITS: usize = 56;
/// Of the 48 digits behind the job in a driver's id, so many are `f`.
const DRIVER_DIGITS: usize = 40;
/// Digits of an actor's id.
const ACTOR_DIGITS: usize = 32;

/// The parsers of one text; which one takes a line is decided by the line's own prefix.
#[derive(Debug)]
pub(super) struct Components {
    raylet: LogParser,
    gcs: LogParser,
    core_worker: LogParser,
    /// Worker and pid of a core worker's file, by its name.
    own: (Option<HexId>, Option<Pid>),
    records: Vec<Record>,
}

impl Components {
    /// Parsers for a text of this name.
    pub(super) fn new(worker_id: Option<HexId>, pid: Option<Pid>) -> Self {
        Self {
            raylet: LogParser::new(FileKind::Raylet, None),
            gcs: LogParser::new(FileKind::Gcs, None),
            core_worker: LogParser::new(FileKind::CoreWorker, worker_id.clone()),
            own: (worker_id, pid),
            records: Vec::new(),
        }
    }

    /// Whether a record of several lines is being read.
    pub(super) fn is_open(&self) -> bool {
        self.raylet.is_open()
    }

    /// Takes a line.
    pub(super) fn line(
        &mut self,
        line: &Peeled,
        place: Place,
        out: &mut Vec<Statement>,
        remarks: &mut Remarks,
    ) {
        let Some((component, pid)) = &line.component else {
            if self.raylet.is_open() {
                self.raylet.push(&line.text, &mut self.records);
                self.emit(None, line, place, out, remarks);
            }
            return;
        };
        // Kill records are read line by line elsewhere: here a cut one would swallow what follows.
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
        self.emit(Some((component, *pid)), line, place, out, remarks);
    }

    /// Ends what is open.
    pub(super) fn flush(&mut self, place: Place, out: &mut Vec<Statement>, remarks: &mut Remarks) {
        self.raylet.flush(&mut self.records);
        self.emit(None, &Peeled::default(), place, out, remarks);
    }

    fn emit(
        &mut self,
        writer: Option<(&str, Pid)>,
        line: &Peeled,
        place: Place,
        out: &mut Vec<Statement>,
        remarks: &mut Remarks,
    ) {
        let raylet = writer
            .filter(|(component, _)| *component == "raylet")
            .map(|(_, pid)| pid);
        // A worker or driver speaks of itself.
        let itself = writer
            .filter(|(component, _)| component.is_empty())
            .map(|(_, pid)| pid);
        for record in std::mem::take(&mut self.records) {
            remark(&record.fact, remarks);
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

/// Whether no id lost its end: it would be another one.
fn whole(subject: &Subject) -> bool {
    let worker = subject.worker_id.as_ref().map(|id| id.0.len());
    let actor = subject.actor_id.as_ref().map(|id| id.0.len());
    worker.is_none_or(|digits| digits == WORKER_DIGITS)
        && actor.is_none_or(|digits| digits == ACTOR_DIGITS)
}

/// What a record says besides deaths.
fn remark(fact: &RayFact, remarks: &mut Remarks) {
    match fact {
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

/// What a record says of the end of a worker or raylet.
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

fn collapse(clause: &str) -> Claim {
    Claim::Collapse {
        clause: clause.to_owned(),
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
        RayFact::Disconnected {
            worker_id: Some(id),
            exit_type,
            driver: false,
            ..
        } => (worker(Some(id), None), disconnected(*exit_type)?),
        RayFact::OwnerDied {
            worker_id,
            owner_worker_id,
            reason,
        } => (
            worker(Some(worker_id), None),
            owner_died(owner_worker_id.as_ref(), reason),
        ),
        RayFact::JobFinished { worker_id } => {
            let clause = "was ended by its raylet: its job had finished";
            (
                worker(Some(worker_id), None),
                Claim::Intended(clause.into()),
            )
        }
        RayFact::KillActorRequested {
            worker_id,
            actor_id,
        } => {
            let clause = "was ended by Ray: `ray.kill`, or its actor was out of scope";
            let mut subject = worker(Some(worker_id), None);
            subject.actor_id.clone_from(actor_id);
            (subject, Claim::Intended(clause.into()))
        }
        RayFact::NotRegistered { pid, alive: true } => {
            let clause = "was ended by its raylet: it did not register in time";
            (worker(None, Some(*pid)), Claim::Intended(clause.into()))
        }
        RayFact::NotRegistered { pid, alive: false } => {
            (worker(None, Some(*pid)), Claim::Died(UNREGISTERED.into()))
        }
        RayFact::StopSignal {
            process_group,
            worker_id,
            ..
        } => {
            let subject = worker(worker_id.as_ref(), Some(*process_group));
            (
                subject,
                collapse("was ended by its raylet, which was shutting down"),
            )
        }
        _ => return by_itself(fact),
    })
}

/// What a worker says of its own end, and the GCS of any.
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
        } => (
            worker(Some(worker_id), None),
            ray_exit::exit(name(*exit_type), detail),
        ),
        RayFact::RayletLost { worker_id, .. } => (
            worker(worker_id.as_ref(), None),
            collapse("exited because its raylet had gone"),
        ),
        RayFact::ForceKillActor { worker_id, reason } => {
            let clause = format!("exited on Ray's request: {reason}");
            (worker(worker_id.as_ref(), None), Claim::Intended(clause))
        }
        RayFact::FailureSignal {
            signal,
            worker_id: Some(id),
        } => (worker(Some(id), None), ray_worker::failure(signal)),
        _ => return None,
    })
}

/// A driver that left is the end of its job, as every job has one; a worker that owned others died.
fn owner_died(owner: Option<&HexId>, reason: &str) -> Claim {
    let clause = format!("was ended by its raylet: {reason}");
    let Some(owner) = owner.filter(|owner| owner.0.len() == WORKER_DIGITS) else {
        return match reason {
            "job finished" | "its job finished" => Claim::Intended(clause),
            _ => Claim::Died(clause),
        };
    };
    let tail = owner.0[8..].bytes().filter(|digit| *digit == b'f').count();
    // All of them are, in a text without damage; a worker's are random.
    if tail >= DRIVER_DIGITS {
        Claim::Intended(clause)
    } else {
        collapse(&clause)
    }
}

/// The raylet's view of a disconnect. An end that it did not expect says nothing of its reason.
fn disconnected(exit_type: ExitType) -> Option<Claim> {
    Some(match exit_type {
        ExitType::NodeOutOfMemory => Claim::MemoryDigit("disconnect_type=4".into()),
        ExitType::SystemError => Claim::Lost("disconnect_type=0".into()),
        ExitType::UserError => Claim::Exit {
            code: None,
            why: Some("an exception while its actor was created".into()),
        },
        // An end that was wanted; by whom stands in a line of its own.
        ExitType::IntendedSystemExit | ExitType::IntendedUserExit | ExitType::Other => return None,
    })
}

fn about_raylet(fact: &RayFact, pid: Option<Pid>) -> Option<(Subject, Claim)> {
    let claim = match fact {
        RayFact::RayletSigterm => Claim::Signalled(15),
        RayFact::AgentFailed { agent } => {
            collapse(&format!("ended itself because its {agent} had failed"))
        }
        RayFact::RayletShutdown { reason, message } => {
            let words = message.as_deref().unwrap_or(reason);
            let clause = format!("ended itself: {words}");
            match reason.as_str() {
                "EXPECTED_TERMINATION" => Claim::Intended(clause),
                _ => collapse(&clause),
            }
        }
        RayFact::RayletMarkedDead { reason } => Claim::Collapse {
            clause: "ended itself: the GCS had marked its node dead, or was gone".into(),
            remote: Some(reason.clone()),
        },
        _ => return None,
    };
    let subject = Subject {
        role: Some(Role::Raylet),
        pid,
        ..Subject::default()
    };
    Some((subject, claim))
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
