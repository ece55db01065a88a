//! Formats a warning as one line: when a limit is hit, what grows, and the likely victim.

use std::time::Duration;

use crate::{
    event::{ForecastProcess, LimitWarning, Within},
    ids::Bytes,
    judge::report::Utc,
    show::{live::duration, sanitize, size::size, time::Zone, words},
};

/// Returns the line of a warning: `08:39:40.000Z WARNING Ray's monitor: 465.0 GiB of 493.5 GiB,
/// reached in 60 s to 110 s (TaskRunner +1.9 GiB in 40 s); likely victim: compute_score; save
/// within 60 s`.
///
/// When the warning is over, the line is `07:12:58.000Z over: TaskRunner gave back 31.0 GiB; 58.0
/// GiB left at Ray's monitor`.
pub fn line(time: Option<Utc>, warning: &LimitWarning, zone: &Zone) -> String {
    let time = time.map_or_else(|| "time unknown".to_owned(), |time| zone.clock(time));
    format!("{time} {}", sentence(warning))
}

/// Returns the same without its time.
pub fn sentence(warning: &LimitWarning) -> String {
    let who = words::who_kills(&warning.limit);
    let Some(within) = warning.within else {
        let left = Bytes(warning.at.0.saturating_sub(warning.used.0));
        let grower = warning.grower.as_ref();
        let why = grower.map_or_else(
            || "what grew has ended".to_owned(),
            |grower| format!("{} gave back {}", name(grower), size(grower.moved)),
        );
        return format!("over: {why}; {} left at {who}", size(left));
    };
    let victim = warning.victim.as_ref();
    let victim = victim.map_or_else(String::new, |victim| {
        format!("; likely victim: {}", name(victim))
    });
    format!(
        "WARNING {who}: {} of {}, reached in {}{}{victim}; {}",
        size(warning.used),
        size(warning.at),
        interval(within),
        grower(warning),
        action(warning, within)
    )
}

/// Returns what can still be done without a restart: run fewer tasks at once if tasks grow, else
/// save before the limit is hit.
fn action(warning: &LimitWarning, within: Within) -> String {
    let save = match within.soonest_ms {
        ..1000 => "save now".to_owned(),
        soonest => format!("save within {}", duration(Duration::from_millis(soonest))),
    };
    let tasks = warning.grower.as_ref().filter(|_| warning.at_once > 1);
    tasks.map_or_else(
        || save.clone(),
        |task| {
            let (count, task) = (warning.at_once, name(task));
            format!("{count} of {task} grow at once: run fewer, or {save}")
        },
    )
}

/// `60 s to 110 s`.
pub fn interval(within: Within) -> String {
    let told = |ms| duration(Duration::from_millis(ms));
    format!("{} to {}", told(within.soonest_ms), told(within.latest_ms))
}

fn grower(warning: &LimitWarning) -> String {
    let Some(grower) = &warning.grower else {
        return String::new();
    };
    let call = grower.call.as_deref();
    let call = call.map_or_else(String::new, |call| format!(", in {}", sanitize::name(call)));
    let seen = duration(Duration::from_millis(warning.seen_ms));
    format!(
        " ({} +{} in {seen}{call})",
        name(grower),
        size(grower.moved)
    )
}

fn name(process: &ForecastProcess) -> String {
    sanitize::name(&process.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::LimitOwner, ids::ProcessKey, show::sample};

    fn warning(within: Option<Within>) -> LimitWarning {
        let process = |name: &str, moved: u64| ForecastProcess {
            process: ProcessKey::new(7, 0),
            name: name.into(),
            call: None,
            moved: Bytes(moved << 30),
        };
        LimitWarning {
            limit: LimitOwner::RayMonitor,
            at: Bytes(493 << 30),
            used: Bytes(465 << 30),
            within,
            grower: Some(process("TaskRunner", 31)),
            victim: Some(process("compute_score\u{1b}[2J", 0)),
            seen_ms: 40_000,
            at_once: 0,
        }
    }

    #[test]
    fn warning_and_end_are_one_line() {
        let within = Within {
            soonest_ms: 60_000,
            latest_ms: 110_000,
        };
        let time = Some(sample::at(0));
        let told = line(time, &warning(Some(within)), &Zone::default());
        let expected = "WARNING Ray's monitor: 465.0 GiB of 493.0 GiB, reached in 60 s to 110 s (TaskRunner +31.0 GiB in 40 s); likely victim: compute_score";
        assert!(told.contains(expected), "{told}");
        assert!(told.ends_with("; save within 60 s"), "{told}");
        assert!(told.chars().all(sanitize::is_harmless), "{told:?}");
        let tasks = LimitWarning {
            at_once: 12,
            ..warning(Some(Within {
                soonest_ms: 900,
                ..within
            }))
        };
        let told = line(time, &tasks, &Zone::default());
        let expected = "; 12 of TaskRunner grow at once: run fewer, or save now";
        assert!(told.ends_with(expected), "{told}");
        let told = line(time, &warning(None), &Zone::default());
        let expected = "over: TaskRunner gave back 31.0 GiB; 28.0 GiB left at Ray's monitor";
        assert!(told.contains(expected), "{told}");
    }
}
