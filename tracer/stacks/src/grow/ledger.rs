//! Collects how much one process grew under which stack, until it is written.
//!
//! Consecutive readings of one stack form a run. The runs are kept in their order.

use crate::{
    event::{NativeFrame, Observation, PythonFrame, PythonStack, Unsampled},
    ids::{BootTime, Bytes, ProcessKey},
    read::Stack,
};

/// How many runs of one process are kept with a stack. Later growth has no stack, unless its line
/// is that of the last run, or a run with a stack grew by less.
const MOST_RUNS: usize = 64;

/// Memory that grew under one stack.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Grown {
    /// Private memory.
    pub(super) private: u64,
    /// The mapping that contains the private memory.
    pub(super) mapping: Option<u32>,
    /// Shared memory.
    pub(super) shared: u64,
}

impl Grown {
    fn bytes(self) -> u64 {
        self.private + self.shared
    }
}

/// A stack, or why there is none.
type Line = Result<Stack, Unsampled>;

/// A row that will be written.
enum Run {
    Grew(BootTime, Line, Grown),
    Freed(BootTime, Option<u32>, u64),
}

/// The runs that are not yet written.
#[derive(Default)]
pub(super) struct Ledger {
    runs: Vec<Run>,
    /// The last stack that was seen, whether its process grew or not.
    seen: Option<(BootTime, Stack)>,
    /// The frames of the row that was written last.
    written: Option<(Vec<PythonFrame>, Vec<NativeFrame>)>,
}

/// Whether two stacks are the same. A stack without native frames differs from one with them: what
/// its line called is not known.
fn is_one(one: &Line, other: &Line) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.frames == other.frames && one.native == other.native,
        (one, other) => one.as_ref().err() == other.as_ref().err(),
    }
}

impl Ledger {
    /// Notes a stack that was seen.
    pub(super) fn seen(&mut self, time: BootTime, stack: &Stack) {
        self.seen = Some((time, stack.clone()));
    }

    /// Adds growth under `line`. When [`MOST_RUNS`] are kept, the line of the last run gets one more
    /// run, without the frames that it called, and a larger one takes the place of the smallest.
    pub(super) fn grew(&mut self, time: BootTime, mut line: Line, by: Grown) {
        let full = self.runs.len() >= MOST_RUNS;
        if self.joins(&line, by) {
            return;
        }
        if full {
            if let Ok(stack) = &mut line {
                stack.native.clear();
            }
            if !self.is_last_line(&line, by) && !self.smaller_run_loses_its_line(by) {
                line = Err(Unsampled::TooMany);
            }
        }
        if !full || !self.joins(&line, by) {
            self.runs.push(Run::Grew(time, line, by));
        }
    }

    /// Takes the line of the smallest run, if that grew by less than this. Returns whether it did:
    /// the lines that are kept are those of the most bytes.
    fn smaller_run_loses_its_line(&mut self, by: Grown) -> bool {
        if self.runs.len() >= 2 * MOST_RUNS {
            return false;
        }
        let with_a_line = self.runs.iter_mut().filter_map(|run| match run {
            Run::Grew(_, line @ Ok(_), grown) => Some((grown.bytes(), line)),
            Run::Grew(..) | Run::Freed(..) => None,
        });
        match with_a_line.min_by_key(|(bytes, _)| *bytes) {
            Some((bytes, line)) if bytes < by.bytes() => {
                *line = Err(Unsampled::TooMany);
                true
            }
            _ => false,
        }
    }

    /// Adds to the last run if that has this stack. The run keeps the time of its first reading:
    /// what runs later may be another call.
    fn joins(&mut self, line: &Line, by: Grown) -> bool {
        let Some(Run::Grew(_, known, grown)) = self.runs.last_mut() else {
            return false;
        };
        if !is_one(known, line) || grown.mapping != by.mapping {
            return false;
        }
        grown.private += by.private;
        grown.shared += by.shared;
        true
    }

    /// Whether the last run has this line, whatever the line called.
    fn is_last_line(&self, line: &Line, by: Grown) -> bool {
        let (Some(Run::Grew(_, Ok(known), grown)), Ok(stack)) = (self.runs.last(), line) else {
            return false;
        };
        known.frames == stack.frames && grown.mapping == by.mapping
    }

    /// Notes that memory of a mapping, or of none, was given back.
    pub(super) fn freed(&mut self, time: BootTime, mapping: Option<u32>, bytes: u64) {
        match self.runs.last_mut() {
            Some(Run::Freed(last, of, freed)) if *of == mapping => {
                *last = time;
                *freed += bytes;
            }
            _ => self.runs.push(Run::Freed(time, mapping, bytes)),
        }
    }

    /// Whether there is little room for more runs.
    pub(super) fn is_full(&self) -> bool {
        self.runs.len() >= MOST_RUNS / 2
    }

    /// Sends the rows and empties the ledger. After a row that is not taken, the next one repeats
    /// its frames in full: a row marked as repeating has the frames of the previous row in the
    /// recording.
    pub(super) fn flush(
        &mut self,
        process: ProcessKey,
        mut send: impl FnMut(BootTime, Observation) -> bool,
    ) {
        let mut runs = std::mem::take(&mut self.runs);
        if let Some((time, stack)) = self.seen.take() {
            runs.push(Run::Grew(time, Ok(stack), Grown::default()));
        }
        for run in runs {
            let (time, what) = self.row(process, run);
            if !send(time, what) {
                self.written = None;
            }
        }
    }

    fn row(&mut self, process: ProcessKey, run: Run) -> (BootTime, Observation) {
        let (time, line, grown) = match run {
            Run::Grew(time, line, grown) => (time, line, grown),
            Run::Freed(time, mapping, bytes) => {
                let bytes = Bytes(bytes);
                let what = Observation::Freed {
                    process,
                    mapping,
                    bytes,
                };
                return (time, what);
            }
        };
        let unsampled = line.as_ref().err().copied();
        let stack = line.unwrap_or_default();
        let moved = grown.private > 0 || grown.shared > 0;
        let repeats = self.written.as_ref().is_some_and(|(frames, native)| {
            // A row without growth only says where the thread is. Native frames do not matter for
            // that.
            *frames == stack.frames && (*native == stack.native || !moved)
        });
        let what = Observation::Stack(PythonStack {
            process,
            tid: stack.tid,
            grown: Bytes(grown.private),
            shared: Bytes(grown.shared),
            mapping: grown.mapping,
            unsampled,
            repeats,
            frames: if repeats {
                Vec::new()
            } else {
                stack.frames.clone()
            },
            native: if repeats {
                Vec::new()
            } else {
                stack.native.clone()
            },
        });
        if !repeats {
            self.written = Some((stack.frames, stack.native));
        }
        (time, what)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::at_line as stack, *};

    fn by(private: u64, mapping: Option<u32>) -> Grown {
        Grown {
            private,
            mapping,
            shared: 0,
        }
    }

    fn flushed(ledger: &mut Ledger) -> Vec<(BootTime, Observation)> {
        let mut rows = Vec::new();
        ledger.flush(ProcessKey::new(1, 1), |time, what| {
            rows.push((time, what));
            true
        });
        rows
    }

    fn rows(ledger: &mut Ledger) -> Vec<(u64, Option<u32>, bool, usize)> {
        let rows = flushed(ledger);
        let figures = |row: (BootTime, Observation)| match row.1 {
            Observation::Stack(stack) => (
                stack.grown.0,
                stack.mapping,
                stack.repeats,
                stack.frames.len(),
            ),
            Observation::Freed { mapping, bytes, .. } => (bytes.0, mapping, true, 9),
            other => panic!("{other:?}"),
        };
        rows.into_iter().map(figures).collect()
    }

    /// Memory that was given back is a row of its own.
    #[test]
    fn looks_at_one_stack_are_one_row() {
        let mut ledger = Ledger::default();
        ledger.grew(BootTime(1), Ok(stack(1)), by(5, None));
        ledger.grew(BootTime(2), Ok(stack(1)), by(6, None));
        ledger.freed(BootTime(3), None, 11);
        ledger.grew(BootTime(4), Ok(stack(1)), by(7, None));
        ledger.grew(BootTime(5), Ok(stack(1)), by(8, Some(2)));
        ledger.grew(BootTime(6), Ok(stack(2)), by(9, Some(2)));
        let found = rows(&mut ledger);
        let wanted = [
            (11, None, false, 1),
            (11, None, true, 9),
            (7, None, true, 0),
            (8, Some(2), true, 0),
            (9, Some(2), false, 1),
        ];
        assert_eq!(found, wanted);
        assert!(rows(&mut ledger).is_empty());
    }

    fn calling(function: &str) -> Stack {
        let frame = NativeFrame {
            library: "lib.so".into(),
            function: Some(function.into()),
        };
        Stack {
            native: vec![frame],
            ..stack(1)
        }
    }

    /// Returns how much grew, whether the frames repeat, and the function that was called.
    fn calls(ledger: &mut Ledger) -> Vec<(u64, bool, Option<String>)> {
        let figures = |row: (BootTime, Observation)| match row.1 {
            Observation::Stack(stack) => {
                let called = stack.native.into_iter().next();
                let called = called.and_then(|frame| frame.function);
                (stack.grown.0, stack.repeats, called)
            }
            other => panic!("{other:?}"),
        };
        flushed(ledger).into_iter().map(figures).collect()
    }

    #[test]
    fn look_without_native_frames_has_no_function() {
        let mut ledger = Ledger::default();
        ledger.grew(BootTime(1), Ok(stack(1)), by(1, None));
        ledger.grew(BootTime(2), Ok(calling("malloc")), by(2, None));
        ledger.grew(BootTime(3), Ok(stack(1)), by(4, None));
        ledger.grew(BootTime(4), Ok(stack(1)), by(4, None));
        ledger.grew(BootTime(5), Ok(calling("mmap")), by(8, None));
        ledger.grew(BootTime(6), Ok(calling("mmap")), by(8, Some(1)));
        ledger.seen(BootTime(7), &stack(1));
        let name = |name: &str| Some(name.to_owned());
        let wanted = [
            (1, false, None),
            (2, false, name("malloc")),
            (8, false, None),
            (8, false, name("mmap")),
            (8, true, None),
            (0, true, None),
        ];
        assert_eq!(calls(&mut ledger), wanted);
    }

    #[test]
    fn row_has_the_time_of_its_first_look() {
        let mut ledger = Ledger::default();
        ledger.grew(BootTime(1), Ok(stack(1)), by(1, None));
        ledger.grew(BootTime(9), Ok(stack(1)), by(1, None));
        let times: Vec<u64> = flushed(&mut ledger).iter().map(|row| row.0.0).collect();
        assert_eq!(times, [1]);
    }

    #[test]
    fn frames_are_repeated_after_a_dropped_row() {
        let mut ledger = Ledger::default();
        let mut repeats = Vec::new();
        for (is_taken, mapping) in [(false, 1), (true, 2), (true, 3)] {
            ledger.grew(BootTime(1), Ok(stack(1)), by(5, Some(mapping)));
            ledger.grew(BootTime(1), Ok(stack(1)), by(5, None));
            ledger.flush(ProcessKey::new(1, 1), |_, what| {
                let Observation::Stack(stack) = what else {
                    panic!("{what:?}");
                };
                repeats.push((stack.repeats, stack.frames.len()));
                is_taken
            });
        }
        let (said, again) = ((false, 1), (true, 0));
        assert_eq!(repeats, [said, said, said, again, again, again]);
    }

    #[test]
    fn last_stack_is_written_without_growth() {
        let mut ledger = Ledger::default();
        ledger.grew(BootTime(1), Ok(stack(1)), by(5, None));
        for time in 2..9 {
            ledger.seen(BootTime(time), &stack(1));
        }
        assert_eq!(rows(&mut ledger), [(5, None, false, 1), (0, None, true, 0)]);
    }

    /// Growth beyond the bound is assigned to no line.
    #[test]
    fn loop_over_many_lines_writes_bounded_rows() {
        let mut ledger = Ledger::default();
        for line in 0..1000 {
            ledger.grew(BootTime(u64::from(line)), Ok(stack(line)), by(1, None));
        }
        let found = rows(&mut ledger);
        assert_eq!(found.len(), MOST_RUNS + 1);
        assert_eq!(found.iter().map(|row| row.0).sum::<u64>(), 1000);
        let last = found.last().expect("a row");
        assert_eq!((last.0, last.3), (1000 - MOST_RUNS as u64, 0));
    }

    /// A burst of small lines does not cost the largest growth its line.
    #[test]
    fn larger_growth_takes_the_place_of_the_smallest() {
        let mut ledger = Ledger::default();
        for line in 0..1000 {
            ledger.grew(BootTime(1), Ok(stack(line)), by(2, None));
        }
        for line in 1000..1003 {
            ledger.grew(BootTime(2), Ok(stack(line)), by(200, None));
            ledger.freed(BootTime(3), None, 200);
        }
        let found = rows(&mut ledger);
        let large = found.iter().filter(|row| row.0 == 200 && row.3 == 1);
        assert_eq!(large.count(), 3);
        let with_a_line = found.iter().filter(|row| row.3 == 1).count();
        assert_eq!(with_a_line, MOST_RUNS);
        for line in 2000..3000 {
            ledger.grew(BootTime(4), Ok(stack(line)), by(u64::from(line), None));
        }
        assert!(rows(&mut ledger).len() <= 2 * MOST_RUNS + 1);
    }

    #[test]
    fn line_with_many_callees_keeps_its_growth() {
        let mut ledger = Ledger::default();
        for number in 0..1000 {
            let stack = calling(&number.to_string());
            ledger.grew(BootTime(number), Ok(stack), by(1, None));
        }
        let found = flushed(&mut ledger);
        assert_eq!(found.len(), MOST_RUNS + 1);
        let (_, Observation::Stack(last)) = found.last().expect("a row") else {
            panic!("{found:?}");
        };
        assert_eq!(last.grown.0, 1000 - MOST_RUNS as u64);
        assert_eq!((last.frames.len(), last.native.len()), (1, 0));
    }
}
