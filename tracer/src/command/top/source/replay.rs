//! Steps through a recording that has ended: by sample, and by death.
//!
//! A step back reads the file again from its start, because a judge only goes forwards.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use crate::{
    event::Event,
    ids::{BootTime, MINUTE_NS},
    judge::Judge,
    recording::{Follower, RecordingError},
    show::top::{Step, Top},
};

/// Growth is shown over at most two minutes, so the samples of this time before the shown one are
/// passed on too.
const TREND_NS: i64 = 2 * MINUTE_NS;

/// A recording, at one of its samples.
pub(super) struct Replay {
    path: PathBuf,
    /// When the machine's memory was sampled, in order.
    samples: Vec<BootTime>,
    /// The place of the sample that is shown.
    at: usize,
    read: Reading,
}

/// What was read so far.
struct Reading {
    follower: Follower,
    judge: Judge,
    /// Events that were read, and are later than what is shown.
    waiting: VecDeque<Event>,
    /// The number of samples that were passed on.
    passed: usize,
}

impl Reading {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self {
            follower: Follower::open(path)?,
            judge: Judge::default(),
            waiting: VecDeque::new(),
            passed: 0,
        })
    }

    /// Lets the judge see all events until `time`. A recording has them almost in order of time:
    /// those of one round of samples may be mixed.
    fn until(&mut self, time: BootTime) -> Result<(), RecordingError> {
        loop {
            let read = std::mem::take(&mut self.waiting).into_iter();
            let (due, later): (VecDeque<Event>, _) = read.partition(|event| event.time <= time);
            for event in &due {
                self.judge.observe(event);
            }
            self.waiting = later;
            if !self.waiting.is_empty() {
                return Ok(());
            }
            let waiting = &mut self.waiting;
            self.follower.each_next(|event| waiting.push_back(event))?;
            if self.waiting.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Replay {
    /// Opens a recording that was sampled at these times, at the last death of `top`. `None` if it
    /// has no samples.
    pub(super) fn open(
        path: &Path,
        mut samples: Vec<BootTime>,
        top: &mut Top,
    ) -> Result<Option<Self>, RecordingError> {
        samples.sort_unstable();
        samples.dedup();
        let Some(last) = samples.len().checked_sub(1) else {
            return Ok(None);
        };
        let mut replay = Self {
            path: path.to_owned(),
            samples,
            at: last,
            read: Reading::open(path)?,
        };
        replay.at = replay.deaths(top).last().copied().unwrap_or(last);
        replay.show(top)?;
        Ok(Some(replay))
    }

    /// Returns for each first cause the place of the last sample before it, in order.
    fn deaths(&self, top: &Top) -> Vec<usize> {
        let before = |time: BootTime| {
            let later = self.samples.partition_point(|sample| *sample <= time);
            later.saturating_sub(1)
        };
        let mut found: Vec<usize> = top.cause_times().into_iter().map(before).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Goes to another sample, if there is one.
    pub(super) fn step(&mut self, step: Step, top: &mut Top) -> Result<(), RecordingError> {
        let at = self.at;
        let deaths = self.deaths(top);
        let to = match step {
            Step::Back => at.checked_sub(1),
            Step::Forward => Some(at + 1),
            Step::DeathBefore => deaths.iter().rfind(|death| **death < at).copied(),
            Step::DeathAfter => deaths.iter().find(|death| **death > at).copied(),
        };
        match to.filter(|to| *to < self.samples.len()) {
            Some(to) => {
                self.at = to;
                self.show(top)
            }
            None => Ok(()),
        }
    }

    /// Shows the sample at `at`.
    fn show(&mut self, top: &mut Top) -> Result<(), RecordingError> {
        if self.at < self.read.passed {
            self.read = Reading::open(&self.path)?;
        }
        let shown = self.samples[self.at];
        let jumped = self.at != self.read.passed;
        let first = if jumped {
            top.forget_trends();
            let recent = |sample: &BootTime| shown.since(*sample) > TREND_NS;
            let first = self.samples.partition_point(recent);
            first.max(self.read.passed)
        } else {
            self.at
        };
        for at in first..=self.at {
            let now = self.samples[at];
            self.read.until(now)?;
            top.update(self.read.judge.live(now));
        }
        self.read.passed = self.at + 1;
        top.replays(self.at + 1, self.samples.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend, crossterm::event::KeyCode};
    use tempfile::NamedTempFile;

    use super::*;
    use crate::{command::top::source::Following, show::top::KeyOutcome, tests::golden::unpacked};

    /// Opens one of the golden recordings. It is there as long as its file.
    fn opened(name: &str) -> (NamedTempFile, Top, Following) {
        let file = unpacked(name);
        let mut top = Top::new("d.raytrace", false);
        let mut source = Following::open(file.path()).expect("a recording");
        source.read(&mut top).expect("it is read");
        (file, top, source)
    }

    /// Returns the first line of the view.
    fn title(top: &Top) -> String {
        let screen = screen(top);
        screen.lines().next().unwrap_or_default().to_owned()
    }

    /// Returns all lines of the view.
    fn screen(top: &Top) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).expect("a terminal");
        terminal.draw(|frame| top.draw(frame)).expect("a frame");
        terminal.backend().to_string()
    }

    /// An actor died because `/dev/shm` was full: its fill and the remedy are shown.
    #[tokio::test]
    async fn details_of_a_death_show_the_fix() {
        let (_file, mut top, source) = opened("gallery-openrlhf");
        let opened = screen(&top);
        assert!(opened.contains("/dev/shm     64 of 64 MiB"), "{opened}");
        assert!(!top.wants_answers());
        top.key(KeyCode::Tab.into());
        top.key(KeyCode::Enter.into());
        assert!(top.wants_answers());
        source.answer(&mut top).expect("a report");
        assert!(!top.wants_answers());
        let details = screen(&top);
        assert!(details.contains("mount -o remount"), "{details}");
    }

    /// Two children, which a task had forked, count only what they have more than it: together with
    /// it they held no more than was in use.
    #[tokio::test]
    async fn memory_of_forked_children_counts_once() {
        let (_file, top, _source) = opened("verl-d");
        let shown = screen(&top);
        let row = shown.lines().find(|line| line.contains("TaskRunner  "));
        let row = row.expect("its class");
        assert!(row.contains("4.5 GiB"), "{shown}");
    }

    /// The recording of a verl job that two kills ended, within 388 ms.
    #[tokio::test]
    async fn recording_opens_at_the_last_kill_and_is_stepped_through() {
        let (_file, mut top, mut source) = opened("verl-c");
        let opened = title(&top);
        assert!(
            opened.contains("00:22:24.") || opened.contains("00:22:23."),
            "{opened}"
        );
        let mut press = |key: KeyCode| {
            let KeyOutcome::Step(step) = top.key(key.into()) else {
                panic!("{key:?} is no step");
            };
            source.step(step, &mut top).expect("a step");
            title(&top)
        };
        let before = press(KeyCode::Left);
        assert!(before != opened && before.contains("sample "), "{before}");
        assert_eq!(press(KeyCode::Right), opened);
        let first = press(KeyCode::Char('['));
        assert!(first.contains("00:22:23."), "{first}");
        assert_eq!(press(KeyCode::Char('[')), first, "there is none before");
        assert_eq!(press(KeyCode::Char(']')), opened);
        // A new sample is not read into it: the recording has ended.
        source.read(&mut top).expect("it is read");
        assert_eq!(title(&top), opened);
    }
}
