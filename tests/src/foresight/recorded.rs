//! A recording, replayed through the live path of warnings: what would have been told, and how long before each kill for memory.

use std::{
    fs::File,
    io::copy,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use raytrace::{
    event::{Event, LimitName, LimitWarning, Observation},
    ids::BootTime,
    judge::{
        Judge,
        foresight::Foresight,
        report::{Death, Killer},
    },
    recording,
};

const SECOND_NS: i64 = 1_000_000_000;
/// So long after its act a death is told while recording.
const TOLD_NS: i64 = SECOND_NS;
/// A recorder looks at an idle machine too; what was asleep for longer than this is not looked at second by second.
const LONGEST_S: i64 = 3600;

/// Warnings, each with its time.
type Warnings = Vec<(BootTime, LimitWarning)>;

/// The killers that act at a limit of memory.
fn limit_of(death: &Death) -> Option<LimitName> {
    let cgroup = || death.memory.oom.as_ref()?.cgroup.clone();
    match death.verdict.killer {
        Killer::RayMemoryMonitor => Some(LimitName::RayMonitor),
        Killer::KernelOomMemcg => cgroup().map(LimitName::Cgroup),
        Killer::KernelOomGlobal => Some(LimitName::Machine),
        _ => None,
    }
}

/// The deaths by a limit of memory, and what is told of `events` where they are looked at once a second.
fn recorded(events: &[Event]) -> (Vec<Death>, Warnings) {
    let mut whole = Judge::default();
    for event in events {
        whole.observe(event);
    }
    let mut kills = whole.report().deaths;
    kills.retain(|death| limit_of(death).is_some());
    kills.sort_by_key(|death| death.when.act_time);
    let (mut judge, mut foresight, mut told) = (Judge::default(), Foresight::default(), Vec::new());
    let mut untold = kills.iter().peekable();
    let mut next: Option<BootTime> = None;
    for event in events {
        let mut look = next.unwrap_or(event.time);
        if event.time.since(look) > LONGEST_S * SECOND_NS {
            look = event.time;
        }
        while look <= event.time {
            while let Some(death) =
                untold.next_if(|death| death.when.act_time.plus(TOLD_NS) <= look)
            {
                foresight.died(death);
            }
            let near = foresight.look(look, &judge);
            told.extend(near.into_iter().map(|near| (look, near)));
            look = look.plus(SECOND_NS);
        }
        next = Some(look);
        judge.observe(event);
        if let Observation::Call(call) = &event.what {
            foresight.called(call);
        }
    }
    (kills, told)
}

/// What was told of a recording, a line each, and of each kill for memory how long before it.
pub fn of_file(file: &Path) -> Result<String> {
    let events = recording::read(file)?.events;
    let began = events.first().map_or(BootTime(0), |event| event.time);
    let seconds = |time: BootTime| time.since(began) as f64 / 1e9;
    let (kills, told) = recorded(&events);
    let mut text = String::new();
    for (time, near) in &told {
        let line = raytrace::show::near::sentence(near);
        text += &format!("{:.1} s: {line}\n", seconds(*time));
    }
    for death in &kills {
        text += &format!(
            "{:.1} s: {}\n",
            seconds(death.when.act_time),
            kill(death, &told)
        );
    }
    Ok(text)
}

/// How long before a kill the warning was told that stood then.
fn standing<'a>(death: &Death, told: &'a Warnings) -> Option<(f64, &'a LimitWarning)> {
    let limit = limit_of(death);
    let of_it = |row: &&(BootTime, LimitWarning)| {
        Some(&row.1.limit) == limit.as_ref() && row.0 <= death.when.act_time
    };
    let (time, near) = told.iter().rev().find(of_it)?;
    let lead = death.when.act_time.since(*time) as f64 / 1e9;
    near.within.map(|_| (lead, near))
}

fn kill(death: &Death, told: &Warnings) -> String {
    let Some((lead, near)) = standing(death, told) else {
        return "killed, not warned of".to_owned();
    };
    let within = near.within.map(raytrace::show::near::interval);
    let within = within.unwrap_or_default();
    format!("killed, warned of {lead:.0} s before ({within})")
}

/// The golden recordings as a table: kills for memory, and how long before each the warning was told that stood then.
pub fn golden() -> Result<String> {
    let mut text = "\n| golden recording | kills for memory | warned of | warnings in all |\n|---|---|---|---|\n"
        .to_owned();
    let folder = tempfile::tempdir()?;
    for file in unpacked(folder.path())? {
        let (kills, told) = recorded(&recording::read(&file)?.events);
        let leads = kills.iter().filter_map(|death| standing(death, &told));
        let leads: Vec<String> = leads.map(|(lead, _)| format!("{lead:.0} s")).collect();
        let warnings = told.iter().filter(|(_, near)| near.within.is_some());
        let name = file.file_stem().unwrap_or_default().display();
        text += &format!(
            "| {name} | {} | {} | {} |\n",
            kills.len(),
            leads.join(", "),
            warnings.count()
        );
    }
    Ok(text)
}

/// The golden recordings as files in `folder`.
fn unpacked(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in crate::staging::root().join("tests/golden").read_dir()? {
        let packed = entry?.path();
        let name = packed.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_suffix(".gz")) else {
            continue;
        };
        if !name.ends_with(".raytrace") {
            continue;
        }
        let file = folder.join(name);
        let mut from = GzDecoder::new(File::open(&packed)?);
        copy(&mut from, &mut File::create(&file)?).with_context(|| packed.display().to_string())?;
        files.push(file);
    }
    files.sort();
    Ok(files)
}
