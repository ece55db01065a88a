//! Says by how much the clocks of nodes differ, according to their kernels and Ray's messages.

use std::collections::HashSet;

use crate::{
    judge::report::{ClockOffset, ClockState, Death, Node, Report},
    show::{sanitize, view::View},
};

/// A smaller error hardly ever puts two deaths in the wrong order.
const MATTERS_MS: i64 = 100;

/// Returns `±0.4 s by its kernel`, or how wrong the clock of the death's node is, with the time of
/// the death by the clock of the node with the GCS.
pub fn of_death(view: &View<'_>, death: &Death) -> Option<String> {
    let report = &view.shown.report;
    let name = death.node.as_deref()?;
    let node = report.nodes.iter().find(|node| node.name == name)?;
    if let Some((corrected, offset)) = death.when.corrected_time.zip(node.clock) {
        let head = head(report);
        return Some(format!(
            "{} {head}'s: {} by that one",
            wrong(name, offset),
            view.style.zone.clock(corrected)
        ));
    }
    let error = uncertain_ms(report, node)?;
    Some(format!("{} by its kernel", plus_minus(error)))
}

/// Returns a line for each clock that is wrong, and one for all clocks that may be.
pub fn gaps(view: &View<'_>) -> Vec<String> {
    let report = &view.shown.report;
    let nodes = report.nodes.iter();
    let mut lines: Vec<String> = nodes
        .filter_map(|node| {
            let offset = node.clock.filter(|offset| offset.corrected_by_ms != 0)?;
            Some(format!(
                "{} {}'s, by Ray's messages: its deaths are in the order of corrected times",
                wrong(&node.name, offset),
                head(report)
            ))
        })
        .collect();
    let unsure = report.nodes.iter();
    let unsure = unsure.filter_map(|node| Some((node, uncertain_ms(report, node)?)));
    let (unsure, mut errors_ms): (Vec<String>, Vec<i64>) = unsure
        .map(|(node, error)| {
            let name = sanitize::name(&node.name);
            (format!("{name} {}", plus_minus(error)), error)
        })
        .unzip();
    errors_ms.sort_unstable_by_key(|error| std::cmp::Reverse(*error));
    if !unsure.is_empty() {
        let apart_ms: i64 = errors_ms.iter().take(2).sum();
        lines.push(format!(
            "unsynchronized clocks: {}. Deaths on different nodes that are less than {:.0} s apart may be in the wrong order",
            unsure.join(", "),
            apart_ms as f64 / 1e3
        ));
    }
    lines
}

/// `gpu-07's clock is 1.9 to 2.3 s behind`.
fn wrong(name: &str, offset: ClockOffset) -> String {
    let seconds = |ms: i64| format!("{:.1}", ms.abs() as f64 / 1e3);
    let is_ahead = offset.corrected_by_ms > 0;
    let (near, far) = if is_ahead {
        (offset.ahead_at_least_ms, offset.ahead_at_most_ms)
    } else {
        (offset.ahead_at_most_ms, offset.ahead_at_least_ms)
    };
    let name = sanitize::name(name);
    let side = if is_ahead { "ahead of" } else { "behind" };
    let near = near.map_or_else(String::new, seconds);
    let by = match far.map(seconds) {
        Some(far) if far != near => format!("{near} to {far} s"),
        Some(_) => format!("{near} s"),
        None => format!("at least {near} s"),
    };
    format!("{name}'s clock is {by} {side}")
}

fn head(report: &Report) -> String {
    let head = report.nodes.iter().find(|node| node.head);
    head.map_or_else(
        || "the GCS's node".to_owned(),
        |head| sanitize::name(&head.name),
    )
}

/// Returns by how much the clock of a node may be wrong.
///
/// Returns `None` if all recordings have the same clock, if the error is too small to matter, or if
/// Ray's messages say more.
fn uncertain_ms(report: &Report, node: &Node) -> Option<i64> {
    let recordings = report.recordings.iter();
    let boots: HashSet<&str> = recordings.map(|one| one.host.boot_id.as_str()).collect();
    let is_known = node.clock.is_some_and(|offset| offset.corrected_by_ms != 0)
        || node.head && is_compared(report);
    if boots.len() < 2 || is_known {
        return None;
    }
    let of_node = |id: &u32| report.recordings.iter().find(|one| one.id == *id);
    let states = node.recordings.iter().filter_map(|id| of_node(id)?.clock);
    let stated = states
        .map(|state: ClockState| state.max_error_us / 1000)
        .max()?;
    let stated = i64::try_from(stated).unwrap_or(i64::MAX);
    let bounds = node.clock.and_then(|offset| {
        let (least, most) = (offset.ahead_at_least_ms?, offset.ahead_at_most_ms?);
        Some(least.abs().max(most.abs()))
    });
    let error = bounds.map_or(stated, |bounds| bounds.min(stated));
    (error >= MATTERS_MS).then_some(error)
}

/// Returns whether messages limit the difference between the clock of the node with the GCS and
/// every other clock, from both sides. Then what its own kernel says of that clock affects no
/// order.
fn is_compared(report: &Report) -> bool {
    let recorded = report
        .nodes
        .iter()
        .filter(|node| !node.recordings.is_empty());
    let (heads, others): (Vec<&Node>, Vec<&Node>) = recorded.partition(|node| node.head);
    let is_bounded = |offset: ClockOffset| {
        offset.ahead_at_least_ms.is_some() && offset.ahead_at_most_ms.is_some()
    };
    heads.len() == 1 && (others.iter()).all(|node| node.clock.is_some_and(is_bounded))
}

fn plus_minus(ms: i64) -> String {
    format!("±{:.1} s", ms as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{sample, select::SelectedReport};

    /// Returns the lines for a node with a clock that is `ms` ahead.
    fn lines(ms: i64) -> Vec<String> {
        let mut report = sample::quiet();
        report.nodes = vec![Node {
            name: "gpu-02".into(),
            clock: Some(ClockOffset {
                ahead_at_least_ms: Some(ms - 200),
                ahead_at_most_ms: Some(ms + 200),
                corrected_by_ms: ms,
            }),
            ..Node::default()
        }];
        said(&report)
    }

    fn said(report: &Report) -> Vec<String> {
        let shown = SelectedReport::whole(report);
        let style = sample::style();
        gaps(&View::new(&shown, &style))
    }

    #[test]
    fn kernel_clock_error_shown_if_large() {
        for (max_error_us, is_said) in [(400_000, true), (900, false)] {
            let mut report = sample::quiet();
            let first = report.recordings[0].clone();
            let mut second = first.clone();
            (second.id, second.host.boot_id) = (first.id + 1, "another".into());
            second.clock = Some(ClockState {
                max_error_us,
                synchronised: true,
            });
            report.nodes = vec![Node {
                name: "gpu-02".into(),
                recordings: vec![second.id],
                ..Node::default()
            }];
            report.recordings = vec![first, second];
            let lines = said(&report).join(" ");
            assert_eq!(lines.contains("gpu-02 ±0.4 s"), is_said, "{lines}");
        }
    }

    /// The head's own clock error is hidden if Ray's messages bound every other clock from both
    /// sides.
    #[test]
    fn head_clock_error_shown_without_full_bounds() {
        for (most, is_said) in [(Some(11_909), false), (None, true)] {
            let mut report = sample::quiet();
            let mut first = report.recordings[0].clone();
            let mut second = first.clone();
            (second.id, second.host.boot_id) = (first.id + 1, "another".into());
            first.clock = Some(ClockState {
                max_error_us: 16_000_000,
                synchronised: false,
            });
            let head = Node {
                name: "gpu-01".into(),
                head: true,
                recordings: vec![first.id],
                ..Node::default()
            };
            let other = Node {
                name: "gpu-02".into(),
                recordings: vec![second.id],
                clock: Some(ClockOffset {
                    ahead_at_least_ms: Some(10_785),
                    ahead_at_most_ms: most,
                    corrected_by_ms: 10_785,
                }),
                ..Node::default()
            };
            report.nodes = vec![head, other];
            report.recordings = vec![first, second];
            let lines = said(&report).join(" ");
            assert_eq!(lines.contains("gpu-01 ±16.0 s"), is_said, "{lines}");
        }
    }

    #[test]
    fn wrong_clock_has_its_direction_and_bounds() {
        let ahead = lines(2_000).join(" ");
        assert!(
            ahead.starts_with("gpu-02's clock is 1.8 to 2.2 s ahead of"),
            "{ahead}"
        );
        let behind = lines(-2_000).join(" ");
        assert!(
            behind.starts_with("gpu-02's clock is 1.8 to 2.2 s behind"),
            "{behind}"
        );
        assert!(lines(0).is_empty(), "{:?}", lines(0));
    }
}
