//! Tests with replies of real clusters (Ray 2.60.0 and 2.9.3).
//!
//! They have an actor `keeper` of class `Keeper` in a placement group `shelf`.

use super::{samples::REPLIES, *};
use crate::ids::HexId;

/// The same actor after its worker was killed.
const DEAD: &[u8] = include_bytes!("fixtures/2.60.0-dead.bin");

/// Returns all rows of one version.
fn all(version: usize) -> Vec<GcsRow> {
    REPLIES
        .iter()
        .flat_map(|(table, replies)| table.rows(replies[version]).expect("rows"))
        .collect()
}

fn the_actor(rows: &[GcsRow]) -> &GcsActor {
    let mut actors = rows.iter().filter_map(|row| match row {
        GcsRow::Actor(actor) => Some(actor),
        _ => None,
    });
    actors.next().expect("an actor")
}

/// Reads an actor, its placement group, its node and its job.
#[test]
fn old_and_new_replies_are_read() {
    for version in 0..2 {
        let rows = all(version);
        assert_eq!(rows.len(), 4, "{rows:#?}");
        let actor = the_actor(&rows);
        assert_eq!(actor.class.as_deref(), Some("Keeper"));
        assert_eq!(actor.name.as_deref(), Some("keeper"));
        assert_eq!(actor.state, "ALIVE");
        assert_eq!(actor.job_id, HexId::parse("01000000"));
        assert_eq!(actor.worker_id.as_ref().map(|id| id.0.len()), Some(56));
        assert!(actor.pid.is_some());
        for row in &rows {
            match row {
                GcsRow::Actor(_) => {}
                GcsRow::PlacementGroup(group) => {
                    assert_eq!(group.name.as_deref(), Some("shelf"));
                    assert_eq!(Some(row.id()), actor.placement_group_id.as_ref());
                }
                GcsRow::Node(node) => {
                    assert_eq!(node.name.as_deref(), Some("192.0.2.2"));
                    assert_eq!(node.host.as_deref(), Some("node-a"));
                    assert_eq!(Some(row.id()), actor.node_id.as_ref());
                }
                GcsRow::Job(job) => {
                    let entrypoint = "/opt/ray/bin/python /srv/gcs_job.py";
                    assert_eq!(job.entrypoint.as_deref(), Some(entrypoint));
                    assert!(job.driver_pid.is_some());
                }
            }
        }
    }
}

#[test]
fn dead_actor_names_its_last_worker() {
    let alive = all(0);
    let dead = Table::Actors.rows(DEAD).expect("rows");
    let expected = GcsActor {
        state: "DEAD".into(),
        ..the_actor(&alive).clone()
    };
    assert_eq!(dead, [GcsRow::Actor(expected)]);
}

#[test]
fn only_rows_of_the_own_node_are_kept() {
    let rows = all(0);
    let kept = |node: &OwnNode| rows_of_node(rows.clone(), node);
    let told = |node_id| OwnNode {
        node_id,
        ..OwnNode::default()
    };
    assert_eq!(kept(&told(the_actor(&rows).node_id.clone())), rows);
    let other = kept(&told(HexId::parse("ab12")));
    assert!(matches!(other.as_slice(), [GcsRow::Job(_)]), "{other:?}");
    assert_eq!(kept(&OwnNode::default()), rows);
}

#[test]
fn raylet_without_id_is_found_by_its_socket() {
    let mut rows = all(1);
    let named = rows.iter().find_map(|row| match row {
        GcsRow::Node(node) => Some(node.clone()),
        _ => None,
    });
    let named = named.expect("a node");
    let other = GcsNode {
        node_id: HexId::parse("ab12").expect("an id"),
        address: Some("192.0.2.3".into()),
        ..named.clone()
    };
    rows.insert(0, GcsRow::Node(other.clone()));
    let at = |node: &GcsNode| OwnNode {
        node_id: None,
        address: node.address.clone(),
        raylet_socket: node.raylet_socket.clone(),
    };
    let own = rows_of_node(rows.clone(), &at(&named));
    assert_eq!(own.len(), 4, "{own:#?}");
    let others = rows_of_node(rows, &at(&other));
    assert!(matches!(
        others.as_slice(),
        [GcsRow::Node(_), GcsRow::Job(_)]
    ));
}

/// Both are errors.
#[test]
fn refusal_and_garbage_name_the_method() {
    // GcsStatus{code: 7, message: "no"} in field 1.
    let refused = Table::Jobs.rows(b"\x0a\x06\x08\x07\x12\x02no");
    let refused = refused.expect_err("a refusal").to_string();
    assert_eq!(refused, "GetAllJobInfo was refused with status 7: no");
    let garbled = Table::Actors.rows(b"HTTP/1.1 400 Bad Request");
    let garbled = garbled.expect_err("garbled").to_string();
    assert!(garbled.starts_with("24 bytes that are no reply to GetAllActorInfo: "));
}

#[test]
fn names_and_ids_are_bounded() {
    use prost::Message as _;
    let job = |id: usize, entrypoint: &str| messages::Jobs {
        status: None,
        rows: vec![messages::Job {
            job_id: vec![7; id],
            driver_pid: -1,
            entrypoint: entrypoint.into(),
        }],
    };
    let long = Table::Jobs.rows(&job(4, &"x".repeat(1 << 20)).encode_to_vec());
    let expected = GcsJob {
        job_id: HexId::parse("07070707").expect("an id"),
        entrypoint: Some("x".repeat(1000)),
        driver_pid: None,
    };
    assert_eq!(long.expect("rows"), [GcsRow::Job(expected)]);
    let no_id = Table::Jobs.rows(&job(1 << 10, "x").encode_to_vec());
    assert_eq!(no_id.expect("no rows"), []);
}

/// Concatenated messages are one message with joined lists.
#[test]
fn reply_with_the_most_actors_is_read() {
    let most = usize::try_from(MOST_ROWS).expect("a count");
    let (_, [reply, _]) = REPLIES[0];
    let reply = reply.repeat(most);
    let began = std::time::Instant::now();
    let rows = Table::Actors.rows(&reply).expect("rows");
    let kept = rows_of_node(rows, &OwnNode::default());
    let (bytes, took) = (reply.len(), began.elapsed());
    println!("{most} actors, {bytes} bytes: {took:?}");
    assert_eq!(kept.len(), most);
}
