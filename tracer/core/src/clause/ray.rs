//! Words the reasons for which Ray ends processes.

use super::{ClauseContext, Number, party, with_pid};
use crate::{
    event::Role,
    ids::Pid,
    judge::cause::{Cause, Command, Request},
};

impl ClauseContext {
    pub(super) fn by_ray(&self, cause: &Cause) -> Option<String> {
        let Number { was, its, .. } = self.number;
        let stopped = self.stopped;
        Some(match cause {
            Cause::RayCommand {
                command,
                pid,
                by_raylet,
            } => self.command(command, *pid, *by_raylet),
            Cause::RayRequest { request, says } => self.request(*request, says.as_deref()),
            Cause::DidNotExit => {
                format!(
                    "{was} killed by Ray because it did not exit within 5 s after being asked to"
                )
            }
            Cause::DidNotRegister => {
                format!("{was} killed by Ray because it did not register in time")
            }
            Cause::DeadBeforeRegistered => {
                "died before it registered with Ray; the cause is unknown".into()
            }
            Cause::JobEnded => format!("{was} {stopped} by Ray: {its} job ended"),
            Cause::JobSupervisorEnded {
                supervisor_pid,
                died,
            } => {
                let how = if *died { "died" } else { "exited" };
                format!(
                    "{was} {stopped} by {its} job's watcher: {its} JobSupervisor (pid {supervisor_pid}) {how}"
                )
            }
            Cause::Intended => {
                format!("{was} {stopped} by Ray on purpose (Ray recorded an intended exit)")
            }
            _ => return None,
        })
    }

    fn command(&self, command: &Command, pid: Pid, by_raylet: bool) -> String {
        let Number { was, its, .. } = self.number;
        let stopped = self.stopped;
        let typed = command.typed();
        let command = match command {
            Command::Ray(_) => format!("`{typed}` (pid {pid})"),
            Command::RayJobStop => format!("`{typed}` (JobSupervisor, pid {pid})"),
            Command::RayShutdown => format!("`{typed}` in {its} driver (pid {pid})"),
            Command::RayStartBlock if by_raylet => {
                format!("the end of {its} `{typed}` (pid {pid})")
            }
            Command::RayStartBlock => {
                return format!(
                    "{was} {stopped} by {its} `{typed}` (pid {pid}), which was exiting"
                );
            }
        };
        if by_raylet {
            format!("{was} {stopped} by {its} raylet on {command}")
        } else {
            format!("{was} {stopped} by {command}")
        }
    }

    fn request(&self, request: Request, says: Option<&str>) -> String {
        let Number { was, its, .. } = self.number;
        let stopped = self.stopped;
        match (request, says) {
            (Request::Kill, _) => format!("{was} {stopped} by `ray.kill`"),
            (Request::OutOfScope, _) => {
                format!("{was} {stopped} by Ray: no reference to {its} actor was left")
            }
            (Request::KillOrOutOfScope, _) => format!(
                "{was} {stopped} by Ray on request: {its} actor was killed or is no longer referenced"
            ),
            (Request::Cancel, _) => format!("{was} {stopped} by `ray.cancel`"),
            (Request::ExitActor, _) => "exited by `ray.actor.exit_actor()`".into(),
            (Request::Other, Some(says)) => format!("exited at Ray's request: {says}"),
            (Request::Other, None) => format!("{was} asked to exit"),
        }
    }

    pub(super) fn by_another(&self, cause: &Cause) -> Option<String> {
        let Number { was, its, .. } = self.number;
        let stopped = self.stopped;
        let itself = self.role == Role::Raylet;
        Some(match cause {
            Cause::OwnerDied { says, owner_lived } => {
                let says = says.as_deref().unwrap_or("owner died");
                let said = match (says, owner_lived) {
                    ("owner died" | "owner has died", Some(Role::Driver)) => {
                        "driver disconnected from Ray"
                    }
                    ("owner died" | "owner has died", Some(_)) => "owner was exiting",
                    ("owner has died", None) => "owner died",
                    (other, _) => other,
                };
                format!("{was} {stopped} by Ray: {its} {said}")
            }
            Cause::OwnersNodeCrashed => {
                format!("{was} {stopped} by Ray: {its} owner's node crashed")
            }
            Cause::NodeDead { .. } if itself => {
                format!("shut down: the GCS had declared {its} node dead")
            }
            Cause::NodeDead { .. } => format!("ended with {its} node, which Ray declared dead"),
            Cause::NodeDrained { says } if itself => {
                format!("shut down: {its} node was drained ({says})")
            }
            Cause::NodeDrained { says } => {
                format!("{was} {stopped} by Ray: {its} node was drained ({says})")
            }
            Cause::NodePreempted { says } => {
                format!("ended with {its} node, which was preempted: {says}")
            }
            Cause::AgentDied { agent } if itself => {
                format!("shut down: {its} node's {agent} died")
            }
            Cause::AgentDied { agent } => {
                format!("{was} {stopped} by Ray: {its} node's {agent} died")
            }
            Cause::GcsLost if itself => {
                format!("shut down: the GCS had marked {its} node dead or was unreachable")
            }
            Cause::GcsLost if self.exited => format!("exited after {its} node had lost the GCS"),
            Cause::GcsLost => format!("{was} {stopped} by Ray: {its} node lost the GCS"),
            Cause::RayletDied {
                by_own_log: true, ..
            } => format!("exited because {its} raylet had ended"),
            Cause::RayletDied { raylet_pid, .. } => {
                format!(
                    "exited after {its} raylet{} had ended",
                    with_pid(*raylet_pid)
                )
            }
            Cause::DashboardGone { dashboard_pid } => {
                format!("exited because {its} dashboard (pid {dashboard_pid}) had ended")
            }
            Cause::EndedWithRaylet { raylet_pid } => {
                format!("ended together with {its} raylet{}", with_pid(*raylet_pid))
            }
            Cause::RayletShutdown { requested_by: None } => {
                format!("{was} {stopped} by {its} raylet, which was shutting down")
            }
            Cause::RayletShutdown {
                requested_by: Some(by),
            } => format!(
                "{was} {stopped} by {its} raylet, which {} had told to shut down",
                party(by)
            ),
            Cause::RayletWithoutReason { raylet_pid } => {
                format!("{was} {stopped} by {its} raylet (pid {raylet_pid}); no reason was logged")
            }
            Cause::RayletEndedItself { says } => format!("shut down: {says}"),
            Cause::WorkerEnding {
                worker_pid,
                by_raylet: true,
            } => format!("{was} {stopped} by the raylet with {its} worker (pid {worker_pid})"),
            Cause::WorkerEnding { worker_pid, .. } => {
                format!("{was} {stopped} by {its} worker (pid {worker_pid}), which was exiting")
            }
            Cause::SiblingDied {
                starter_pid,
                sibling,
            } => format!(
                "{was} {stopped} by {its} `ray start --block` (pid {starter_pid}): {} of {its} node ended",
                party(sibling)
            ),
            _ => return None,
        })
    }
}
