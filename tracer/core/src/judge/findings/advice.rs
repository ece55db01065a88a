//! Recognizes bad advice from the web on the command lines of the run.

use super::{Run, allocator, grows_per_call, leak};
use crate::judge::report::{Certainty, Finding};

/// Bad advice, known by words that occur together on one command line.
struct Bad {
    words: &'static [&'static str],
    rule: &'static str,
    summary: &'static str,
    remedy: &'static str,
}

const BAD: [Bad; 3] = [
    Bad {
        words: &["--redis-max-memory"],
        rule: "setting-without-effect",
        summary: "Ray no longer has --redis-max-memory: ray start fails with \"No such option\"",
        remedy: "leave it out; the object store has --object-store-memory",
    },
    Bad {
        words: &["kill", "nvidia-smi", "awk"],
        rule: "kill-by-nvidia-smi-column",
        summary: "Killing by a column of nvidia-smi's table kills nothing with the current table, and other users' processes with an old one",
        remedy: "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv, then kill each by its pid",
    },
    Bad {
        words: &["max_split_size_mb"],
        rule: "setting-does-not-help",
        summary: "max_split_size_mb tunes torch's allocator of GPU memory: it does not reduce host memory",
        remedy: "against fragmentation on the GPU: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (not with vLLM's sleep)",
    },
];

/// Words that choose another allocator or fewer arenas of glibc's, to return memory that was freed
/// and kept.
const ALLOCATORS: [&str; 3] = ["jemalloc", "tcmalloc", "MALLOC_ARENA_MAX"];

/// Returns whether a command line contains any bad advice or another allocator.
pub(super) fn is_bad(line: &str) -> bool {
    BAD.iter().any(|bad| holds(bad, line)) || allocator_of(line).is_some()
}

/// Returns what to type instead of the bad advice on a line.
pub(super) fn instead(line: &str) -> Option<&'static str> {
    let found = BAD.iter().find(|bad| holds(bad, line));
    found.map(|bad| bad.remedy)
}

fn allocator_of(line: &str) -> Option<&'static str> {
    let set = |word: &&&str| line.contains(**word) && line.contains("LD_PRELOAD");
    let arenas = |word: &&&str| **word == "MALLOC_ARENA_MAX" && line.contains(**word);
    let found = ALLOCATORS.iter().find(|word| set(word) || arenas(word));
    found.copied()
}

fn holds(bad: &Bad, line: &str) -> bool {
    bad.words.iter().all(|word| line.contains(word))
}

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = BAD.iter().filter_map(|bad| {
        let (pid, _) = run.facts.lines.iter().find(|(_, line)| holds(bad, line))?;
        Some(Finding {
            evidence: vec![format!("command line of pid {pid}")],
            remedy: vec![bad.remedy.into()],
            ..Finding::new(bad.rule, Certainty::Proven, bad.summary)
        })
    });
    found.chain(fragmentation(run)).collect()
}

/// Finds growth that somebody took for fragmentation. Each call was seen to keep memory, and the
/// allocator was not seen to keep freed memory.
fn fragmentation(run: Run<'_>) -> Option<Finding> {
    let mut lines = run.facts.lines.iter();
    let (pid, word) = lines.find_map(|(pid, line)| Some((pid, allocator_of(line)?)))?;
    if !allocator::find(run).is_empty() {
        return None;
    }
    let grown = leak::find(run).into_iter().chain(grows_per_call::find(run));
    let grown = grown.take(1).next()?;
    Some(Finding {
        evidence: vec![format!("command line of pid {pid}"), grown.summary],
        deaths: grown.deaths,
        not_if: Some(
            "the same job uses less memory with it: compare two recordings with raytrace diff"
                .into(),
        ),
        ..Finding::new(
            "not-fragmentation",
            Certainty::Inferred,
            format!(
                "{word} returns memory that was freed and is kept by the allocator; here each call keeps more, which points to memory that is still in use"
            ),
        )
    })
}
