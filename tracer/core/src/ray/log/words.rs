//! The words by which lines of Ray and of what it runs are recognised, as data.

use std::sync::LazyLock;

use serde::Deserialize;

/// Words of lines, in the order in which they are searched.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Records of Ray's raylet, GCS and core workers.
    pub records: Vec<String>,
    /// What follows a sudden death, and its name: Ray's words from `ray/exceptions.py` and gRPC,
    /// NCCL's from torch's `ProcessGroupNCCL.cpp`, gloo's from `unbound_buffer.cc` and `pair.cc`
    /// (torch 2.1 to 2.9).
    pub after_effects: Vec<(String, String)>,
}

/// All of them.
#[expect(clippy::expect_used, reason = "the file is read in tests")]
pub static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).expect("a valid file"));
