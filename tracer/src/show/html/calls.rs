//! Chooses the calls that the chart shows above the memory: those of the process that held most.

use super::units::milliseconds;
use crate::{
    judge::{report::Utc, timeline::Timeline},
    show::sanitize,
};

/// Maximum number of calls: more are narrower than a pixel.
const MAX_CALLS: usize = 2000;

/// A call: when it began and ended, in ms since the start of the page, and its method or task.
pub(super) type CallData = (i64, i64, String);

/// Returns the calls of the process of these timelines that held most at its peak. A call that was
/// cut off lasts until its process, or the recording, ended.
pub(super) fn of(timelines: &[(u32, &Timeline)], began: Utc) -> Vec<CallData> {
    let processes = timelines
        .iter()
        .flat_map(|(_, timeline)| timeline.processes.iter().map(|one| (one, timeline.ended)));
    let with_calls = processes.filter(|(process, _)| !process.calls.is_empty());
    let biggest = with_calls.max_by_key(|(process, _)| {
        let private = process.private.iter();
        private.map(|(_, bytes)| *bytes).max()
    });
    let Some((process, until)) = biggest else {
        return Vec::new();
    };
    let until = process.ended.unwrap_or(until);
    let since = |time: Utc| milliseconds(time) - milliseconds(began);
    let calls = process.calls.iter().take(MAX_CALLS);
    let told = calls.map(|call| {
        let task = call.task.rsplit('.').next().unwrap_or(&call.task);
        let ended = call.ended.unwrap_or(until);
        (since(call.began), since(ended), sanitize::name(task))
    });
    told.collect()
}
