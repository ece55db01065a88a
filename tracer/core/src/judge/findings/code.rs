//! Finds the line of the user's code that holds most of what a class grew by.
//!
//! It also names the setting that brought that code in.

use super::Run;
use crate::{
    ids::{Bytes, size},
    judge::report::GrowthLine,
    path, python,
    ray::framework,
};

/// A line with a smaller share of its class's growth is not taken for the cause.
const SHARE: f64 = 0.25;
/// Lines that were seen stand for the others if they have at least this share of the growth.
const MOST: f64 = 0.5;
/// A line with fewer bytes has too few samples.
const SEEN: Bytes = Bytes(16 << 20);

/// A figure that exceeds what was seen of a line by more than this factor is an estimate.
const ESTIMATED: f64 = 1.1;

/// A line that keeps memory.
pub(super) struct KeptLine<'a> {
    line: &'a GrowthLine,
    /// What it still held; if that is not known, what it took.
    pub(super) bytes: Bytes,
    /// Its share of `whole`.
    pub(super) share: f64,
    /// What its class grew by through lines that were seen, imports excepted.
    seen: Bytes,
    /// The same with what grew through lines that were not seen.
    whole: Bytes,
}

/// Returns the line of a user's file (no installed package) through which most of what a class's
/// calls took came. `None` if that is a small part.
///
/// Imports are left out, because they came before the calls.
pub(super) fn line_of_calls<'a>(run: Run<'a>, class: &str) -> Option<KeptLine<'a>> {
    let growth = run.report.growth.iter().find(|one| one.class == class)?;
    let lines = growth.lines.iter();
    let calls: Vec<&GrowthLine> = lines
        .filter(|line| !run.report.is_import(class, line))
        .collect();
    let sum = |lines: &mut dyn Iterator<Item = &&GrowthLine>| {
        Bytes(lines.map(|line| kept(line).0).sum::<u64>().max(1))
    };
    let whole = sum(&mut calls.iter());
    let seen = sum(&mut calls.iter().filter(|line| line.line.is_some()));
    let own = calls.into_iter().filter(|line| is_own(line));
    let line = own.max_by_key(|line| kept(line))?;
    let share = kept(line).gib() / whole.gib();
    (share >= SHARE && kept(line) >= SEEN).then_some(KeptLine {
        line,
        bytes: kept(line),
        share,
        seen,
        whole,
    })
}

fn is_own(line: &GrowthLine) -> bool {
    let executed = || line.is_executed() && line.user_line.is_some();
    line.line.is_some() && (python::is_user_code(&line.file) || executed())
}

fn kept(line: &GrowthLine) -> Bytes {
    let private = line.grown_bytes.0.saturating_sub(line.shared_bytes.0);
    line.held_bytes.unwrap_or(Bytes(private))
}

impl KeptLine<'_> {
    /// Returns how much less processes that took `took` would hold without this line. If most of
    /// the growth was seen, the rest is divided in the same proportion. A small part stands only
    /// for itself.
    pub(super) fn saves(&self, took: Bytes) -> Bytes {
        if !self.seen_is_most() {
            return took.min(self.bytes);
        }
        let part = took.times(self.bytes.gib() / self.seen.gib());
        // One figure for what is known to be held: an estimate that is nearly it is no other fact.
        let is_near = part > self.bytes && part.gib() <= ESTIMATED * self.bytes.gib();
        if is_near && self.line.held_bytes.is_some() {
            self.bytes
        } else {
            part
        }
    }

    fn seen_is_most(&self) -> bool {
        self.seen.gib() >= MOST * self.whole.gib()
    }

    /// Says what to do about memory that calls leave behind. What keeps it may be any line that was
    /// given what this one allocated.
    pub(super) fn free_after_each_call(&self) -> String {
        let caller = self.line.caller().map(path::without_class);
        let place = caller.map_or_else(String::new, |caller| format!(" at {caller}"));
        format!(
            "free after each call what {} allocates, or bound it: find{place} what keeps it",
            self.name()
        )
    }

    /// Says what to do about a process that holds `took` and need not.
    pub(super) fn free_what_is_used_up(&self, took: Bytes) -> String {
        let (place, part) = (self.name(), self.part(took));
        format!("{place} allocated {part}: free what is used up")
    }

    /// Returns the line's part of `took`, which a change there is expected to save: `0.8 GiB`. If
    /// much less than that was seen, returns the percentage and the figures that it comes from.
    pub(super) fn part(&self, took: Bytes) -> String {
        let part = self.saves(took);
        if !self.seen_is_most() {
            return format!(
                "{} ({} of {} came through lines that were not seen)",
                part.finer_size(),
                Bytes(self.whole.0 - self.seen.0).finer_size(),
                self.whole.finer_size()
            );
        }
        if part.gib() <= ESTIMATED * self.bytes.gib() {
            return size(part);
        }
        let percent = 100.0 * self.bytes.gib() / self.seen.gib();
        format!(
            "{percent:.0} % of it ({} of the {} whose lines were seen)",
            self.bytes.finer_size(),
            self.seen.finer_size()
        )
    }

    /// Returns the line as `reward.py:5 compute_score`.
    pub(super) fn name(&self) -> String {
        self.line.place()
    }

    /// Returns the setting on a driver's command line that has the line's file as its value:
    /// `custom_reward_function.path=/home/u/reward.py`.
    pub(super) fn brought_in_by(&self, run: Run<'_>) -> Option<String> {
        let file = std::path::Path::new(self.line.file.as_str());
        let mut named = named_files(run);
        let (key, value) =
            named.find(|(_, value)| file.ends_with(value.trim_start_matches("./")))?;
        Some(format!("{key}={value}"))
    }

    /// Returns the line with its whole path, as evidence.
    pub(super) fn evidence(&self) -> String {
        format!("{}:{}", self.line.file, self.line.line.unwrap_or_default())
    }
}

/// Returns the settings on drivers' command lines that have a file of Python as their value.
pub(super) fn named_files(run: Run<'_>) -> impl Iterator<Item = (String, String)> {
    let drivers = run.facts.drivers.iter();
    let pairs = drivers.flat_map(|driver| framework::pairs(&driver.argv));
    pairs.filter(|(key, value)| !key.is_empty() && python_file(value))
}

fn python_file(value: &str) -> bool {
    std::path::Path::new(value)
        .extension()
        .is_some_and(|end| end == "py")
}
