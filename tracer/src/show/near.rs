//! What was foreseen of a limit, in one line: when it is met, whose growth it is, whom the killer would take.

use std::time::Duration;

use crate::{
    event::{LimitName, LimitWarning, NearProcess, Within},
    ids::Bytes,
    judge::{killers::Who, report::Utc},
    show::{live::duration, sanitize, size::size, time::Zone, words},
};

/// `08:39:40.000Z NEAR Ray's monitor: 465.0 GiB of 493.5 GiB, reached in 60 s to 110 s (TaskRunner +1.9 GiB in 40 s); likely victim: compute_score; save within 60 s`,
/// and where it passes `07:12:58.000Z over: TaskRunner gave back 31.0 GiB; 58.0 GiB left at Ray's monitor`.
#[must_use]
pub fn line(time: Option<Utc>, near: &LimitWarning, zone: &Zone) -> String {
    let time = time.map_or_else(|| "time unknown".to_owned(), |time| zone.clock(time));
    format!("{time} {}", sentence(near))
}

/// The same without its time.
#[must_use]
pub fn sentence(near: &LimitWarning) -> String {
    let who = words::who_kills(&who(near));
    let Some(within) = near.within else {
        let left = Bytes(near.at.0.saturating_sub(near.used.0));
        let doer = near.doer.as_ref();
        let why = doer.map_or_else(
            || "what grew has ended".to_owned(),
            |doer| format!("{} gave back {}", name(doer), size(doer.moved)),
        );
        return format!("over: {why}; {} left at {who}", size(left));
    };
    let victim = near.victim.as_ref();
    let victim = victim.map_or_else(String::new, |victim| {
        format!("; likely victim: {}", name(victim))
    });
    format!(
        "NEAR {who}: {} of {}, reached in {}{}{victim}; {}",
        size(near.used),
        size(near.at),
        interval(within),
        doer(near),
        lever(near, within)
    )
}

/// What can still be done without a restart: fewer tasks at the same time, where it is tasks that grow; else a save before the limit is met.
fn lever(near: &LimitWarning, within: Within) -> String {
    let save = match within.soonest_ms {
        ..1000 => "save now".to_owned(),
        soonest => format!("save within {}", duration(Duration::from_millis(soonest))),
    };
    let tasks = near.doer.as_ref().filter(|_| near.at_once > 1);
    tasks.map_or_else(
        || save.clone(),
        |task| {
            let (count, task) = (near.at_once, name(task));
            format!("{count} of {task} grow at once: run fewer, or {save}")
        },
    )
}

/// Who kills at its limit.
#[must_use]
pub fn who(near: &LimitWarning) -> Who {
    match &near.limit {
        LimitName::RayMonitor => Who::RayMonitor,
        LimitName::Cgroup(path) => Who::Cgroup(path.clone()),
        LimitName::Machine => Who::Machine,
    }
}

/// `60 s to 110 s`.
#[must_use]
pub fn interval(within: Within) -> String {
    let told = |ms| duration(Duration::from_millis(ms));
    format!("{} to {}", told(within.soonest_ms), told(within.latest_ms))
}

fn doer(near: &LimitWarning) -> String {
    let Some(doer) = &near.doer else {
        return String::new();
    };
    let call = doer.call.as_deref();
    let call = call.map_or_else(String::new, |call| format!(", in {}", sanitize::name(call)));
    let seen = duration(Duration::from_millis(near.seen_ms));
    format!(" ({} +{} in {seen}{call})", name(doer), size(doer.moved))
}

fn name(process: &NearProcess) -> String {
    sanitize::name(&process.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::ProcessKey, show::sample};

    fn near(within: Option<Within>) -> LimitWarning {
        let process = |name: &str, moved: u64| NearProcess {
            process: ProcessKey::new(7, 0),
            name: name.into(),
            call: None,
            moved: Bytes(moved << 30),
        };
        LimitWarning {
            limit: LimitName::RayMonitor,
            at: Bytes(493 << 30),
            used: Bytes(465 << 30),
            within,
            doer: Some(process("TaskRunner", 31)),
            victim: Some(process("compute_score\u{1b}[2J", 0)),
            seen_ms: 40_000,
            at_once: 0,
        }
    }

    #[test]
    fn a_warning_is_one_line_and_so_is_its_end() {
        let within = Within {
            soonest_ms: 60_000,
            latest_ms: 110_000,
        };
        let time = Some(sample::at(0));
        let told = line(time, &near(Some(within)), &Zone::default());
        let expected = "NEAR Ray's monitor: 465.0 GiB of 493.0 GiB, reached in 60 s to 110 s (TaskRunner +31.0 GiB in 40 s); likely victim: compute_score";
        assert!(told.contains(expected), "{told}");
        assert!(told.ends_with("; save within 60 s"), "{told}");
        assert!(told.chars().all(sanitize::is_harmless), "{told:?}");
        let tasks = LimitWarning {
            at_once: 12,
            ..near(Some(Within {
                soonest_ms: 900,
                ..within
            }))
        };
        let told = line(time, &tasks, &Zone::default());
        let expected = "; 12 of TaskRunner grow at once: run fewer, or save now";
        assert!(told.ends_with(expected), "{told}");
        let told = line(time, &near(None), &Zone::default());
        let expected = "over: TaskRunner gave back 31.0 GiB; 28.0 GiB left at Ray's monitor";
        assert!(told.contains(expected), "{told}");
    }
}
