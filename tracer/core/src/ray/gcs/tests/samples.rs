//! Replies of real clusters (Ray 2.60.0 and 2.9.3), for tests.
//!
//! They have an actor `keeper` of class `Keeper` in a placement group `shelf`.

use super::Table;

/// Each table with a reply of 2.60.0 and of 2.9.3.
pub const REPLIES: [(Table, [&[u8]; 2]); 4] = [
    (
        Table::Actors,
        [
            include_bytes!("../fixtures/2.60.0-actors.bin"),
            include_bytes!("../fixtures/2.9.3-actors.bin"),
        ],
    ),
    (
        Table::PlacementGroups,
        [
            include_bytes!("../fixtures/2.60.0-groups.bin"),
            include_bytes!("../fixtures/2.9.3-groups.bin"),
        ],
    ),
    (
        Table::Nodes,
        [
            include_bytes!("../fixtures/2.60.0-nodes.bin"),
            include_bytes!("../fixtures/2.9.3-nodes.bin"),
        ],
    ),
    (
        Table::Jobs,
        [
            include_bytes!("../fixtures/2.60.0-jobs.bin"),
            include_bytes!("../fixtures/2.9.3-jobs.bin"),
        ],
    ),
];
