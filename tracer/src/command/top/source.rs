//! Provides the data for `top`: from its own observers, or from a recording being written.

#[cfg_attr(not(feature = "record"), path = "source/stub.rs")]
mod live_source;
mod replay;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Interval, MissedTickBehavior};

use crate::{
    command::{own_path, recording_files},
    deaths::{self, DeathUpdate, Deaths},
    event::{Mode, Observation},
    ids::BootTime,
    judge::{
        Details, Judge,
        report::{Death, Report},
    },
    observe::{clock, host},
    recording::{Follower, RecordingError},
    show::{
        Style,
        select::SelectedReport,
        summary,
        time::Zone,
        top::{Step, Top},
    },
};
use live_source::LiveSource;
use replay::Replay;

/// How often the file is read: a recorder writes events twice a second.
const POLL: Duration = Duration::from_millis(500);

/// While old events are read, deaths are judged when this many wait. Each keeps in memory what
/// surrounded it.
const WAIT_MOST: usize = 128;

/// The source of the view's data.
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Source {
    Live(LiveSource),
    File(Following),
}

/// A recording that is being followed.
pub(super) struct Following {
    name: String,
    path: PathBuf,
    follower: Follower,
    judge: Judge,
    deaths: Deaths,
    /// Whether it was made since the last boot of this machine, so that it uses the same clock.
    ours: bool,
    last: BootTime,
    /// When the machine's memory was sampled, until it is known that the recorder still runs.
    samples: Option<Vec<BootTime>>,
    /// The position in a recording that had ended when it was opened.
    replay: Option<Replay>,
    poll: Interval,
}

/// Adds deaths to the list, and links all in it to their causes as the report does. What ended a
/// job is known only when its driver has ended too.
fn take(top: &mut Top, told: Vec<DeathUpdate>, report_of: impl FnOnce(Vec<Death>) -> Report) {
    if told.is_empty() {
        return;
    }
    for told in told {
        top.died(told.death);
    }
    let linked = report_of(top.deaths().cloned().collect());
    for death in linked.deaths {
        top.died(death);
    }
}

impl Source {
    pub(super) fn open(file: Option<&Path>) -> anyhow::Result<Self> {
        match file {
            Some(path) => Following::open(path).map(Self::File),
            None => LiveSource::start().map(Self::Live),
        }
    }

    /// Returns the recording's name, or an empty text for observers.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Live(_) => String::new(),
            Self::File(following) => following.name.clone(),
        }
    }

    /// Updates `top` to the present state.
    pub(super) fn refresh(&mut self, top: &mut Top) -> anyhow::Result<()> {
        match self {
            Self::Live(live) => live.refresh(top),
            Self::File(following) => following.read(top)?,
        }
        Ok(())
    }

    /// Waits for new data, and returns whether there is anything to draw. May be cancelled while it
    /// waits.
    pub(super) async fn next(&mut self, top: &mut Top) -> anyhow::Result<bool> {
        match self {
            Self::Live(live) => Ok(live.next(top).await),
            Self::File(following) => {
                following.poll.tick().await;
                following.read(top)?;
                Ok(following.replay.is_none())
            }
        }
    }

    /// Goes to another sample of a recording that has ended.
    pub(super) fn step(&mut self, step: Step, top: &mut Top) -> anyhow::Result<()> {
        match self {
            Self::Live(_) => Ok(()),
            Self::File(following) => following.step(step, top),
        }
    }

    /// Reads what the report says about deaths, if that is asked for.
    pub(super) fn answer(&self, top: &mut Top) -> anyhow::Result<()> {
        match self {
            Self::File(following) if top.wants_answers() => following.answer(top),
            _ => Ok(()),
        }
    }

    /// Detaches the observers, if there are any.
    pub(super) async fn close(self) {
        if let Self::Live(live) = self {
            Box::pin(live.close()).await;
        }
    }
}

impl Following {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            path: path.to_owned(),
            follower: Follower::open(path)?,
            judge: Judge::default(),
            deaths: Deaths::default(),
            ours: false,
            last: BootTime(0),
            samples: Some(Vec::new()),
            replay: None,
            poll,
        })
    }

    fn step(&mut self, step: Step, top: &mut Top) -> anyhow::Result<()> {
        match &mut self.replay {
            Some(replay) => Ok(replay.step(step, top)?),
            None => Ok(()),
        }
    }

    fn answer(&self, top: &mut Top) -> anyhow::Result<()> {
        let part = recording_files::judge(std::slice::from_ref(&self.path), None, Details::All)?;
        let style = Style {
            width: 100,
            zone: Zone::default(),
            file: Some(self.path.display().to_string()),
            span: String::new(),
            program: own_path::name(),
        };
        top.answer(summary::of_each(
            &SelectedReport::whole(&part.report),
            &style,
        ));
        Ok(())
    }

    pub(super) fn read(&mut self, top: &mut Top) -> anyhow::Result<()> {
        if self.replay.is_some() {
            return Ok(());
        }
        if let Some(anew) = self.follower.replaced() {
            self.follower = anew;
            (self.judge, self.deaths) = (Judge::default(), Deaths::default());
            (self.ours, self.last) = (false, BootTime(0));
            top.restart();
        }
        while self.read_some()? {
            if self.deaths.waiting() > WAIT_MOST {
                self.judge(top, self.last);
            }
        }
        let now = if self.ours { clock::boot() } else { self.last };
        let until = if self.ours {
            now
        } else {
            deaths::time_when_all_settled(now)
        };
        self.judge(top, until);
        let samples = self.samples.take().filter(|_| !self.ours);
        if let Some(samples) = samples {
            self.replay = Replay::open(&self.path, samples, top)?;
        }
        if self.replay.is_none() {
            top.update(self.judge.live(now));
        }
        Ok(())
    }

    /// Reads some of the new events, and returns whether there are more.
    fn read_some(&mut self) -> Result<bool, RecordingError> {
        self.follower.each_next(|event| {
            self.judge.observe(&event);
            self.last = self.last.max(event.time);
            match &event.what {
                Observation::RecordingStarted(started) => {
                    self.ours = started.boot_id == host::started(Mode::Procfs).boot_id;
                }
                Observation::RecordingEnded => self.ours = false,
                Observation::Node(_) => {
                    if let Some(samples) = &mut self.samples {
                        samples.push(event.time);
                    }
                }
                Observation::Exit(exit) => self.deaths.add(event.id, exit.process, event.time),
                _ => {}
            }
        })
    }

    /// Adds the deaths whose verdict is due, and forgets processes that died long before.
    fn judge(&mut self, top: &mut Top, until: BootTime) {
        let (told, done) = self.deaths.take_due(&self.judge, until);
        take(top, told, |deaths| self.judge.report_of(deaths));
        for process in done {
            self.judge.forget(process);
        }
    }
}
