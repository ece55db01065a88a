//! Interprets exceptions that say that a process is gone which the job itself had started.
//!
//! `concurrent.futures` (`process.py`, Python 3.8 to 3.14), `subprocess`, the `DataLoader` and
//! `multiprocessing` of torch (`utils/data/_utils/signal_handling.py`, `dataloader.py`,
//! `multiprocessing/spawn.py`), loky, and the engine core of vLLM 0.8 to 0.11
//! (`v1/engine/exceptions.py`, `v1/engine/utils.py`).

use crate::ids::Pid;

/// Exceptions that mean it, whatever they say.
const CLASSES: [&str; 6] = [
    "BrokenProcessPool",
    "TerminatedWorkerError",
    "ProcessExitedException",
    "ChildFailedError",
    "EngineDeadError",
    "SubprocException",
];
/// How `CalledProcessError` ends for a process that a signal killed: 137 is a shell's code for
/// SIGKILL.
const KILLED: [&str; 3] = [
    "died with <Signals.SIG",
    "non-zero exit status 137",
    "non-zero exit status -9",
];

/// Returns the pids that such an exception names, if it is one; many name none.
pub(crate) fn parse(class: &str, message: &str) -> Option<Vec<Pid>> {
    let class = class.rsplit('.').next().unwrap_or(class);
    if let Some(rest) = message.strip_prefix("DataLoader worker (pid") {
        let rest = rest.strip_prefix("(s)").unwrap_or(rest);
        let (pids, what) = rest.split_once(") ")?;
        let gone = what.starts_with("is killed by signal") || what.starts_with("exited");
        return gone.then(|| numbers(pids));
    }
    let known = CLASSES.contains(&class)
        || class == "CalledProcessError" && KILLED.iter().any(|words| message.contains(words))
        || message.starts_with("Engine core initialization failed");
    known.then(Vec::new)
}

/// Returns the numbers in ` 12` or ` 12, 13`.
fn numbers(text: &str) -> Vec<Pid> {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    words
        .filter_map(|word| word.parse().ok().map(Pid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_of_killed_children_are_known() {
        let none = Vec::new;
        for (class, message, pids) in [
            (
                "concurrent.futures.process.BrokenProcessPool",
                "A process in the process pool was terminated abruptly while the future was running or pending.",
                none(),
            ),
            (
                "RuntimeError",
                "DataLoader worker (pid 4711) is killed by signal: Killed. ",
                vec![Pid(4711)],
            ),
            (
                "RuntimeError",
                "DataLoader worker (pid(s) 7, 8) exited unexpectedly",
                vec![Pid(7), Pid(8)],
            ),
            (
                "subprocess.CalledProcessError",
                "Command '['tokenize']' died with <Signals.SIGKILL: 9>.",
                none(),
            ),
            (
                "subprocess.CalledProcessError",
                "Command 'g++ x.cc' returned non-zero exit status 137.",
                none(),
            ),
            (
                "torch.multiprocessing.spawn.ProcessExitedException",
                "process 0 terminated with signal SIGKILL",
                none(),
            ),
            (
                "RuntimeError",
                "Engine core initialization failed. See root cause above.",
                none(),
            ),
        ] {
            assert_eq!(parse(class, message), Some(pids), "{class}: {message}");
        }
    }

    #[test]
    fn other_errors_of_children_are_no_kills() {
        for (class, message) in [
            (
                "subprocess.CalledProcessError",
                "Command 'false' returned non-zero exit status 1.",
            ),
            ("RuntimeError", "DataLoader timed out after 5 seconds"),
            ("ValueError", "A process in the process pool"),
        ] {
            assert_eq!(parse(class, message), None, "{class}: {message}");
        }
    }
}
