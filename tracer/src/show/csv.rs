//! Writes the memory series as CSV: a row for each sample of a process, a cgroup or the machine.

use std::{collections::HashMap, convert::Infallible};

use crate::{
    event::{Event, Figures, Observation},
    ids::ProcessKey,
    judge::report::Utc,
    show::sanitize,
};

/// The first row. Sizes are in bytes. Columns that do not apply to a scope are empty.
pub const HEADER: &str = "time,boot_ns,scope,pid,start_ns,name,anon,file,shmem,swap,peak,usage,limit,total,available,kernel,stalled_us,own";

/// How many columns of [`HEADER`] come before the figures.
const KEYS: usize = 6;

/// Returns the row of a memory event at the wall time `wall`, or `None` for an event of another
/// kind. `name` returns the name of a process.
pub fn row(
    event: &Event,
    wall: Option<Utc>,
    name: impl Fn(ProcessKey) -> String,
) -> Option<String> {
    let (scope, process, name, figures) = match &event.what {
        Observation::Memory(sample) => {
            let process = sample.process;
            (
                "process",
                Some(process),
                name(process),
                figures(&sample.memory),
            )
        }
        Observation::Cgroup(state) => {
            let path = sanitize::line(&state.path, sanitize::LONGEST);
            ("cgroup", None, path, figures(state))
        }
        Observation::Node(node) => ("node", None, String::new(), figures(node)),
        _ => return None,
    };
    let time = wall.map_or_else(String::new, |wall| format!("{:.6}", wall.0.timestamp()));
    let (pid, start) = process.map_or_else(Default::default, |process| {
        (process.pid.to_string(), process.start.0.to_string())
    });
    let name = quoted(&name);
    Some(format!(
        "{time},{},{scope},{pid},{start},{name},{figures}",
        event.time.0
    ))
}

/// Returns the columns of a sample's figures.
fn figures(sample: &impl Figures) -> String {
    let mut known = HashMap::new();
    let _ = sample.each(|column, figure| {
        let name = match column {
            "max" => "limit",
            "swap_used" => "swap",
            column => column,
        };
        known.insert(name, figure);
        Ok::<(), Infallible>(())
    });
    let columns = HEADER.split(',').skip(KEYS);
    let figures = columns.map(|name| known.get(name).copied().flatten());
    let figures = figures.map(|figure| figure.map_or_else(String::new, |it| it.to_string()));
    figures.collect::<Vec<_>>().join(",")
}

/// Quotes a field as RFC 4180 asks. A name that a spreadsheet would take for a formula gets a `'`
/// in front.
pub fn quoted(name: &str) -> String {
    let formula = name.starts_with(['=', '+', '-', '@']);
    let name = if formula {
        format!("'{name}")
    } else {
        name.to_owned()
    };
    if name.contains([',', '"', '\n', '\r']) || formula {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{CgroupState, MemorySplit, ProcessMemory, Source},
        ids::{BootTime, Bytes, EventId, WallTime},
    };

    fn shown(what: Observation, name: &str) -> Option<String> {
        let event = Event {
            id: EventId(1),
            time: BootTime(9),
            source: Source::Proc,
            what,
        };
        let wall = Utc(WallTime(1_795_161_600_000_000_000));
        row(&event, Some(wall), |_| name.to_owned())
    }

    #[test]
    fn rows_have_the_columns_of_the_header() {
        let memory = MemorySplit {
            anon: Some(Bytes(5)),
            ..MemorySplit::default()
        };
        let sample = ProcessMemory {
            process: ProcessKey::new(7, 3),
            memory,
        };
        let row = shown(Observation::Memory(sample), "hog").expect("a row");
        assert_eq!(
            row,
            "2026-11-20T08:00:00.000000Z,9,process,7,3,hog,5,,,,,,,,,,,"
        );
        assert_eq!(row.matches(',').count(), HEADER.matches(',').count());
        assert_eq!(shown(Observation::RecordingEnded, ""), None);
    }

    #[test]
    fn name_is_no_formula_and_one_field() {
        let memory = MemorySplit::default();
        let sample = ProcessMemory {
            process: ProcessKey::new(7, 3),
            memory,
        };
        let row = shown(Observation::Memory(sample), "=A1,\"x\"").expect("a row");
        assert!(row.contains(",\"'=A1,\"\"x\"\"\","), "{row}");
        let path = "/job\u{202e}\n".to_owned();
        let state = CgroupState {
            path,
            usage: Bytes(1),
            ..CgroupState::default()
        };
        let row = shown(Observation::Cgroup(state), "").expect("a row");
        assert!(row.contains(",/job\\u{202e},"), "{row}");
    }
}
