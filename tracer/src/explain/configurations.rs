//! Reads the settings that frameworks print, and the command lines that start them.

use std::collections::HashMap;

use super::line::LogLine;
use crate::{
    judge::from_text::claim::{FoundSettings, Place, TextRemarks},
    ray::{
        framework,
        log::{configuration::Configuration, gpu_moved, monitor_kill},
    },
};

/// How many processes' printed settings are read at the same time.
const MAX_OPEN: usize = 16;
/// A configuration that has not ended after this many lines is given up.
const MAX_LINES: u64 = 5_000;
/// The most configurations and command lines that are kept.
const MAX_KEPT: usize = 8;
/// The most lines about GPU memory that are kept.
const MAX_MOVED: usize = 2_000;
/// The most words of a command line that are read.
const MAX_WORDS: usize = 400;

/// Returns the keywords of a configuration's first line, and of command lines.
pub(super) fn keywords() -> impl Iterator<Item = &'static str> {
    framework::configuration_openings().chain(framework::commands())
}

/// The configurations and the command line that are being read, by who prints them.
#[derive(Debug, Default)]
pub(super) struct Configurations {
    open: HashMap<String, (Configuration, Place)>,
    /// A command line that continues in the next line of the same writer.
    command: Option<Command>,
}

#[derive(Debug)]
struct Command {
    who: String,
    argv: Vec<String>,
    place: Place,
}

impl Configurations {
    /// Returns whether the next lines may belong to a configuration or command line.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty() || self.command.is_some()
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: &LogLine, own: Option<String>, remarks: &mut TextRemarks) {
        let place = line.place;
        let who = printer(line).or(own).unwrap_or_else(|| "the driver".into());
        if let Some(moved) = gpu_moved::parse(&line.text)
            && remarks.gpu_moved.len() < MAX_MOVED
        {
            remarks
                .gpu_moved
                .push((who.clone(), moved, place, super::cut(&line.text)));
        }
        if framework::commands().any(|words| line.text.contains(words))
            && !monitor_kill::is_table_row(&line.text)
        {
            return self.command(who, place, &line.text, remarks);
        }
        if let Some(begun) = self.command.take_if(|begun| begun.who == who) {
            return self.continue_command(begun, &line.text, remarks);
        }
        self.open
            .retain(|_, (_, began)| place.line.saturating_sub(began.line) < MAX_LINES);
        let known = self.open.contains_key(&who);
        if !known
            && (self.open.len() >= MAX_OPEN || !keywords().any(|words| line.text.contains(words)))
        {
            return;
        }
        let (reader, began) = self
            .open
            .entry(who.clone())
            .or_insert_with(|| (Configuration::default(), place));
        let began = *began;
        let settings = reader.push(&line.text);
        if !reader.is_open() {
            self.open.remove(&who);
        }
        if let Some(settings) = settings {
            keep(
                remarks,
                FoundSettings {
                    printer: Some(who),
                    place: began,
                    argv: Vec::new(),
                    settings,
                },
            );
        }
    }

    /// Starts to read a command line: `+ python3 -m verl.trainer.main_ppo
    /// data.train_batch_size=1024 …`.
    fn command(&mut self, who: String, place: Place, text: &str, remarks: &mut TextRemarks) {
        let argv = Vec::new();
        self.continue_command(Command { who, argv, place }, text, remarks);
    }

    /// Reads a line of a command line, which continues in the next one if it ends with `\`.
    fn continue_command(&mut self, mut command: Command, text: &str, remarks: &mut TextRemarks) {
        let text = text.trim_end();
        let (words, goes_on) = match text.strip_suffix('\\') {
            Some(words) => (words, true),
            None => (text, false),
        };
        let room = MAX_WORDS - command.argv.len();
        let words = words.split_whitespace().take(room).map(str::to_owned);
        command.argv.extend(words);
        if goes_on && command.argv.len() < MAX_WORDS {
            self.command = Some(command);
            return;
        }
        keep(
            remarks,
            FoundSettings {
                printer: None,
                place: command.place,
                argv: command.argv,
                settings: Vec::new(),
            },
        );
    }
}

/// Returns whether a line opens a printed configuration.
pub(super) fn opens(text: &str) -> bool {
    framework::configuration_openings().any(|words| text.contains(words))
}

/// Names who printed a line: `TaskRunner (pid 2413)`.
fn printer(line: &LogLine) -> Option<String> {
    let speaker = line.speaker.as_ref()?;
    Some(match speaker.pid {
        Some(pid) => format!("{} (pid {pid})", speaker.name),
        None => speaker.name.clone(),
    })
}

fn keep(remarks: &mut TextRemarks, one: FoundSettings) {
    let same = |known: &FoundSettings| known.argv == one.argv && known.settings == one.settings;
    if remarks.configurations.len() < MAX_KEPT && !remarks.configurations.iter().any(same) {
        remarks.configurations.push(one);
    }
}
