//! Downsamples the series of a recording to what a screen can show.
//!
//! This way the page of a day with many workers opens at once. Points around listed deaths are
//! kept, because people look there. Each recording is downsampled as soon as it is judged, so the
//! full series of many nodes are never in memory together.

use std::collections::HashSet;

use super::series;
use crate::{
    ids::{EventId, MINUTE_NS},
    judge::{
        report::{Report, Utc},
        timeline::{ProcessSeries, Timeline},
    },
    show::downsample::downsample,
};

/// Maximum number of points of all processes together, at about 12 bytes each. Several recordings
/// get half as many, because they have more of everything else.
const MAX_POINTS: usize = 300_000;
/// Maximum number of points of the machine, and of a cgroup with a limit.
const MAX_NODE_POINTS: usize = 30_000;
/// Of several recordings, each keeps at least this many points if it has them: more than a screen
/// has columns.
const FEWEST_NODE_POINTS: usize = 2400;
/// The same for each cgroup with a limit.
const FEWEST_CGROUP_POINTS: usize = 600;
/// Maximum number of processes that have a row.
const MAX_PROCESSES: usize = 4000;
/// Minimum number of points of a downsampled series.
const FEWEST: usize = 8;
/// Time before a listed death in which the points of its process and its node are kept.
const LAST_NS: i64 = MINUTE_NS;
/// Time after a listed death in which the points of its node are kept.
const AFTER_NS: i64 = 5_000_000_000;
/// Maximum number of points that are kept for one process before its death.
const LAST_POINTS: usize = 300;

/// What the page draws of one recording.
#[derive(Debug, Clone)]
pub struct ChartSeries {
    /// Its series, downsampled.
    pub timeline: Timeline,
    /// Number of processes that did not fit on the page.
    pub left_out: usize,
}

impl ChartSeries {
    /// Returns what a page of `of` recordings draws of this one.
    pub fn of(report: &Report, timeline: Timeline, of: usize) -> Self {
        let of = of.max(1);
        let listed: HashSet<EventId> = (report.deaths.iter())
            .filter(|death| death.listed)
            .map(|death| death.id)
            .collect();
        let all = timeline.processes.len();
        let mut drawn = timeline;
        drawn.processes = processes(drawn.processes, &listed, of);
        let ends = ends(&drawn, &listed);
        let most = (MAX_NODE_POINTS / of).max(FEWEST_NODE_POINTS);
        drawn.node = around(&drawn.node, &ends, most, |node| node.used().0);
        let most = (MAX_NODE_POINTS / of).max(FEWEST_CGROUP_POINTS);
        let limited: HashSet<String> = (series::limited(&drawn).into_iter())
            .map(|series| series.path.clone())
            .collect();
        drawn.cgroups.retain(|one| limited.contains(&one.path));
        for cgroup in &mut drawn.cgroups {
            cgroup.samples = around(&cgroup.samples, &ends, most, |state| state.needed().0);
        }
        Self {
            left_out: all - drawn.processes.len(),
            timeline: drawn,
        }
    }
}

/// Returns when listed deaths ended their processes, in order.
fn ends(timeline: &Timeline, listed: &HashSet<EventId>) -> Vec<Utc> {
    let died = timeline
        .processes
        .iter()
        .filter(|one| is_listed(one, listed));
    let mut ends: Vec<Utc> = died.filter_map(|process| process.ended).collect();
    ends.sort_unstable();
    ends
}

fn is_listed(process: &ProcessSeries, listed: &HashSet<EventId>) -> bool {
    process.death.is_some_and(|id| listed.contains(&id))
}

/// Keeps about `most` of the points, and as many of those around `ends`.
fn around<T: Clone>(
    points: &[(Utc, T)],
    ends: &[Utc],
    most: usize,
    figure: impl Fn(&T) -> u64,
) -> Vec<(Utc, T)> {
    let near = |time: Utc| {
        let next = ends.partition_point(|end| end.0.0 + AFTER_NS < time.0.0);
        ends.get(next)
            .is_some_and(|end| end.0.0 - LAST_NS <= time.0.0)
    };
    let (kept, far): (Vec<usize>, Vec<usize>) =
        (0..points.len()).partition(|at| near(points[*at].0));
    let of = |at: &usize| figure(&points[*at].1);
    let mut chosen = downsample(&far, most, of);
    chosen.extend(downsample(&kept, most, of));
    chosen.sort_unstable();
    chosen.into_iter().map(|at| points[at].clone()).collect()
}

/// Keeps the processes that died or held most, in the order of their starts, and downsamples each.
fn processes(all: Vec<ProcessSeries>, listed: &HashSet<EventId>, of: usize) -> Vec<ProcessSeries> {
    let mut kept = choose(all, listed, of);
    let most = if of > 1 {
        MAX_POINTS / of / 2
    } else {
        MAX_POINTS
    };
    let points: usize = kept.iter().map(|process| process.private.len()).sum();
    let died = kept.iter().filter(|one| is_listed(one, listed)).count();
    let last = LAST_POINTS.min((most / died.max(1)).max(FEWEST));
    for process in &mut kept {
        let share = process.private.len() * most / points.max(most);
        let died = is_listed(process, listed);
        shorten(process, share.max(FEWEST), died.then_some(last));
    }
    kept
}

/// Downsamples one series, except for the last points before a listed death.
fn shorten(process: &mut ProcessSeries, most: usize, last: Option<usize>) {
    let private = &process.private;
    let from = match (last, process.ended) {
        (Some(_), Some(ended)) => {
            private.partition_point(|(time, _)| ended.0.0 - time.0.0 > LAST_NS)
        }
        _ => private.len(),
    };
    let mut points = downsample(&private[..from], most, |(_, bytes)| bytes.0);
    let last = last.unwrap_or(LAST_POINTS);
    points.extend(downsample(&private[from..], last, |(_, bytes)| bytes.0));
    process.private = points;
}

fn choose(all: Vec<ProcessSeries>, listed: &HashSet<EventId>, of: usize) -> Vec<ProcessSeries> {
    let worth = |process: &ProcessSeries| {
        let rays = process.role.is_ray_or_driver();
        rays || !process.private.is_empty() || is_listed(process, listed)
    };
    let mut kept: Vec<ProcessSeries> = all.into_iter().filter(worth).collect();
    let share = MAX_PROCESSES / of;
    let died = kept.iter().filter(|one| is_listed(one, listed)).count();
    // A node with many deaths has more rows than others.
    let most = share.max(died.min(4 * share)).clamp(1, MAX_PROCESSES);
    if kept.len() > most {
        kept.sort_by_cached_key(|process| {
            let peak = process.private.iter().map(|(_, bytes)| *bytes).max();
            std::cmp::Reverse((is_listed(process, listed), peak))
        });
        kept.truncate(most);
        kept.sort_by_key(|process| (process.process.start, process.process.pid));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WallTime;

    #[test]
    fn points_around_a_death_are_kept() {
        let at = |second: i64| Utc(WallTime(second * 1_000_000_000));
        let points: Vec<(Utc, u64)> = (0..86_400).map(|second| (at(second), 7)).collect();
        let kept = around(&points, &[at(40_000)], 100, |figure| *figure);
        let near = |time: Utc| (at(39_940)..=at(40_005)).contains(&time);
        assert_eq!(kept.iter().filter(|(time, _)| near(*time)).count(), 66);
        assert!(kept.len() < 66 + 105, "{}", kept.len());
        assert!(kept.is_sorted_by_key(|(time, _)| *time));
    }
}
