//! The last minute before a death, as one line and as a table.

use crate::{
    ids::Bytes,
    judge::report::LastMinute,
    show::{sanitize, size::size, words},
};

/// The moments of the line, in seconds before the death.
const LINE: [f64; 5] = [-60.0, -30.0, -10.0, -5.0, -1.0];
/// And those of the table.
const TABLE: [f64; 8] = [-60.0, -30.0, -10.0, -5.0, -2.0, -1.0, -0.5, 0.0];

/// `0.4 GiB 60 s before, …`: the private memory of the process that died; `None` where it was not sampled.
pub(super) fn line(minute: &LastMinute) -> Option<String> {
    let figures = LINE.iter().filter_map(|moment| {
        let bytes = at(minute, &minute.victim_bytes, *moment)?;
        Some(format!("{} at {moment} s", size(bytes)))
    });
    let mut figures: Vec<String> = figures.collect();
    // Before its first sample nothing is known, and one figure is no course.
    if figures.len() < 2 {
        return None;
    }
    let last = minute.victim_bytes.last().copied().flatten()?;
    figures.push(format!("{} at the end", size(last)));
    Some(format!(
        "{} of private memory",
        figures.join(", ").replace('-', "−")
    ))
}

/// A row a thing, then what was mapped.
pub(super) fn table(minute: &LastMinute) -> Vec<String> {
    let head: Vec<String> = TABLE
        .iter()
        .map(|moment| format!("{:>9}", format!("{moment} s").replace('-', "−")))
        .collect();
    let mut rows = vec![format!("{:<28}{}", "", head.concat())];
    let mut row = |name: &str, figures: &[Option<Bytes>]| {
        if figures.iter().all(Option::is_none) {
            return;
        }
        let cells: Vec<String> = TABLE
            .iter()
            .map(|moment| at(minute, figures, *moment).map_or_else(|| "·".to_owned(), size))
            .map(|cell| format!("{cell:>9}"))
            .collect();
        rows.push(format!(
            "{:<28}{}",
            sanitize::line(name, 27),
            cells.concat()
        ));
    };
    row("this process", &minute.victim_bytes);
    for one in &minute.top {
        row(
            &format!("{} {}", words::class_of_title(&one.title, one.pid), one.pid),
            &one.private_bytes,
        );
    }
    row("shared memory", &minute.shared_memory_bytes);
    row("the machine", &minute.node_used_bytes);
    for limit in &minute.limits {
        row(
            &format!(
                "{} of {}",
                words::cgroup(&limit.cgroup),
                size(limit.limit_bytes)
            ),
            &limit.usage_bytes,
        );
    }
    let mapped = minute.mapped.iter().rev().take(5).map(|one| {
        let calls = if one.calls > 1 {
            format!(" in {} calls", one.calls)
        } else {
            String::new()
        };
        let before = format!("{:.2} s", -one.seconds);
        format!(
            "thread {} mapped {}{calls}, {before} before",
            one.tid,
            size(one.bytes)
        )
    });
    rows.extend(mapped);
    rows
}

fn at(minute: &LastMinute, figures: &[Option<Bytes>], moment: f64) -> Option<Bytes> {
    let place = minute
        .seconds
        .iter()
        .position(|seconds| (seconds - moment).abs() < 1e-6)?;
    figures.get(place).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Pid,
        judge::report::{MappedBefore, TopBefore},
    };

    #[test]
    fn the_course_of_the_last_minute_is_a_line_and_a_table() {
        let seconds = vec![-60.0, -30.0, -10.0, -5.0, -1.0, 0.0];
        let series = |from: u64| {
            (0..6)
                .map(|at| (at > 0).then_some(Bytes((from + at) << 30)))
                .collect::<Vec<_>>()
        };
        let minute = LastMinute {
            seconds,
            victim_bytes: series(0),
            top: vec![TopBefore {
                pid: Pid(9),
                title: "python3 etl.py".into(),
                private_bytes: series(10),
            }],
            mapped: vec![MappedBefore {
                seconds: -0.25,
                tid: Pid(77),
                bytes: Bytes(512 << 20),
                calls: 1,
            }],
            ..LastMinute::default()
        };
        assert_eq!(
            line(&minute).as_deref(),
            Some(
                "1.0 GiB at −30 s, 2.0 GiB at −10 s, 3.0 GiB at −5 s, 4.0 GiB at −1 s, 5.0 GiB at the end of private memory"
            )
        );
        let shown = table(&minute).join("\n");
        assert!(
            shown.contains("thread 77 mapped 0.5 GiB, 0.25 s before"),
            "{shown}"
        );
        assert!(shown.contains("etl.py"), "{shown}");
        assert_eq!(line(&LastMinute::default()), None);
    }
}
