//! Applies each key to the state.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    Focus, Over, Top,
    rows::{self, Group},
};

/// Rows of a page.
const PAGE: isize = 10;
/// Longest filter, in characters.
const MAX_FILTER: usize = 64;

/// What the caller does after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    /// Draw again.
    Draw,
    /// Go to another moment of the recording.
    Step(Step),
    /// End the program.
    Quit,
}

/// A step through a recording that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// To the sample before.
    Back,
    /// To the next sample.
    Forward,
    /// To the first cause before.
    DeathBefore,
    /// To the next first cause.
    DeathAfter,
}

impl Top {
    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> KeyOutcome {
        if key.kind == KeyEventKind::Release {
            return KeyOutcome::Draw;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => KeyOutcome::Quit,
                _ => KeyOutcome::Draw,
            };
        }
        // A terminal sends Alt with a key as Esc and the key. On a slow line, two keys that arrive
        // together look the same.
        if key.modifiers.contains(KeyModifiers::ALT) {
            self.key(KeyCode::Esc.into());
            return self.key(key.code.into());
        }
        match self.choice.over {
            Over::Filter => self.typed(key.code),
            Over::Help => self.choice.over = Over::Nothing,
            Over::Nothing => return self.pressed(key.code),
        }
        KeyOutcome::Draw
    }

    fn pressed(&mut self, code: KeyCode) -> KeyOutcome {
        match code {
            KeyCode::Char('q') => return KeyOutcome::Quit,
            KeyCode::Char('?' | 'h') => self.choice.over = Over::Help,
            KeyCode::Char('/') => self.choice.over = Over::Filter,
            KeyCode::Esc => self.back(),
            KeyCode::Enter => self.choice.detail = !self.choice.detail,
            KeyCode::Tab | KeyCode::Char('d') => self.other_list(),
            KeyCode::Char('g') => self.group(next(self.choice.group)),
            KeyCode::Char('1') => self.group(Group::Classes),
            KeyCode::Char('2') => self.group(Group::Processes),
            KeyCode::Char('3') => self.group(Group::Components),
            KeyCode::Char('s') => self.choice.sort = self.choice.sort.next(),
            KeyCode::Char('r') => self.choice.reversed = !self.choice.reversed,
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-PAGE),
            KeyCode::PageDown => self.go(PAGE),
            KeyCode::Left => return KeyOutcome::Step(Step::Back),
            KeyCode::Right => return KeyOutcome::Step(Step::Forward),
            KeyCode::Char('[') => return KeyOutcome::Step(Step::DeathBefore),
            KeyCode::Char(']') => return KeyOutcome::Step(Step::DeathAfter),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            _ => {}
        }
        KeyOutcome::Draw
    }

    fn typed(&mut self, code: KeyCode) {
        let choice = &mut self.choice;
        match code {
            KeyCode::Enter => choice.over = Over::Nothing,
            KeyCode::Esc => {
                choice.over = Over::Nothing;
                choice.filter.clear();
            }
            KeyCode::Backspace => {
                choice.filter.pop();
            }
            KeyCode::Char(character) if choice.filter.chars().count() < MAX_FILTER => {
                choice.filter.push(character);
            }
            _ => {}
        }
        choice.row = None;
    }

    /// Closes what was opened last, or clears the filter.
    fn back(&mut self) {
        let choice = &mut self.choice;
        if choice.detail {
            choice.detail = false;
        } else if choice.focus == Focus::Deaths {
            choice.focus = Focus::Table;
        } else {
            choice.filter.clear();
            choice.row = None;
        }
    }

    fn group(&mut self, group: Group) {
        self.choice.group = group;
        self.choice.focus = Focus::Table;
        self.choice.row = None;
    }

    fn other_list(&mut self) {
        self.choice.focus = match self.choice.focus {
            Focus::Table => Focus::Deaths,
            Focus::Deaths => Focus::Table,
        };
        self.choice.death = 0;
    }

    fn go(&mut self, by: isize) {
        match self.choice.focus {
            Focus::Deaths => {
                self.choice.death = moved(self.choice.death, by, self.causes().len());
            }
            Focus::Table => {
                let rows = rows::of(self);
                let at = moved(self.chosen(&rows), by, rows.len());
                let row = rows.get(at).map(|row| row.id.clone());
                // At the top, the first place stays chosen, not the row that is there now.
                self.choice.row = row.filter(|_| at > 0);
            }
        }
    }

    /// Returns the place of the chosen row.
    pub(super) fn chosen(&self, rows: &[rows::Row<'_>]) -> usize {
        let wanted = self.choice.row.as_ref();
        let place = wanted.and_then(|id| rows.iter().position(|row| row.id == *id));
        place.unwrap_or(0)
    }
}

fn next(group: Group) -> Group {
    let at = Group::ALL.iter().position(|one| *one == group);
    Group::ALL[(at.unwrap_or(0) + 1) % Group::ALL.len()]
}

fn moved(from: usize, by: isize, count: usize) -> usize {
    let to = from.saturating_add_signed(by);
    to.min(count.saturating_sub(1))
}
