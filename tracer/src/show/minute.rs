//! Renders the last minute before a death, as one line and as a table.
//!
//! The spaces of the table are no-break spaces, so that nothing wraps or collapses them.

use crate::{
    ids::Bytes,
    judge::report::LastMinute,
    show::{
        layout::LABEL,
        sanitize,
        size::{Unit, size},
        words,
        words::size_of_one,
    },
};

/// The moments of the line, in seconds before the death.
const LINE: [f64; 5] = [-60.0, -30.0, -10.0, -5.0, -1.0];
/// The moments of the table, in seconds before the death. The first ones are used, as many as have
/// room.
const TABLE: [f64; 8] = [0.0, -1.0, -10.0, -60.0, -5.0, -30.0, -2.0, -0.5];
/// The label of a row below the first.
pub(super) const ROW: &str = "";
/// Width of a name, in columns.
const NAME: usize = 28;
/// Width of a figure, in columns.
const FIGURE: usize = 7;
/// Minimum number of moments in a table.
const FEWEST: usize = 2;

/// Returns `private memory: 1.0 GiB at −30 s, …, 5.0 GiB at the end`, of the process that died.
/// Returns `None` if fewer than two of the moments were sampled.
pub(super) fn line(minute: &LastMinute) -> Option<String> {
    let figures = LINE.iter().filter_map(|moment| {
        let bytes = at(minute, &minute.victim_bytes, *moment)?;
        Some(format!("{} at {moment} s", size_of_one(bytes)))
    });
    let mut figures: Vec<String> = figures.collect();
    // Nothing is known before the first sample, and one figure shows no change.
    if figures.len() < 2 {
        return None;
    }
    let last = minute.victim_bytes.last().copied().flatten()?;
    figures.push(format!("{} at the end", size_of_one(last)));
    let figures = figures.join(", ").replace('-', "−");
    Some(format!("private memory: {figures}"))
}

/// Returns the rows of the table, then lines about what was mapped, for pages of `width` columns.
pub(super) fn table(minute: &LastMinute, width: usize) -> Vec<String> {
    let moments = moments(width);
    let unit = unit(minute);
    let head = moments.iter().map(|moment| format!("{moment} s"));
    let mut rows = vec![aligned(
        unit.name(),
        head.map(|cell| cell.replace('-', "−")),
    )];
    let mut row = |name: &str, figures: &[Option<Bytes>]| {
        if figures.iter().flatten().next().is_none() {
            return;
        }
        let cells = moments.iter().map(|moment| {
            let bytes = at(minute, figures, *moment);
            bytes.map_or_else(|| "·".to_owned(), |bytes| unit.figure(bytes))
        });
        rows.push(aligned(&sanitize::line(name, NAME - 1), cells));
    };
    row("this process", &minute.victim_bytes);
    for one in &minute.top {
        row(
            &format!("{} {}", words::class_of_title(&one.title, one.pid), one.pid),
            &one.private_bytes,
        );
    }
    row("shared memory", &minute.shared_memory_bytes);
    row("machine without cache", &minute.node_used_bytes);
    for limit in &minute.limits {
        row(
            &format!(
                "{} (limit {})",
                last_folder(&limit.cgroup),
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
        format!(
            "at −{:.2} s thread {} mapped {}{calls}",
            -one.seconds,
            one.tid,
            size(one.bytes)
        )
    });
    let mut counted: Vec<(String, u32)> = Vec::new();
    for text in mapped {
        match counted.last_mut() {
            Some((last, times)) if *last == text => *times += 1,
            _ => counted.push((text, 1)),
        }
    }
    rows.extend(counted.into_iter().map(|(text, times)| match times {
        1 => text,
        times => format!("{times} times: {text}"),
    }));
    rows
}

/// Returns the unit of all rows: that of the largest process.
fn unit(minute: &LastMinute) -> Unit {
    let tops = minute.top.iter().flat_map(|one| &one.private_bytes);
    let all = minute.victim_bytes.iter().chain(tops).flatten();
    Unit::of(all.max().copied().unwrap_or_default())
}

/// Returns the moments that have room, in order of time.
fn moments(width: usize) -> Vec<f64> {
    let room = width.saturating_sub(LABEL + NAME) / FIGURE;
    let mut moments = TABLE[..room.clamp(FEWEST, TABLE.len())].to_vec();
    moments.sort_by(f64::total_cmp);
    moments
}

/// Aligns a name and figures to columns.
fn aligned(name: &str, cells: impl Iterator<Item = String>) -> String {
    let gap = " ".repeat(NAME.saturating_sub(sanitize::columns(name)));
    let cells: Vec<String> = cells.map(|cell| format!("{cell:>FIGURE$}")).collect();
    format!("{name}{gap}{}", cells.concat()).replace(' ', "\u{a0}")
}

fn at(minute: &LastMinute, figures: &[Option<Bytes>], moment: f64) -> Option<Bytes> {
    let place = minute
        .seconds
        .iter()
        .position(|seconds| (seconds - moment).abs() < 1e-6)?;
    figures.get(place).copied().flatten()
}

/// Returns the last folder of a path. A row has little room, and the paths of a pod's cgroups begin
/// alike.
fn last_folder(path: &str) -> &str {
    let mut names = path.rsplit('/').filter(|name| !name.is_empty());
    names.next().unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Pid,
        judge::report::{MappedBefore, TopBefore},
        show::layout::Page,
    };

    #[test]
    fn last_minute_as_line_and_table() {
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
                "private memory: 1.0 GiB at −30 s, 2.0 GiB at −10 s, 3.0 GiB at −5 s, 4.0 GiB at −1 s, 5.0 GiB at the end"
            )
        );
        let shown = |width| table(&minute, width).join("\n").replace('\u{a0}', " ");
        insta::assert_snapshot!(shown(100), @r"
        GiB                           −60 s  −30 s  −10 s   −5 s   −2 s   −1 s −0.5 s    0 s
        this process                      ·    1.0    2.0    3.0      ·    4.0      ·    5.0
        python3 etl.py 9                  ·   11.0   12.0   13.0      ·   14.0      ·   15.0
        at −0.25 s thread 77 mapped 0.5 GiB
        ");
        insta::assert_snapshot!(shown(80), @r"
        GiB                           −60 s  −10 s   −5 s   −1 s    0 s
        this process                      ·    2.0    3.0    4.0    5.0
        python3 etl.py 9                  ·   12.0   13.0   14.0   15.0
        at −0.25 s thread 77 mapped 0.5 GiB
        ");
        for width in [80, 100] {
            let mut page = Page::new(width);
            for row in table(&minute, width) {
                page.fact("minute", &row);
            }
            let lines = page.finish().lines().count();
            assert_eq!(lines, table(&minute, width).len(), "a row is a line");
        }
        assert_eq!(line(&LastMinute::default()), None);
    }
}
