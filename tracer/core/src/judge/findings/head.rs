//! Finds a Ray component or driver that holds a good part of the limit.
//!
//! No worker is the cause, and killing workers does not free that memory.

use super::{Run, about, facts::Member, part_of::part_of};
use crate::{
    event::Role,
    judge::report::{Certainty, Finding},
    ray::start::{Change, Start},
};

/// The process holds more than this share of the limit.
const SHARE: f64 = 0.1;
/// The process holds at least one part in this many of what all processes held, shared memory
/// included. Without a smaller one, the others would have hit the limit only a little later.
const PART: u64 = 4;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let inside = run.inside(death).iter();
        let own = |member: &&Member| words(member.role, Start::default()).is_some();
        let biggest = inside.filter(own).max_by_key(|member| member.private)?;
        let all: u64 = run.inside(death).iter().map(|member| member.private.0).sum();
        let all = all + run.shared(death).unwrap_or_default().0;
        let is_part = biggest.private.0.saturating_mul(PART) >= all;
        if biggest.private.gib() <= SHARE * limit.gib() || !is_part {
            return None;
        }
        let (name, remedy) = words(biggest.role, run.started(death))?;
        let [part, percent, whole] = part_of(biggest.private, limit);
        let summary = format!(
            "{name} (pid {}) held {part}, {percent} of the limit of {whole}: killing workers does not free that",
            biggest.pid
        );
        let mut finding = about("head-component", Certainty::Inferred, death, summary);
        finding.about.pids = vec![biggest.pid];
        finding.about.bytes = biggest.private;
        finding.remedy = remedy;
        finding.not_if = Some("it falls again when the job ends".into());
        Some((biggest.pid, finding))
    })
}

/// Returns how to set an option of the head node.
fn on_head(name: &str, value: &str, start: Start) -> String {
    match start {
        Start::Kubernetes => format!("{}, for its head", Change::flag(name, value).at(start)),
        _ => format!("ray start --head --{name}={value}"),
    }
}

fn words(role: Role, start: Start) -> Option<(&'static str, Vec<String>)> {
    let no_workers = || {
        format!(
            "run no workers on the head: {}",
            on_head("num-cpus", "0", start)
        )
    };
    let text = |text: &str| vec![text.to_owned()];
    match role {
        Role::Gcs => Some((
            "the GCS",
            vec![
                no_workers(),
                "it grows with the age of the cluster: restart it between runs".to_owned(),
            ],
        )),
        Role::Dashboard => Some((
            "the dashboard",
            vec![on_head("include-dashboard", "false", start), no_workers()],
        )),
        Role::Agent => Some((
            "a Ray agent",
            text(
                "its growth is a bug in Ray: report it with this recording, and restart the node between runs",
            ),
        )),
        Role::Raylet => Some(("the raylet", text("report it to Ray with this recording"))),
        Role::Driver => Some((
            "the driver",
            text("pass data to tasks by ray.put or by path, or run the driver on another node"),
        )),
        Role::Worker | Role::Descendant | Role::Other => None,
    }
}
