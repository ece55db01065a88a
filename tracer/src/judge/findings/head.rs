//! Ray's own components or the driver hold a good part of the limit: no worker's fault, and no worker that is killed gives it back.

use super::{Run, about, facts::Held, merged};
use crate::{
    event::Role,
    judge::{
        oom::size,
        report::{Certainty, Finding},
    },
};

/// At least this share of the limit.
const SHARE: f64 = 0.1;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().filter_map(|death| {
        let limit = run.limit(death)?;
        let inside = run.inside(death).iter();
        let own = |member: &&Held| words(member.role).is_some();
        let biggest = inside.filter(own).max_by_key(|member| member.private)?;
        if biggest.private.gib() <= SHARE * limit.gib() {
            return None;
        }
        let (name, remedy) = words(biggest.role)?;
        let summary = format!(
            "{name} (pid {}) held {}, {:.0} % of the limit of {}: killing workers does not give that back",
            biggest.pid,
            size(biggest.private),
            100.0 * biggest.private.gib() / limit.gib(),
            size(limit)
        );
        let mut finding = about("head-component", Certainty::Inferred, death, summary);
        finding.remedy = remedy.iter().map(|text| (*text).to_owned()).collect();
        finding.wrong_if = Some("it falls again when the job ends".into());
        Some((biggest.pid, finding))
    });
    merged(found)
}

fn words(role: Role) -> Option<(&'static str, &'static [&'static str])> {
    match role {
        Role::Gcs => Some((
            "the GCS",
            &[
                "No workers on the head: ray start --head --num-cpus=0",
                "it grows with the cluster's age: restart it between runs",
            ],
        )),
        Role::Dashboard => Some((
            "the dashboard",
            &[
                "ray start --head --include-dashboard=false, or no workers on the head: --num-cpus=0",
            ],
        )),
        Role::Agent => Some((
            "an agent of Ray's",
            &[
                "Its growth is a defect of Ray's: report it with this recording; restart the node between runs",
            ],
        )),
        Role::Raylet => Some(("the raylet", &["Report it with this recording"])),
        Role::Driver => Some((
            "the driver",
            &["Hand data to tasks by ray.put or by path; run the driver on another node"],
        )),
        Role::Worker | Role::Descendant | Role::Other => None,
    }
}
