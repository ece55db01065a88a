//! Orders the lanes of the timeline: one for each node, those with the earliest deaths first.

use std::collections::{HashMap, HashSet};

use crate::{
    ids::{BootTime, EventId},
    judge::report::{Death, Node, Report},
    show::{causes, fleet, sanitize, words},
};

/// One lane of the timeline.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The node. Empty if the page is of one recording.
    pub(super) name: String,
    /// What the page says about the node.
    pub(super) about: String,
    /// The recordings of the node.
    pub(super) recordings: Vec<u32>,
    /// How far its clock is ahead of the clock of the GCS.
    pub(super) ahead_ms: i64,
    /// When the first listed death on the node happened.
    pub(super) first: Option<BootTime>,
    /// The names of the node in its deaths.
    nodes: Vec<String>,
    /// Number of abnormal deaths on it, including those that are not shown.
    deaths: u64,
}

/// The lanes from top to bottom.
pub(super) struct Lanes {
    pub(super) all: Vec<Lane>,
    of_recording: HashMap<u32, usize>,
    /// Deaths from logs have no recording, only the name of a node.
    of_node: HashMap<String, usize>,
}

impl Lanes {
    pub(super) fn of(report: &Report) -> Self {
        if !fleet::is_fleet_report(report) {
            return Self::one(report);
        }
        let mut all: Vec<Lane> = Vec::new();
        for node in &report.nodes {
            let shares = |lane: &&mut Lane| {
                let mut recordings = node.recordings.iter();
                recordings.any(|id| lane.recordings.contains(id))
            };
            if let Some(lane) = all.iter_mut().find(shares) {
                lane.add(node);
                continue;
            }
            let mut lane = Lane::default();
            lane.add(node);
            all.push(lane);
        }
        let mut shown: HashSet<EventId> = HashSet::new();
        for cause in causes::all(report) {
            shown.insert(cause.death.id);
            shown.extend(cause.cascade.iter().map(|death| death.id));
        }
        for lane in &mut all {
            lane.look_at(report, &shown);
        }
        // The sort is stable: quiet nodes stay in their order, and those without a recording are
        // last.
        all.sort_by_key(|lane| (lane.first.is_none(), lane.first, lane.recordings.is_empty()));
        let (mut of_recording, mut of_node) = (HashMap::new(), HashMap::new());
        for (at, lane) in all.iter().enumerate() {
            of_recording.extend(lane.recordings.iter().map(|id| (*id, at)));
            of_node.extend(lane.nodes.iter().map(|name| (name.clone(), at)));
        }
        Self {
            all,
            of_recording,
            of_node,
        }
    }

    /// Returns the single lane of a report on one machine.
    fn one(report: &Report) -> Self {
        let lane = Lane {
            recordings: report.recordings.iter().map(|one| one.id).collect(),
            first: report.deaths.first().map(|death| death.when.act_time),
            ..Lane::default()
        };
        Self {
            all: vec![lane],
            of_recording: HashMap::new(),
            of_node: HashMap::new(),
        }
    }

    /// Returns the lane of a death, or `None` if its node is not known.
    pub(super) fn of_death(&self, death: &Death) -> Option<usize> {
        if self.of_node.is_empty() {
            return Some(0);
        }
        match death.recording_id {
            Some(recording) => self.of_recording.get(&recording).copied(),
            None => self.of_node.get(death.node.as_deref()?).copied(),
        }
    }
}

impl Lane {
    /// Adds a node. Nodes that share a recording share a lane, because they share the memory of one
    /// machine.
    fn add(&mut self, node: &Node) {
        if !self.name.is_empty() {
            self.name.push_str(", ");
        }
        self.name.push_str(&sanitize::name(&node.name));
        self.nodes.push(node.name.clone());
        self.deaths += node.listed_deaths;
        self.recordings.extend(&node.recordings);
        self.recordings.sort_unstable();
        self.recordings.dedup();
        if let Some(clock) = node.clock {
            self.ahead_ms = clock.corrected_by_ms;
        }
    }

    fn look_at(&mut self, report: &Report, shown: &HashSet<EventId>) {
        let is_own = |death: &Death| match death.recording_id {
            Some(recording) => self.recordings.contains(&recording),
            None => (death.node.as_ref()).is_some_and(|node| self.nodes.contains(node)),
        };
        let deaths = report.deaths.iter();
        let deaths = deaths.filter(|death| shown.contains(&death.id) && is_own(death));
        let times: Vec<BootTime> = deaths.map(|death| death.when.act_time).collect();
        self.first = times.iter().min().copied();
        self.about = match (self.recordings.is_empty(), times.len()) {
            (_, 0) if self.deaths > 0 => "none of its deaths is shown".to_owned(),
            (true, 0) if report.recordings.is_empty() => "nothing died, by its logs".to_owned(),
            (true, 0) => "no recording".to_owned(),
            (_, 0) => "nothing died".to_owned(),
            (_, deaths) => words::count(deaths, "death", "deaths"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample;

    fn node(name: &str, recordings: &[u32]) -> Node {
        Node {
            name: name.into(),
            recordings: recordings.to_vec(),
            ..Node::default()
        }
    }

    /// Nodes of one recording share a lane, and nodes without a recording come last.
    #[test]
    fn lanes_are_ordered_by_first_death() {
        let mut report = sample::verl();
        let mut one = report.deaths[0].clone();
        report.deaths.clear();
        for (id, name, at) in [(1, "late", 90), (2, "early", 10), (2, "early/b", 5)] {
            (one.id, one.node, one.when.act_time) = (EventId(id), Some(name.into()), BootTime(at));
            (one.recording_id, one.listed) = (u32::try_from(id).ok(), true);
            report.deaths.push(one.clone());
        }
        report.nodes = vec![
            node("quiet", &[0]),
            node("unseen", &[]),
            node("late", &[1]),
            node("early", &[2]),
            node("early/b", &[2]),
            node("quiet too", &[3]),
        ];
        let lanes = Lanes::of(&report);
        let names: Vec<&str> = lanes.all.iter().map(|lane| lane.name.as_str()).collect();
        let expected = ["early, early/b", "late", "quiet", "quiet too", "unseen"];
        assert_eq!(names, expected);
        let of = |at: usize| lanes.of_death(&report.deaths[at]);
        assert_eq!([of(0), of(1), of(2)], [Some(1), Some(0), Some(0)]);
        assert_eq!(lanes.all[4].about, "no recording");
    }
}
