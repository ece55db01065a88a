//! Implements the live view `top`. The caller passes state and keys in, and gets frames out.

mod detail;
mod draw;
mod format;
mod head;
mod help;
mod keys;
mod rows;
mod style;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

pub use keys::{KeyOutcome, Step};
use ratatui::Frame;
use rows::{Group, RowId, Sort};

use crate::{
    ids::{BootTime, EventId},
    judge::{live::Live, report::Death},
    show::{causes, trend::GrowthTrends},
};

/// Maximum number of deaths in the list.
const MAX_DEATHS: usize = 200;

/// The list in which the arrow keys move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Focus {
    #[default]
    Table,
    Deaths,
}

/// What is drawn over the lists and gets the keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Over {
    #[default]
    Nothing,
    Filter,
    Help,
}

/// What the user has chosen.
#[derive(Debug, Clone, Default)]
struct Choice {
    group: Group,
    sort: Sort,
    reversed: bool,
    focus: Focus,
    /// The row that stays chosen wherever it moves. `None` chooses the first one, whichever that
    /// is.
    row: Option<RowId>,
    /// The chosen death, counted from the newest.
    death: usize,
    filter: String,
    detail: bool,
    over: Over,
}

/// The whole state of the view.
#[derive(Debug, Clone, Default)]
pub struct Top {
    live: Live,
    trends: GrowthTrends,
    /// The deaths, the newest first.
    deaths: VecDeque<Death>,
    listed: usize,
    choice: Choice,
    colour: bool,
    source: String,
    /// What the report says about each death of a recording that has ended, once it was asked for.
    answers: Option<HashMap<EventId, Vec<String>>>,
    /// The number of the sample that is shown, and of all, in a recording that has ended.
    sample: Option<(usize, usize)>,
}

impl Top {
    /// Makes a state in which nothing is known yet. `source` names the recording, and is empty if
    /// there is none.
    pub fn new(source: &str, colour: bool) -> Self {
        Self {
            colour,
            source: source.to_owned(),
            ..Self::default()
        }
    }

    /// Takes the number of the sample that is shown, and of all.
    pub fn replays(&mut self, number: usize, of: usize) {
        self.sample = Some((number, of));
    }

    /// Returns whether details are shown of a recording that has ended, whose report was not taken.
    pub fn wants_answers(&self) -> bool {
        self.choice.detail && self.sample.is_some() && self.answers.is_none()
    }

    /// Takes what the report says about each death.
    pub fn answer(&mut self, answers: HashMap<EventId, Vec<String>>) {
        self.answers = Some(answers);
    }

    /// Forgets how memory grew, because another moment is shown next.
    pub fn forget_trends(&mut self) {
        self.trends = GrowthTrends::default();
    }

    /// Returns when the first causes died, the newest first.
    pub fn cause_times(&self) -> Vec<BootTime> {
        let causes = self.causes();
        causes
            .iter()
            .map(|(death, _)| death.when.act_time)
            .collect()
    }

    /// Forgets everything, because what follows is from another recording.
    pub fn restart(&mut self) {
        (self.live, self.trends) = (Live::default(), GrowthTrends::default());
        self.deaths.clear();
        self.listed = 0;
    }

    /// Takes the newest state of the machine.
    pub fn update(&mut self, live: Live) {
        self.trends.add(&live);
        self.live = live;
    }

    /// Takes a death, or the settled verdict on one.
    pub fn died(&mut self, death: Death) {
        let chosen = self.causes().get(self.choice.death).map(|(one, _)| one.id);
        self.keep(death);
        // The chosen death stays chosen, unless it was only chosen as the newest one.
        if self.choice.death > 0 || self.choice.detail {
            let causes = self.causes();
            let place = causes.iter().position(|(one, _)| Some(one.id) == chosen);
            self.choice.death = place.unwrap_or(0);
        }
    }

    fn keep(&mut self, death: Death) {
        if let Some(known) = self.deaths.iter_mut().find(|known| known.id == death.id) {
            *known = death;
            return;
        }
        if !death.listed {
            return;
        }
        self.listed += 1;
        self.deaths.push_front(death);
        self.deaths.truncate(MAX_DEATHS);
    }

    /// Returns the deaths in the list.
    pub fn deaths(&self) -> impl Iterator<Item = &Death> {
        self.deaths.iter()
    }

    /// Returns the first causes, the newest first, each with the deaths of its act and those that
    /// followed from it.
    fn causes(&self) -> Vec<(&Death, Vec<&Death>)> {
        let by_id: HashMap<EventId, &Death> = self.deaths.iter().map(|one| (one.id, one)).collect();
        let mut causes: Vec<(&Death, Vec<&Death>)> = Vec::new();
        let mut followers: HashMap<EventId, Vec<&Death>> = HashMap::new();
        for death in &self.deaths {
            let root = causes::root(&by_id, death);
            if root == death.id {
                causes.push((death, Vec::new()));
            } else {
                followers.entry(root).or_default().push(death);
            }
        }
        for (cause, followed) in &mut causes {
            *followed = followers.remove(&cause.id).unwrap_or_default();
        }
        causes
    }

    /// Draws the view.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        draw::all(self, frame);
    }
}
