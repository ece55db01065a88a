//! Replays a recording through the live path of warnings, and gives the lead before each kill.

use std::{
    fs::File,
    io::copy,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use raytrace::{
    event::{Event, LimitOwner, LimitWarning, Observation},
    ids::BootTime,
    judge::{
        Judge,
        forecast::LimitForecaster,
        report::{Death, Killer},
    },
    recording,
};

const SECOND_NS: i64 = 1_000_000_000;
/// The recorder reports a death this long after its act.
const REPORTED_NS: i64 = SECOND_NS;
/// The longest gap between events that is replayed second by second. A recorder looks at an idle
/// machine too; a longer gap means that it was asleep.
const LONGEST_S: i64 = 3600;

/// Warnings, each with its time.
type Warnings = Vec<(BootTime, LimitWarning)>;

/// Returns the limit at which this death's killer acts, if it acts at one.
fn limit_of(death: &Death) -> Option<LimitOwner> {
    let cgroup = || death.memory.oom.as_ref()?.cgroup.clone();
    match death.verdict.killer {
        Killer::RayMemoryMonitor => Some(LimitOwner::RayMonitor),
        Killer::KernelOomMemcg => cgroup().map(LimitOwner::Cgroup),
        Killer::KernelOomGlobal => Some(LimitOwner::Machine),
        _ => None,
    }
}

/// Returns the deaths by a limit of memory, and the warnings that `events` give with one look a
/// second.
fn kills_and_warnings(events: &[Event]) -> (Vec<Death>, Warnings) {
    let mut whole = Judge::default();
    for event in events {
        whole.observe(event);
    }
    let mut kills = whole.report().deaths;
    kills.retain(|death| limit_of(death).is_some());
    kills.sort_by_key(|death| death.when.act_time);
    let (mut judge, mut forecaster, mut told) =
        (Judge::default(), LimitForecaster::default(), Vec::new());
    let mut unreported = kills.iter().peekable();
    let mut next: Option<BootTime> = None;
    for event in events {
        let mut look = next.unwrap_or(event.time);
        if event.time.since(look) > LONGEST_S * SECOND_NS {
            look = event.time;
        }
        while look <= event.time {
            while let Some(death) =
                unreported.next_if(|death| death.when.act_time.plus(REPORTED_NS) <= look)
            {
                forecaster.died(death);
            }
            let warning = forecaster.look(look, &judge);
            told.extend(warning.into_iter().map(|warning| (look, warning)));
            look = look.plus(SECOND_NS);
        }
        next = Some(look);
        judge.observe(event);
        if let Observation::Call(call) = &event.what {
            forecaster.called(call);
        }
    }
    (kills, told)
}

/// Returns the warnings of a recording, a line each, and for each kill for memory how long before
/// it was warned of.
pub fn of_file(file: &Path) -> Result<String> {
    let events = recording::read(file)?.events;
    let began = events.first().map_or(BootTime(0), |event| event.time);
    let seconds = |time: BootTime| time.since(began) as f64 / 1e9;
    let (kills, told) = kills_and_warnings(&events);
    let mut text = String::new();
    for (time, warning) in &told {
        let line = raytrace::show::limit_warning::sentence(warning);
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

/// Returns how long before a kill the active warning was given.
fn active_warning<'a>(death: &Death, told: &'a Warnings) -> Option<(f64, &'a LimitWarning)> {
    let limit = limit_of(death);
    let of_it = |row: &&(BootTime, LimitWarning)| {
        Some(&row.1.limit) == limit.as_ref() && row.0 <= death.when.act_time
    };
    let (time, warning) = told.iter().rev().find(of_it)?;
    let lead = death.when.act_time.since(*time) as f64 / 1e9;
    warning.within.map(|_| (lead, warning))
}

fn kill(death: &Death, told: &Warnings) -> String {
    let Some((lead, warning)) = active_warning(death, told) else {
        return "killed, not warned of".to_owned();
    };
    let within = warning.within.map(raytrace::show::limit_warning::interval);
    let within = within.unwrap_or_default();
    format!("killed, warned of {lead:.0} s before ({within})")
}

/// Returns a table of the golden recordings: their kills for memory, and how long before each the
/// active warning was given.
pub fn golden() -> Result<String> {
    let mut text = "\n| golden recording | kills for memory | warned of | warnings in all |\n|---|---|---|---|\n"
        .to_owned();
    let folder = tempfile::tempdir()?;
    for file in unpacked(folder.path())? {
        let (kills, told) = kills_and_warnings(&recording::read(&file)?.events);
        let leads = kills
            .iter()
            .filter_map(|death| active_warning(death, &told));
        let leads: Vec<String> = leads.map(|(lead, _)| format!("{lead:.0} s")).collect();
        let warnings = told.iter().filter(|(_, warning)| warning.within.is_some());
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

/// Unpacks the golden recordings into `folder`.
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
