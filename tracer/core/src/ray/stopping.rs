//! How Ray's own tools end processes: which signals they send, to whom, in which order.
//!
//! Who sent a signal does not say what for: a driver that shuts its Ray down is the process that
//! also runs the job's code. Only an act of the form below is Ray's.
//!
//! | tool | signals | order | source |
//! |---|---|---|---|
//! | `ray.shutdown()`, exit of a driver that started its Ray | SIGTERM; SIGKILL after 1 s | raylet, GCS, the rest | `kill_all_processes(allow_graceful=True)`, `python/ray/_private/node.py`, `worker.py`: 2.9.3, 2.51.1, 2.60.0 |
//! | `ray start --block` | SIGKILL; SIGTERM as above when it ends itself | raylet, GCS, the rest | `start`, `python/ray/scripts/scripts.py`: 2.9.3, 2.51.1, 2.60.0 |
//! | `ray stop` | SIGTERM, then SIGKILL after the grace period; SIGKILL with `--force` | raylet, the rest, GCS | `stop`, `python/ray/scripts/scripts.py`: 2.9.3, 2.51.1, 2.60.0 |
//! | `ray job stop` | SIGTERM (or `RAY_JOB_STOP_SIGNAL`), then SIGKILL | the driver and its children | `python/ray/dashboard/modules/job/job_supervisor.py`: 2.9.3 (`job_manager.py`), 2.51.1, 2.60.0 |

use libc::{SIGKILL, SIGTERM};

/// The signals by which any of Ray's tools ends a process.
pub(crate) const SIGNALS: [i32; 2] = [SIGTERM, SIGKILL];

/// The signal by which `ray.shutdown()` asks each process to end.
pub(crate) const SHUTDOWN_ASKS: i32 = SIGTERM;
/// `ray.shutdown()` kills a process that has not ended after this time, ns. It is a little less
/// than the second that Ray waits, because waiting begins after the signal was sent.
const SHUTDOWN_WAITS: i64 = 900_000_000;

/// Returns whether `ray.shutdown()` may send this signal to a process that it asked `waited` ns
/// before.
pub(crate) fn may_be_of_shutdown(signal: i32, waited: i64) -> bool {
    signal == SHUTDOWN_ASKS || signal == SIGKILL && waited >= SHUTDOWN_WAITS
}
