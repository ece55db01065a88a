//! Recognizes lines that follow a sudden death and are not its cause.
//!
//! Examples are a connection that broke and a peer that does not answer.

use super::words::WORDS;
use crate::ids::MINUTE_NS;

/// How long after a death an error is still its after-effect, where the text names no timeout.
pub(crate) const LONGEST_NS: i64 = 30 * MINUTE_NS;
/// How much longer an error may take than its timeout: a watchdog checks only at intervals, its
/// process has to end, and clocks differ.
pub(crate) const SLACK_NS: i64 = MINUTE_NS;

/// Returns the timeout that a line names: `Timeout(ms)=600000`, `Timed out waiting 1800000ms`.
pub(crate) fn timeout_ms(line: &str) -> Option<u64> {
    let words = ["Timeout(ms)=", "Timed out waiting "].into_iter();
    let mut rests = words.filter_map(|words| line.split_once(words));
    let (_, rest) = rests.next()?;
    let digits = rest.split(|one: char| !one.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns how long after a death an error with this timeout may still follow from it.
pub(crate) fn lasts_ns(timeout_ms: Option<u64>) -> i64 {
    timeout_ms.map_or(LONGEST_NS, |timeout| {
        i64::try_from(timeout)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000)
            .saturating_add(SLACK_NS)
    })
}

/// Returns the name of the after-effect in a line, if it is one.
pub fn kind(line: &str) -> Option<&'static str> {
    let mut known = WORDS.after_effects.iter();
    let found = known.find(|(words, _)| line.contains(words));
    found.map(|(_, kind)| kind.as_str())
}

/// Returns the message of NCCL's watchdog, without the rank, time and place before it:
/// `[rank1]:[E1120 … ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation
/// timeout: …`, and ` what(): …` when it ends the process.
pub(super) fn of_nccl(line: &str) -> Option<&str> {
    // Every line of a worker is checked here.
    if !line.contains("NCCL") && !line.contains("nccl") {
        return None;
    }
    let known = WORDS.after_effects.iter();
    let of_nccl = known.filter(|(_, kind)| kind.starts_with("NCCL"));
    let begin = of_nccl.filter_map(|(words, _)| line.find(words)).min();
    begin.map(|at| &line[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other lines are not after-effects.
    #[test]
    fn watchdog_words_are_known_after_any_prefix() {
        let line = "[rank1]:[E1120 09:14:03.117 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81)";
        let said = of_nccl(line).expect("NCCL's");
        assert!(said.starts_with("Watchdog caught"), "{said}");
        assert_eq!(kind(line), Some("NCCL timeout"));
        assert_eq!(of_nccl("NCCL version 2.26.2+cuda12.2"), None);
        assert_eq!(kind("ValueError: x"), None);
    }

    #[test]
    fn error_lasts_as_long_as_its_timeout() {
        let nccl = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.";
        assert_eq!(timeout_ms(nccl), Some(600_000));
        let gloo = "[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete";
        assert_eq!(kind(gloo), Some("gloo timeout"));
        assert_eq!(timeout_ms(gloo), Some(1_800_000));
        assert_eq!(timeout_ms("Socket closed"), None);
        assert_eq!(lasts_ns(Some(600_000)), 660_000_000_000);
        assert_eq!(lasts_ns(None), LONGEST_NS);
    }
}
