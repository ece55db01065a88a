//! What Ray ends processes for, in words.

use super::{ClauseContext, party, with_pid};
use crate::{
    event::Role,
    ids::Pid,
    judge::cause::{Cause, Command, Request},
};

impl ClauseContext {
    pub(super) fn by_ray(&self, cause: &Cause) -> Option<String> {
        let ended = self.ended;
        Some(match cause {
            Cause::RayCommand {
                command,
                pid,
                by_raylet,
            } => self.command(command, *pid, *by_raylet),
            Cause::RayRequest { request, says } => self.request(*request, says.as_deref()),
            Cause::DidNotExit => {
                "was killed by Ray because it did not exit within 5 s after being asked to".into()
            }
            Cause::DidNotRegister => "was killed by Ray because it did not register in time".into(),
            Cause::DeadBeforeRegistered => {
                "ended early: it was dead before it registered; why is not known".into()
            }
            Cause::JobEnded => format!("was {ended} by Ray because its job had ended"),
            Cause::JobSupervisorEnded {
                supervisor_pid,
                died,
            } => {
                let how = if *died { "died" } else { "ended" };
                format!(
                    "was {ended} by its job's watcher because its JobSupervisor (pid {supervisor_pid}) had {how}"
                )
            }
            Cause::Intended => {
                format!("was {ended} by Ray on purpose (its record says an intended exit)")
            }
            _ => return None,
        })
    }

    fn command(&self, command: &Command, pid: Pid, by_raylet: bool) -> String {
        let ended = self.ended;
        let typed = command.typed();
        let command = match command {
            Command::Ray(_) => format!("`{typed}` (pid {pid})"),
            Command::RayJobStop => format!("`{typed}` (JobSupervisor, pid {pid})"),
            Command::RayShutdown => format!("`{typed}` in its driver (pid {pid})"),
            Command::RayStartBlock if by_raylet => format!("the end of its `{typed}` (pid {pid})"),
            Command::RayStartBlock => {
                return format!("was {ended} by its `{typed}` (pid {pid}), which was ending");
            }
        };
        if by_raylet {
            format!("was {ended} by its raylet on {command}")
        } else {
            format!("was {ended} by {command}")
        }
    }

    fn request(&self, request: Request, says: Option<&str>) -> String {
        let ended = self.ended;
        match (request, says) {
            (Request::Kill, _) => format!("was {ended} by `ray.kill`"),
            (Request::OutOfScope, _) => {
                format!("was {ended} by Ray: all references to its actor were gone")
            }
            (Request::KillOrOutOfScope, _) => format!(
                "was {ended} by Ray on request: its actor was killed or is no longer referenced"
            ),
            (Request::Cancel, _) => format!("was {ended} by `ray.cancel`"),
            (Request::ExitActor, _) => "exited by `ray.actor.exit_actor()`".into(),
            (Request::Other, Some(says)) => format!("ended on Ray's request: {says}"),
            (Request::Other, None) => "was told to end".into(),
        }
    }

    /// What Ray did to it; only what has ended was stopped.
    fn stopped(&self) -> &'static str {
        match self.ended {
            "ended" => "stopped",
            other => other,
        }
    }

    pub(super) fn by_another(&self, cause: &Cause) -> Option<String> {
        let ended = self.ended;
        let itself = self.role == Role::Raylet;
        Some(match cause {
            Cause::OwnerDied { says } => {
                let says = says.as_deref().unwrap_or("owner died");
                let said = match says.trim_start_matches("its ") {
                    "owner died" | "owner has died" => "owner exited",
                    other => other,
                };
                format!("was {} by Ray: its {said}", self.stopped())
            }
            Cause::OwnersNodeCrashed => {
                format!(
                    "was {} by Ray: its owner's node had crashed",
                    self.stopped()
                )
            }
            Cause::NodeDead { .. } if itself => {
                "ended itself: the GCS had declared its node dead".into()
            }
            Cause::NodeDead { .. } => "ended with its node, which Ray counts as dead".into(),
            Cause::NodeDrained { says } if itself => {
                format!("ended itself: its node was drained ({says})")
            }
            Cause::NodeDrained { says } => {
                format!("was {ended} with its node, which was drained ({says})")
            }
            Cause::AgentDied { agent } if itself => {
                format!("ended itself because {agent} of its node had died")
            }
            Cause::AgentDied { agent } => {
                format!("was {ended} by Ray because {agent} of its node had died")
            }
            Cause::GcsLost if itself => {
                "ended itself: the GCS had marked its node dead, or was gone".into()
            }
            Cause::GcsLost if self.exited => "exited after its node had lost the GCS".into(),
            Cause::GcsLost => format!("was {ended} by Ray because its node lost the GCS"),
            Cause::RayletGone {
                by_own_log: true, ..
            } => "exited because its raylet had gone".into(),
            Cause::RayletGone { raylet_pid, .. } => {
                format!("exited after its raylet{} had ended", with_pid(*raylet_pid))
            }
            Cause::DashboardGone { dashboard_pid } => {
                format!("exited because its dashboard (pid {dashboard_pid}) had ended")
            }
            Cause::RayletEndedToo { raylet_pid } => format!(
                "ended; its raylet{} ended too, which takes its workers along",
                with_pid(*raylet_pid)
            ),
            Cause::RayletShutdown { told_by: None } => {
                format!("was {ended} by its raylet, which was shutting down")
            }
            Cause::RayletShutdown { told_by: Some(by) } => format!(
                "was {ended} by its raylet, which {} had told to end",
                party(by)
            ),
            Cause::RayletWithoutReason { raylet_pid } => format!(
                "was {ended} by its raylet (pid {raylet_pid}), which gave no reason that was seen"
            ),
            Cause::RayletEndedItself { says } => format!("ended itself: {says}"),
            Cause::WorkerEnding {
                worker_pid,
                by_raylet: true,
            } => format!("was {ended} by the raylet with its worker (pid {worker_pid})"),
            Cause::WorkerEnding { worker_pid, .. } => {
                format!("was {ended} by its worker (pid {worker_pid}), which was ending")
            }
            Cause::SiblingDied {
                starter_pid,
                sibling,
            } => format!(
                "was {ended} by its `ray start --block` (pid {starter_pid}), because {} of its node had died",
                party(sibling)
            ),
            _ => return None,
        })
    }
}
