//! What one process grew by under which stack, until it is written: runs of looks at one stack, in their order.

use crate::{
    event::{NativeFrame, Observation, PythonFrame, PythonStack},
    ids::{BootTime, Bytes, ProcessKey},
    observe::stacks::Stack,
};

/// Rows of one process in one second that have a stack; growth beyond has none, but where its line is that of the last.
const MOST_RUNS: usize = 64;

/// Memory that moved under one stack.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Grown {
    /// Private memory.
    pub(super) private: u64,
    /// The mapping that this is in.
    pub(super) mapping: Option<u32>,
    /// Shared memory.
    pub(super) shared: u64,
}

/// One row to be.
enum Run {
    Grew(BootTime, Stack, Grown),
    Freed(BootTime, Option<u32>, u64),
}

/// The runs that are not written yet.
#[derive(Default)]
pub(super) struct Ledger {
    runs: Vec<Run>,
    /// The last stack that was seen, whether its process grew or not.
    seen: Option<(BootTime, Stack)>,
    /// The frames that were written last.
    written: Option<(Vec<PythonFrame>, Vec<NativeFrame>)>,
}

/// A line that was over before it could be seen.
fn unseen() -> Stack {
    Stack {
        tid: None,
        running: false,
        frames: Vec::new(),
        native: Vec::new(),
    }
}

/// Whether two stacks are one as far as is known: not each look finds the native frames.
fn is_one(one: &Stack, other: &Stack) -> bool {
    let any_unknown = one.native.is_empty() || other.native.is_empty();
    one.frames == other.frames && (any_unknown || one.native == other.native)
}

impl Ledger {
    /// A stack was seen.
    pub(super) fn seen(&mut self, time: BootTime, stack: &Stack) {
        self.seen = Some((time, stack.clone()));
    }

    /// Growth under `stack`. `None` where it was over before it could be seen.
    pub(super) fn grew(&mut self, time: BootTime, stack: Option<Stack>, by: Grown) {
        let full = self.runs.len() >= MOST_RUNS;
        let mut stack = stack.unwrap_or_else(unseen);
        if full {
            stack.native.clear();
        }
        if self.joins(time, &stack, by) {
            return;
        }
        if full {
            stack = unseen();
        }
        if !full || !self.joins(time, &stack, by) {
            self.runs.push(Run::Grew(time, stack, by));
        }
    }

    /// Adds to the last run where that is of this stack.
    fn joins(&mut self, time: BootTime, stack: &Stack, by: Grown) -> bool {
        let Some(Run::Grew(last, known, grown)) = self.runs.last_mut() else {
            return false;
        };
        if !is_one(known, stack) || grown.mapping != by.mapping {
            return false;
        }
        *last = time;
        if known.native.is_empty() {
            known.native.clone_from(&stack.native);
        }
        grown.private += by.private;
        grown.shared += by.shared;
        true
    }

    /// Memory of a mapping, or of none, was given back.
    pub(super) fn freed(&mut self, time: BootTime, mapping: Option<u32>, bytes: u64) {
        match self.runs.last_mut() {
            Some(Run::Freed(last, of, freed)) if *of == mapping => {
                *last = time;
                *freed += bytes;
            }
            _ => self.runs.push(Run::Freed(time, mapping, bytes)),
        }
    }

    /// The rows, which are then no longer held.
    pub(super) fn rows(&mut self, process: ProcessKey) -> Vec<(BootTime, Observation)> {
        let mut runs = std::mem::take(&mut self.runs);
        if let Some((time, stack)) = self.seen.take() {
            runs.push(Run::Grew(time, stack, Grown::default()));
        }
        runs.into_iter().map(|run| self.row(process, run)).collect()
    }

    fn row(&mut self, process: ProcessKey, run: Run) -> (BootTime, Observation) {
        let (time, stack, grown) = match run {
            Run::Grew(time, stack, grown) => (time, stack, grown),
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
        let moved = grown.private > 0 || grown.shared > 0;
        let repeats = self.written.as_ref().is_some_and(|(frames, native)| {
            // A row without growth says where the thread is, which no native frame tells of.
            *frames == stack.frames && (*native == stack.native || !moved)
        });
        let what = Observation::Stack(PythonStack {
            process,
            tid: stack.tid,
            grown: Bytes(grown.private),
            shared: Bytes(grown.shared),
            mapping: grown.mapping,
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

    fn rows(ledger: &mut Ledger) -> Vec<(u64, Option<u32>, bool, usize)> {
        let rows = ledger.rows(ProcessKey::new(1, 1));
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

    #[test]
    fn looks_at_one_stack_are_one_row_and_what_was_given_back_is_another() {
        let mut ledger = Ledger::default();
        ledger.grew(BootTime(1), Some(stack(1)), by(5, None));
        ledger.grew(BootTime(2), Some(stack(1)), by(6, None));
        ledger.freed(BootTime(3), None, 11);
        ledger.grew(BootTime(4), Some(stack(1)), by(7, None));
        ledger.grew(BootTime(5), Some(stack(1)), by(8, Some(2)));
        ledger.grew(BootTime(6), Some(stack(2)), by(9, Some(2)));
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

    #[test]
    fn a_look_that_found_no_native_frames_is_of_the_stack_that_had_them() {
        let mut ledger = Ledger::default();
        let called = |function: &str| {
            let frame = NativeFrame {
                library: "libc.so.6".into(),
                function: Some(function.into()),
            };
            Stack {
                native: vec![frame],
                ..stack(1)
            }
        };
        ledger.grew(BootTime(1), Some(stack(1)), by(1, None));
        ledger.grew(BootTime(2), Some(called("malloc")), by(2, None));
        ledger.grew(BootTime(3), Some(stack(1)), by(4, None));
        ledger.grew(BootTime(4), Some(called("mmap")), by(8, None));
        ledger.grew(BootTime(5), Some(called("mmap")), by(8, Some(1)));
        ledger.seen(BootTime(6), &stack(1));
        let found = ledger.rows(ProcessKey::new(1, 1)).into_iter();
        let found = found.map(|(_, what)| match what {
            Observation::Stack(stack) => (
                stack.grown.0,
                stack.repeats,
                stack
                    .native
                    .first()
                    .and_then(|frame| frame.function.clone()),
            ),
            other => panic!("{other:?}"),
        });
        let name = |name: &str| Some(name.to_owned());
        let wanted = [
            (7, false, name("malloc")),
            (8, false, name("mmap")),
            (8, true, None),
            (0, true, None),
        ];
        assert_eq!(found.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn the_last_stack_is_told_without_any_growth() {
        let mut ledger = Ledger::default();
        ledger.grew(BootTime(1), Some(stack(1)), by(5, None));
        for time in 2..9 {
            ledger.seen(BootTime(time), &stack(1));
        }
        assert_eq!(rows(&mut ledger), [(5, None, false, 1), (0, None, true, 0)]);
    }

    #[test]
    fn a_loop_over_many_lines_writes_a_bounded_number_of_rows_and_blames_none_for_the_rest() {
        let mut ledger = Ledger::default();
        for line in 0..1000 {
            ledger.grew(BootTime(u64::from(line)), Some(stack(line)), by(1, None));
        }
        let found = rows(&mut ledger);
        assert_eq!(found.len(), MOST_RUNS + 1);
        assert_eq!(found.iter().map(|row| row.0).sum::<u64>(), 1000);
        let last = found.last().expect("a row");
        assert_eq!((last.0, last.3), (1000 - MOST_RUNS as u64, 0));
    }

    #[test]
    fn a_line_that_calls_into_many_functions_keeps_its_growth() {
        let mut ledger = Ledger::default();
        for number in 0..1000 {
            let called = NativeFrame {
                library: "lib.so".into(),
                function: Some(number.to_string()),
            };
            let native = vec![called];
            let stack = Stack { native, ..stack(1) };
            ledger.grew(BootTime(number), Some(stack), by(1, None));
        }
        let found = ledger.rows(ProcessKey::new(1, 1));
        assert_eq!(found.len(), MOST_RUNS);
        let (_, Observation::Stack(last)) = found.last().expect("a row") else {
            panic!("{found:?}");
        };
        assert_eq!(last.grown.0, 1000 - MOST_RUNS as u64 + 1);
        assert!(!last.frames.is_empty());
    }
}
