//! Keeps native stacks of lines that asked for memory, until that memory is used.
//!
//! Naming their frames takes time, and many ranges are never filled: those of libraries. There is
//! room for few of them, and the largest ranges are kept.

use std::time::{Duration, Instant};

use raytrace_proc::growth_records::Native;

use crate::ids::ProcessKey;

/// How many are kept, of all processes together: 1 MiB.
const MOST: usize = 128;
/// How long each is kept.
const KEPT: Duration = Duration::from_secs(10);

/// The native stacks of all processes.
#[derive(Default)]
pub(super) struct UnnamedStacks(Vec<Unnamed>);

struct Unnamed {
    process: ProcessKey,
    mapping: u32,
    bytes: u64,
    since: Instant,
    native: Native,
}

impl UnnamedStacks {
    /// Keeps the stack with which a process asked for a mapping of so many bytes.
    pub(super) fn keep(
        &mut self,
        (process, mapping): (ProcessKey, u32),
        bytes: u64,
        native: Native,
        since: Instant,
    ) {
        self.0
            .retain(|one| since.saturating_duration_since(one.since) < KEPT);
        if self.0.len() >= MOST {
            let smallest = (0..self.0.len()).min_by_key(|at| self.0[*at].bytes);
            let smallest = smallest.filter(|at| self.0[*at].bytes < bytes);
            let Some(smallest) = smallest else { return };
            self.0.swap_remove(smallest);
        }
        self.0.push(Unnamed {
            process,
            mapping,
            bytes,
            since,
            native,
        });
    }

    /// Takes the stack with which a process asked for a mapping.
    pub(super) fn take(&mut self, process: ProcessKey, mapping: u32) -> Option<Native> {
        let mut all = self.0.iter();
        let at = all.position(|one| one.process == process && one.mapping == mapping)?;
        Some(self.0.swap_remove(at).native)
    }
}

#[cfg(test)]
mod tests {
    use raytrace_ebpf::records::REGISTERS;

    use super::*;

    fn native() -> Native {
        Native {
            registers: [0; REGISTERS],
            stack: Vec::new(),
        }
    }

    #[test]
    fn largest_and_newest_are_kept() {
        let (mut kept, now) = (UnnamedStacks::default(), Instant::now());
        let own = |mapping| (ProcessKey::new(1, 1), mapping);
        for mapping in 0..1000 {
            let bytes = if mapping == 7 { 1000 } else { 10 };
            kept.keep(own(mapping), bytes, native(), now);
        }
        kept.keep(own(1000), 20, native(), now);
        assert_eq!(kept.0.len(), MOST);
        assert!(kept.take(ProcessKey::new(2, 1), 7).is_none());
        for mapping in [7, 1000] {
            assert!(kept.take(own(mapping).0, mapping).is_some());
            assert!(kept.take(own(mapping).0, mapping).is_none());
        }
        kept.keep(own(2000), 1, native(), now + KEPT);
        assert_eq!(kept.0.len(), 1);
    }
}
