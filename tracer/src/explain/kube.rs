//! Reads whose death `kubectl describe` tells of: the pod, and the limit of its container.
//!
//! `Name:` stands above the state of a pod's containers, and `Limits:` below it.

use std::sync::LazyLock;

use regex::Regex;

use super::{line::LogLine, pattern};
use crate::{
    ids::Bytes,
    judge::from_text::claim::{Claim, Place, Statement},
};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 3] = ["Name:  ", "Pod Name: ", "\"podName\":"];
/// The limits of a container stand at most this many lines below its last state.
const LIMIT_LINES: u64 = 16;
/// The description of a pod is at most this long.
const POD_LINES: u64 = 400;

static NAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"^\s*(?:Name:  +|Pod Name: +|"podName": ?")([a-z0-9][a-z0-9.-]{0,252})"?,?$"#)
});
static LIMIT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\s*memory: +(\d{1,15})(Ki|Mi|Gi|Ti|k|M|G|T)?$"));

/// The pod that is being described, and a death in it whose limit has not been read.
#[derive(Debug, Default)]
pub(super) struct Kube {
    pod: Option<(String, u64)>,
    pending: Vec<Statement>,
}

impl Kube {
    /// Returns whether the next lines may tell of the pod.
    pub(super) fn is_open(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Reads a line. The statements from `before` on are those of this line.
    pub(super) fn line(&mut self, line: &LogLine, before: usize, out: &mut Vec<Statement>) {
        let place = line.place;
        let text = line.text.trim_end();
        if let Some(found) = NAME.captures(text) {
            self.pod = Some((found[1].to_owned(), place.line));
        }
        if let Some(limit) = limit(text) {
            for one in &mut self.pending {
                if let Claim::KernelOom(oom) = &mut one.claim {
                    oom.limit = Some(limit);
                }
                let amount = text.trim().trim_start_matches("memory:").trim();
                let of = one.subject.of.take().unwrap_or_default();
                one.subject.of = Some(format!("{of} (memory limit {amount})"));
            }
        }
        let late = |one: &Statement| place.line.saturating_sub(one.place.line) > LIMIT_LINES;
        if self.pending.iter().any(late) || limit(text).is_some() {
            out.splice(before..before, self.pending.drain(..));
        }
    }

    /// Names the pod in what has been read of the current line, and keeps a kill for its limit.
    pub(super) fn name(&mut self, place: Place, before: usize, out: &mut Vec<Statement>) {
        let near = |(_, line): &&(String, u64)| place.line.saturating_sub(*line) <= POD_LINES;
        let Some((pod, _)) = self.pod.as_ref().filter(near) else {
            return;
        };
        for mut one in out.split_off(before) {
            let of_pod = matches!(
                one.claim,
                Claim::KernelOom(_) | Claim::Daemon(_) | Claim::Signalled(_) | Claim::Crash { .. }
            );
            let nameless = one.subject.pid.is_none() && one.subject.of.is_none();
            let here = one.place == place && of_pod && nameless;
            if here {
                one.subject.of = Some(format!("pod {pod}"));
            }
            match &one.claim {
                Claim::KernelOom(oom) if here && oom.reporter.is_some() => self.pending.push(one),
                _ => out.push(one),
            }
        }
    }

    /// Hands over what still waits at the end of the text.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        out.append(&mut self.pending);
    }
}

fn limit(text: &str) -> Option<Bytes> {
    let found = LIMIT.captures(text)?;
    let number: u64 = found[1].parse().ok()?;
    let factor: u64 = match found.get(2).map_or("", |unit| unit.as_str()) {
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => 1,
    };
    number.checked_mul(factor).map(Bytes)
}
