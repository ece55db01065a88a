//! What Ray's logs say, handed on: as it comes, at a worker's end, at the recorder's end; and what of it is lost.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::Collector;
use crate::{
    event::{Ledger, Observation},
    ids::{Pid, ProcessKey},
    observe::ray_logs::Line,
};

/// At the end logs that are not read to theirs are read on for so long.
const CATCH_UP: Duration = Duration::from_secs(5);
/// A batch is written in about this time.
const A_BATCH: Duration = Duration::from_millis(10);

impl Collector {
    /// Reads what a dying worker last wrote.
    pub(super) fn last_words(&mut self, process: ProcessKey, ns_pid: Option<Pid>) {
        self.hold_late(process, ns_pid);
        let mut lines = Vec::new();
        self.logs.last_words(process, &mut |line| lines.push(line));
        self.say(lines);
    }

    /// Reads what Ray wrote since the last time, as far as there is room for it.
    pub fn read_logs(&mut self) {
        if !self.recording.has_room_for_words() {
            return;
        }
        let mut lines = Vec::new();
        self.logs.poll(&mut |line| lines.push(line));
        self.say(lines);
    }

    /// Reads what frameworks print of their settings.
    pub(super) fn read_configurations(&mut self) {
        let mut lines = Vec::new();
        self.logs.configurations(&mut |line| lines.push(line));
        self.say(lines);
    }

    fn say(&mut self, lines: Vec<Line>) {
        self.words += lines.len() as u64;
        for line in lines {
            self.emit(line.source, line.time, Observation::RayLog(line.log));
        }
        self.judge.forget_words();
    }

    /// Reads on where somebody wrote faster than logs are read, and counts what is left then.
    pub(super) fn catch_up(&mut self) {
        let began = Instant::now();
        while self.logs.is_behind() && began.elapsed() < CATCH_UP {
            self.read_logs();
            if !self.recording.has_room_for_words() {
                thread::sleep(A_BATCH);
            }
        }
        self.unread_words = self.logs.unread();
    }

    /// Records of logs that found no room, lines that were not read before the end, files that were not opened; and samples that found no room.
    pub(super) fn lost_words(&self) -> impl Iterator<Item = Ledger> {
        let dropped = self.recording.dropped_words();
        let missed = self.unread_words + self.logs.skipped;
        let words = Ledger {
            hook: "ray logs".into(),
            seen: self.words,
            submitted: self.words,
            received: self.words,
            written: self.words.saturating_sub(dropped),
            dropped,
            missed,
            ..Ledger::default()
        };
        // How many there are is not counted: only those that are lost.
        let (_, dropped) = self.recording.dropped();
        let samples = Ledger {
            hook: "samples".into(),
            seen: dropped,
            submitted: dropped,
            received: dropped,
            dropped,
            ..Ledger::default()
        };
        [words, samples].into_iter().filter(|row| row.lost() > 0)
    }
}
