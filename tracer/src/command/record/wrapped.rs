//! `-- COMMAND`: a program that is run and tracked with all that it starts.

use std::{os::unix::process::ExitStatusExt, process::ExitCode};

use anyhow::Context as _;
use tokio::process::{Child, Command};

use crate::collect::Collector;

/// The running command.
pub(super) struct Wrapped(Child);

impl Wrapped {
    /// Starts it, as the user who ran sudo; it is tracked from its first instant because its parent is while it forks.
    pub(super) fn start(
        command: &[String],
        user: Option<(u32, u32)>,
        collector: &mut Collector,
    ) -> anyhow::Result<Option<Self>> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some((uid, gid)) = user {
            command.uid(uid).gid(gid);
        }
        let child = collector
            .spawn_tracked(|| command.spawn())
            .with_context(|| format!("cannot run {program}"))?;
        Ok(Some(Self(child)))
    }

    /// Its end; never, without one.
    pub(super) async fn wait(wrapped: &mut Option<Self>) -> ExitCode {
        let Some(Self(child)) = wrapped else {
            return std::future::pending().await;
        };
        let Ok(status) = child.wait().await else {
            return ExitCode::FAILURE;
        };
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}
