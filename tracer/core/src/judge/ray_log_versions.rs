//! Notes versions of Ray that the grammars do not know, because their words may have changed.

use crate::{
    judge::report::{Killer, Report},
    ray::{log::monitor_kill::NEWEST, version::Version},
};

/// Returns a note on kill records of Ray's memory monitor that no grammar reads. No verdict rests
/// on them.
pub(super) fn unread(records: usize, version: Option<&str>) -> Option<String> {
    let of = version.map_or_else(
        || "of a version that is not named".to_owned(),
        |version| format!("of Ray {version}"),
    );
    (records > 0).then(|| {
        format!(
            "{records} records of kills, {of}, name no worker in a form that raytrace knows (Ray 2.1 to {}.{}): no verdict rests on them",
            NEWEST.0, NEWEST.1
        )
    })
}

/// Returns a note on a version with unknown messages, if deaths of Ray's own processes have no
/// known reason.
pub(super) fn note(report: &Report) -> Option<String> {
    let mut versions = report.clusters.iter();
    let newer = versions.find_map(|cluster| {
        let version = cluster.ray_version.as_deref()?;
        (Version::parse(version)? > NEWEST).then_some(version)
    })?;
    let open = |death: &&crate::judge::report::Death| {
        death.listed
            && death.process.role.is_ray_or_driver()
            && death.verdict.killer == Killer::Unknown
    };
    let open = report.deaths.iter().filter(open).count();
    (open > 0).then(|| {
        format!(
            "Ray {newer} is newer than the newest whose messages raytrace knows ({}.{}): the reason of deaths with an unknown killer ({open}) may be in messages that it cannot read",
            NEWEST.0, NEWEST.1
        )
    })
}
