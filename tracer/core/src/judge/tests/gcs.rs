//! Names from the GCS are shown with a worker's death and memory, and change nothing else.

use super::scene::{RAYLET, Scene, hex, key};
use crate::{
    event::{Observation, RayLog, Role, Source},
    ids::{HexId, ProcessKey},
    judge::report::{Death, GcsReport, OwnerKind},
    ray::{
        facts::RayFact,
        gcs::{GcsActor, GcsGroup, GcsJob, GcsNode, GcsRow},
    },
};

fn id(text: &str) -> HexId {
    HexId::parse(text).expect("an id")
}

/// The GCS's rows for a worker: its actor, placement group, node and job.
fn rows(worker: u32) -> [GcsRow; 4] {
    let some = |text: &str| Some(text.to_owned());
    [
        GcsRow::Actor(GcsActor {
            actor_id: id("ac"),
            class: some("Keeper"),
            name: some("keeper"),
            state: "ALIVE".into(),
            job_id: HexId::parse("01000000"),
            worker_id: Some(hex(worker)),
            pid: None,
            node_id: HexId::parse("0d"),
            placement_group_id: HexId::parse("b5"),
        }),
        GcsRow::PlacementGroup(GcsGroup {
            placement_group_id: id("b5"),
            name: some("shelf"),
        }),
        GcsRow::Node(GcsNode {
            node_id: id("0d"),
            name: some("gpu-07"),
            host: None,
            address: None,
            raylet_socket: None,
        }),
        GcsRow::Job(GcsJob {
            job_id: id("01000000"),
            entrypoint: some("python train.py"),
            driver_pid: None,
        }),
    ]
}

fn push_rows(scene: &mut Scene, cluster: ProcessKey, worker: u32) {
    for row in rows(worker) {
        let log = RayLog {
            cluster: Some(cluster),
            file: "GCS 192.0.2.2:6379".into(),
            local_time: None,
            text: row.to_string(),
            fact: RayFact::Gcs(row),
        };
        scene.push(Source::Gcs, Observation::RayLog(log));
    }
}

fn is_the_keepers(death: &Death) {
    let gcs = death.work.gcs.as_ref().expect("the GCS's words");
    let some = |text: &str| Some(text.to_owned());
    let expected = GcsReport {
        actor_name: some("keeper"),
        placement_group: some("shelf"),
        placement_group_id: HexId::parse("b5"),
        job_entrypoint: some("python train.py"),
        node_name: some("gpu-07"),
    };
    assert_eq!(**gcs, expected);
}

/// The GCS's rows may arrive before or after the worker is seen.
#[test]
fn gcs_names_dead_worker_in_any_order() {
    for row_first in [true, false] {
        let mut scene = Scene::new();
        if row_first {
            push_rows(&mut scene, key(RAYLET), 200);
        }
        scene.ray_worker(200);
        if !row_first {
            push_rows(&mut scene, key(RAYLET), 200);
        }
        scene.exit(200, 9);
        let death = scene.death(200);
        is_the_keepers(&death);
        assert_eq!(death.work.actor_id, HexId::parse("ac"));
        assert_eq!(death.work.actor_class.as_deref(), Some("Keeper"));
        let report = scene.report();
        let owner = report.owners.iter().find(|owner| owner.class == "Keeper");
        let owner = owner.expect("an owner of its memory");
        assert_eq!(owner.kind, OwnerKind::Actor);
        assert!(owner.private_peak_bytes.is_some());
        let named = owner.gcs.as_ref().expect("the GCS's words");
        assert_eq!(named.actor_names, ["keeper"]);
        assert_eq!(named.placement_groups, ["shelf"]);
        assert_eq!(named.job_entrypoints, ["python train.py"]);
    }
}

#[test]
fn child_of_an_actor_has_its_name() {
    let mut scene = Scene::new();
    scene.ray_worker(200);
    push_rows(&mut scene, key(RAYLET), 200);
    scene.process(300, 200, "loader", Role::Descendant);
    scene.exit(300, 9);
    let death = scene.death(300);
    assert_eq!(death.work.actor_id, None);
    let gcs = death.work.gcs.expect("the GCS's words");
    assert_eq!(gcs.actor_name.as_deref(), Some("keeper"));
}

#[test]
fn gcs_of_another_cluster_is_ignored() {
    let mut plain = Scene::new();
    plain.ray_worker(200).exit(200, 9);
    let mut told = Scene::new();
    told.ray_worker(200);
    push_rows(&mut told, key(7), 200);
    told.exit(200, 9);
    assert_eq!(told.death(200).work.gcs, None);
    assert_eq!(
        told.death(200).verdict.cause,
        plain.death(200).verdict.cause
    );
}
