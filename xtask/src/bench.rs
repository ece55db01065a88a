//! `cargo xtask bench`: measures what recording costs.
//!
//! Costs are ratios of interleaved runs, beside a control that compares runs without a recorder.

mod attach;
mod cost;
mod day;
mod explain;
mod fleet;
mod forecast;
mod forked_processes;
mod idle;
mod job;
mod load;
mod many_processes;
mod observer_tool;
mod programs;
mod scale;
mod statistics;
mod steps;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
pub(crate) use forked_processes::Kind as Processes;
pub(crate) use load::Load;
use load::{Cost, LoadProcess};
pub(crate) use many_processes::run as many_processes;
use observer_tool::ObserverTool;
use statistics::Ratio;

use crate::{
    process::{interrupt, step},
    setup, test,
};

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Page faults, allocations and processes, beside the recorder.
    Loads,
    /// Page faults and allocations, beside the recorder as it is near a limit.
    Armed,
    /// Page faults, beside other tools.
    Tools,
    /// A job in Python, beside the recorder, memray and py-spy.
    Job,
    /// The time of each eBPF program.
    Programs,
    /// The recorder beside an idle cluster.
    Idle,
    /// The recorder beside many processes.
    ManyProcesses,
    /// The recorder beside 100 to 3,000 processes, by thread and by cause.
    Scale,
    /// The same beside up to 50 workers of Ray.
    ScaleRay,
    /// A training step of two ranks beside the recorder; needs no Ray.
    Steps,
    /// The recorder beside a full log folder.
    Attach,
    /// A report on the recording of a day.
    Report,
    /// A report on up to 1,000 recordings.
    Fleet,
    /// The verdict from logs of 1 GiB; needs no Ray.
    Explain,
    /// The forecast of kills for memory, scored; runs nothing but itself.
    Forecast,
}

/// Pairs of runs of each load, with and without the recorder.
const PAIRS: usize = 41;
/// Pairs for page faults, which are the noisiest.
const MANY: usize = 123;
/// Pairs with another tool, whose cost is far more than some percent.
const FEW: usize = 5;

/// Runs these parts, or all if none is named, and prints them in the form of
/// docs/development/performance.md.
///
/// It measures the release build, or the program that `RAYTRACE` names.
pub(crate) fn run(parts: &[Part]) -> Result<()> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    if [Part::Tools, Part::Job, Part::Idle].into_iter().any(wanted) {
        setup::for_bench()?;
    } else if parts.iter().any(|part| part.needs_ray()) {
        setup::for_demo()?;
    }
    let raytrace = match parts {
        [Part::Forecast] => PathBuf::new(),
        _ => test::program_to_measure()?,
    };
    let tables = [Part::Loads, Part::Armed, Part::Tools, Part::Job];
    if tables.into_iter().any(wanted) {
        println!(
            "| load | beside it | what | median | 95 % upper bound | upper bound of the control |\n|---|---|---|---|---|---|",
        );
    }
    let recorder = |load| (load, ObserverTool::Recorder);
    let armed = |load| (load, ObserverTool::ArmedRecorder);
    if wanted(Part::Loads) {
        loads(&raytrace, Load::ALL.map(recorder))?;
    }
    if wanted(Part::Armed) {
        loads(&raytrace, Load::OF_MEMORY.map(armed))?;
    }
    if wanted(Part::Tools) {
        let others = ObserverTool::OTHERS.into_iter();
        let others = others.filter(|tool| tool.is_installed());
        loads(&raytrace, others.map(|tool| (Load::PageFault, tool)))?;
    }
    if wanted(Part::Job) {
        print!("{}", job::measure(&raytrace)?);
    }
    for part in Part::value_variants() {
        if let Some((name, measure)) = part.table().filter(|_| wanted(*part)) {
            println!("{}", step(name, || measure(&raytrace))?);
        }
    }
    Ok(())
}

/// Makes a table. Gets the program that is measured.
type Measure = fn(&Path) -> Result<String>;

impl Part {
    fn needs_ray(self) -> bool {
        !matches!(self, Self::Forecast | Self::Explain)
    }

    /// Returns what it is called while it runs, and what makes its table, if it is a table of its
    /// own.
    fn table(self) -> Option<(&'static str, Measure)> {
        Some(match self {
            Self::Loads | Self::Armed | Self::Tools | Self::Job => return None,
            Self::Programs => ("time of each eBPF program", programs::measure),
            Self::Idle => ("an idle cluster of 50 workers, one minute", idle::measure),
            Self::ManyProcesses => (
                "200 processes of 80 threads, one minute",
                many_processes::measure,
            ),
            Self::Scale => ("100 to 3,000 processes", scale::processes),
            Self::ScaleRay => ("8 to 50 workers of Ray", scale::workers),
            Self::Steps => (
                "a training step beside a running and a stopped recorder",
                steps::measure,
            ),
            Self::Attach => ("full log folders", attach::measure),
            Self::Report => ("report on a day", day::measure),
            Self::Fleet => ("reports on 10 to 1,000 recordings", fleet::measure),
            Self::Explain => ("the verdict from logs", explain::measure),
            Self::Forecast => ("the forecast, scored", |_| forecast::measure()),
        })
    }
}

fn loads(raytrace: &Path, what: impl IntoIterator<Item = (Load, ObserverTool)>) -> Result<()> {
    for (load, tool) in what {
        let count = match (load, tool) {
            (Load::PageFault, ObserverTool::Recorder | ObserverTool::ArmedRecorder) => MANY,
            (_, ObserverTool::Recorder | ObserverTool::ArmedRecorder) => PAIRS,
            _ => FEW,
        };
        let name = format!(
            "{}: {count} runs with {} between {} without",
            load.name(),
            tool.name(),
            count + 1
        );
        print!("{}", step(&name, || pairs(load, tool, raytrace, count))?);
    }
    Ok(())
}

/// Measures one load with one tool beside it.
fn pairs(load: Load, tool: ObserverTool, raytrace: &Path, count: usize) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let mut served = LoadProcess::start(load)?;
    let rows = compare_runs(load.name(), tool.name(), count, |number| {
        let Some(number) = number else {
            return served.run();
        };
        let file = folder.path().join(format!("{number}.raytrace"));
        let mut beside = tool.start(raytrace, &file, served.pid())?;
        let cost = served.run();
        interrupt(&mut beside)?;
        let cost = cost?;
        anyhow::ensure!(file.exists(), "{} has recorded nothing", tool.name());
        Ok(cost)
    })?;
    served.end()?;
    Ok(rows)
}

/// Returns the rows of the table for `run`, which is given the number of a run with the tool, and
/// `None` for a run without it.
///
/// The runs alternate: off, on, off, on, … off. Each run with the tool is compared with the mean of
/// the runs right before and right after it. The control compares each run without the tool in the
/// same way. So a machine that becomes slower or faster affects all alike.
fn compare_runs(
    load: &str,
    tool: &str,
    count: usize,
    mut run: impl FnMut(Option<usize>) -> Result<Cost>,
) -> Result<String> {
    run(None).context("the first run, which is not counted")?;
    let (mut with, mut without) = (Vec::new(), vec![run(None)?]);
    for number in 0..count {
        with.push(run(Some(number))?);
        without.push(run(None)?);
    }
    let around = without.windows(2).map(|two| two[0].mean(two[1]));
    let on: Vec<(Cost, Cost)> = with.into_iter().zip(around).collect();
    let control: Vec<(Cost, Cost)> = without
        .windows(3)
        .map(|three| (three[1], three[0].mean(three[2])))
        .collect();
    let mut rows = String::new();
    for (what, of) in [
        ("CPU", (|cost: &Cost| cost.cpu) as fn(&Cost) -> f64),
        ("wall", |cost| cost.wall),
    ] {
        let ratio = |pairs: &[(Cost, Cost)]| {
            Ratio::of(pairs.iter().map(|(one, other)| of(one) / of(other)))
        };
        let (on, control) = (ratio(&on), ratio(&control));
        rows += &format!(
            "| {load} | {tool} | {what} | {:.3} | {:.3} | {:.3} |\n",
            on.median, on.upper, control.upper
        );
    }
    Ok(rows)
}
