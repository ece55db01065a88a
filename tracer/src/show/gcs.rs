//! Says what Ray's GCS knows about a process: its actor, placement group, node and job.

use crate::{
    judge::report::Death,
    phrase,
    show::sanitize::{EVIDENCE, line as clean, name as short},
};

/// Returns `actor keeper, placement group shelf, node gpu-07, job 01000000: python train.py`, or
/// `None` if the GCS was not asked or knows nothing.
pub(super) fn line(death: &Death) -> Option<String> {
    let said = death.work.gcs.as_ref()?;
    let named = |what: &str, name: &Option<String>| {
        let name = name.as_ref()?;
        Some(format!("{what} {}", clean(name, EVIDENCE)))
    };
    let group = named("placement group", &said.placement_group).or_else(|| {
        let id = said.placement_group_id.as_ref()?;
        Some(format!("placement group {}", short(id.short())))
    });
    let job = death.work.job_id.as_ref().map_or("", |id| id.0.as_str());
    let parts = [
        named("actor", &said.actor_name),
        group,
        named("node", &said.node_name),
        named(&format!("job {}:", short(job)), &said.job_entrypoint),
    ];
    phrase::known(parts, ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::HexId,
        judge::{
            cause::Cause,
            report::{GcsReport, Killer},
        },
        show::sample,
    };

    #[test]
    fn gcs_facts_are_one_escaped_line() {
        let mut death = sample::death(1, 7, 0, Killer::Crash, Cause::signal(11));
        assert_eq!(line(&death), None);
        death.work.gcs = Some(Box::new(GcsReport {
            actor_name: Some("keeper\u{1b}[2J".into()),
            placement_group_id: HexId::parse("9ac9259dfb1626d9219186a8328c01000000"),
            job_entrypoint: Some("python train.py".into()),
            ..GcsReport::default()
        }));
        let shown = line(&death).expect("a line");
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert!(shown.starts_with("actor keeper"), "{shown}");
        let rest = "placement group 9ac9259d, job 02000000: python train.py";
        assert!(shown.ends_with(rest), "{shown}");
    }
}
