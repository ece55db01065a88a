//! Lists the memory kills of a recording, and whose processes they were.
//!
//!     cargo run --package raytrace --example memory_kills -- run.raytrace

use std::{error::Error, path::Path};

use raytrace::{judge, recording};

/// Returns a line for each memory kill: by whom, of which class or task, its pid and its job.
pub(crate) fn memory_kills(file: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let report = judge::judge(&recording::read(file)?.events);
    let kills = report.deaths.iter().filter(|death| death.is_memory_kill());
    Ok(kills
        .map(|death| {
            let (work, killer) = (&death.work, death.verdict.killer.name());
            let owner = work.actor_class.as_ref().or(work.task_name.as_ref());
            let owner = owner.map_or(death.process.comm.as_str(), |name| name);
            let job = work.job_id.as_ref().map_or("-".into(), ToString::to_string);
            format!("{killer} {owner} {} {job}", death.process.pid.0)
        })
        .collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("give me a recording")?;
    for line in memory_kills(Path::new(&file))? {
        println!("{line}");
    }
    Ok(())
}
