//! Words of lines that follow a sudden death and are not its cause: a connection that broke, a peer that does not answer.
//!
//! Ray's are of `ray/exceptions.py` and gRPC, NCCL's of torch's `ProcessGroupNCCL.cpp` (2.1 to 2.9).

/// The words, and what they are called.
pub const WORDS: [(&str, &str); 9] = [
    ("keepalive watchdog timeout", "keepalive watchdog timeout"),
    (
        "is unavailable: The actor is temporarily unavailable",
        "ActorUnavailableError",
    ),
    ("ActorUnavailableError", "ActorUnavailableError"),
    ("Socket closed", "Socket closed"),
    (COLLECTIVE, "NCCL timeout"),
    (REMOTE, "NCCL remote error"),
    (ABORTED, "NCCL abort"),
    ("Connection reset by peer", "connection reset"),
    ("OwnerDiedError", "OwnerDiedError"),
];

const COLLECTIVE: &str = "Watchdog caught collective operation timeout";
const REMOTE: &str = "ncclRemoteError";
const ABORTED: &str = "NCCL communicator was aborted";

/// What a line is, if it is one.
#[must_use]
pub fn kind(line: &str) -> Option<&'static str> {
    let found = WORDS.iter().find(|(words, _)| line.contains(words));
    found.map(|(_, kind)| *kind)
}

/// What NCCL's watchdog says, without the rank, time and place before it: `[rank1]:[E1120 … ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog
/// caught collective operation timeout: …`, and `  what():  …` when it ends the process.
pub(super) fn of_nccl(line: &str) -> Option<&str> {
    // Every line of a worker comes here.
    if !line.contains("NCCL") && !line.contains("nccl") {
        return None;
    }
    let words = [COLLECTIVE, REMOTE, ABORTED].into_iter();
    words
        .filter_map(|words| line.find(words))
        .min()
        .map(|at| &line[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdogs_words_are_known_after_any_prefix_and_others_are_none() {
        let line = "[rank1]:[E1120 09:14:03.117 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81)";
        let said = of_nccl(line).expect("NCCL's");
        assert!(said.starts_with("Watchdog caught"), "{said}");
        assert_eq!(kind(line), Some("NCCL timeout"));
        assert_eq!(of_nccl("NCCL version 2.26.2+cuda12.2"), None);
        assert_eq!(kind("ValueError: x"), None);
    }
}
