//! Makes logs of Ray from pieces of real ones, in real proportions.
//!
//! There are a day of healthy nodes, jobs that follow one another, and deaths alone.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::template::{Gap, Part, Template};

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A day of healthy nodes: Ray prints its own statistics each minute, and a job of verl prints
    /// a line each 90 s.
    Day,
    /// Healthy jobs of verl that follow one another, ten steps each.
    Jobs,
    /// Kills by Ray and the kernel and what drivers say about them, with nothing in between.
    Deaths,
}

impl Kind {
    /// All kinds, in the order in which they are measured.
    pub(super) const ALL: [Self; 3] = [Self::Day, Self::Jobs, Self::Deaths];

    /// Returns its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Day => "a day of healthy nodes",
            Self::Jobs => "healthy jobs of ten steps",
            Self::Deaths => "nothing but deaths",
        }
    }
}

/// The pieces of which logs are made.
struct Templates {
    raylet_minute: Template,
    raylet_job: Template,
    raylet_kill: Template,
    gcs_minute: Template,
    gcs_job: Template,
    gcs_kill: Template,
    worker_start: Template,
    worker_minute: Template,
    worker_end: Template,
    driver_start: Template,
    driver_step: Template,
    driver_end: Template,
    actor_died: Template,
    kernel_kill: Template,
}

impl Templates {
    fn new() -> Self {
        Self {
            raylet_minute: Template::new(include_str!("raylet-minute.txt")),
            raylet_job: Template::new(include_str!("raylet-job.txt")),
            raylet_kill: Template::new(include_str!("raylet-kill.txt")),
            gcs_minute: Template::new(include_str!("gcs-minute.txt")),
            gcs_job: Template::new(include_str!("gcs-job.txt")),
            gcs_kill: Template::new(include_str!("gcs-kill.txt")),
            worker_start: Template::new(include_str!("worker-start.txt")),
            worker_minute: Template::new(include_str!("worker-minute.txt")),
            worker_end: Template::new(include_str!("worker-end.txt")),
            driver_start: Template::new(include_str!("driver-start.txt")),
            driver_step: Template::new(include_str!("driver-step.txt")),
            driver_end: Template::new(include_str!("driver-end.txt")),
            actor_died: Template::new(include_str!("actor-died.txt")),
            kernel_kill: Template::new(include_str!("kernel-kill.txt")),
        }
    }
}

/// Workers on a node.
const WORKERS: u64 = 10;
/// Minutes of a day.
const MINUTES: u64 = 24 * 60;
/// Time between two steps of training.
const STEP_MS: u64 = 90_000;
/// Steps of a short job.
const STEPS: u64 = 10;
const MINUTE_MS: u64 = 60_000;
/// Time between two deaths.
const DEATH_MS: u64 = 5_000;

/// Writes at least `bytes` of logs into a new folder, and returns how many bytes they are.
pub(super) fn write(kind: Kind, bytes: u64, folder: &Path) -> Result<u64> {
    std::fs::create_dir_all(folder)?;
    let templates = Templates::new();
    match kind {
        Kind::Day => days(&templates, bytes, folder),
        Kind::Jobs => jobs(&templates, bytes, folder),
        Kind::Deaths => deaths(&templates, bytes, folder),
    }
}

/// Writes a day for one node after the other. The last day is cut short if it would be too much.
fn days(of: &Templates, bytes: u64, folder: &Path) -> Result<u64> {
    let mut written = 0;
    let mut number = 0;
    while written < bytes {
        number += 1;
        let node = folder.join(format!("node-{number:02}"));
        std::fs::create_dir(&node)?;
        written += day(of, number, bytes - written, &node)?;
    }
    Ok(written)
}

fn day(of: &Templates, number: u64, room: u64, folder: &Path) -> Result<u64> {
    // Bytes of a minute: what the raylet, the GCS and the workers log.
    let minute = 21_800 + WORKERS * 3_100;
    let minutes = (room / minute).clamp(1, MINUTES);
    let mut written = 0;
    let mut raylet = Log::new(folder, "raylet.out", number)?;
    raylet.block(&of.raylet_job)?;
    let mut gcs = Log::new(folder, "gcs_server.out", number + 1)?;
    gcs.block(&of.gcs_job)?;
    for _ in 0..minutes {
        raylet.block(&of.raylet_minute)?.passes(MINUTE_MS);
        gcs.block(&of.gcs_minute)?.passes(MINUTE_MS);
    }
    written += raylet.end()? + gcs.end()?;
    for worker in 0..WORKERS {
        let mut log = Log::of_worker(folder, number * 100 + worker)?;
        log.block(&of.worker_start)?;
        for _ in 0..minutes {
            log.block(&of.worker_minute)?.passes(MINUTE_MS);
        }
        written += log.end()?;
    }
    let mut driver = Log::new(folder, "driver.log", number + 2)?;
    driver.block(&of.driver_start)?;
    for _ in 0..minutes * MINUTE_MS / STEP_MS {
        driver.block(&of.driver_step)?.passes(STEP_MS);
    }
    Ok(written + driver.end()?)
}

/// Writes one job after the other on one node, into the same four files.
fn jobs(of: &Templates, bytes: u64, folder: &Path) -> Result<u64> {
    let mut raylet = Log::new(folder, "raylet.out", 1)?;
    let mut gcs = Log::new(folder, "gcs_server.out", 2)?;
    let mut driver = Log::new(folder, "driver.log", 3)?;
    let mut worker = Log::of_worker(folder, 4)?;
    while raylet.bytes + gcs.bytes + driver.bytes + worker.bytes < bytes {
        raylet.block(&of.raylet_job)?.block(&of.raylet_minute)?;
        gcs.block(&of.gcs_job)?.block(&of.gcs_minute)?;
        driver.block(&of.driver_start)?;
        for _ in 0..STEPS {
            driver.block(&of.driver_step)?;
        }
        worker.block(&of.worker_start)?.block(&of.worker_minute)?;
        worker.block(&of.worker_end)?;
        for log in [&mut raylet, &mut gcs, &mut driver, &mut worker] {
            log.passes(MINUTE_MS);
        }
    }
    Ok(raylet.end()? + gcs.end()? + driver.end()? + worker.end()?)
}

/// Writes a quarter of each: Ray's kills by its raylet and by the GCS, what drivers print, and
/// kills by the kernel.
fn deaths(of: &Templates, bytes: u64, folder: &Path) -> Result<u64> {
    let files: [(&str, &[&Template]); 4] = [
        ("raylet.out", &[&of.raylet_kill]),
        ("gcs_server.out", &[&of.gcs_kill]),
        ("driver.log", &[&of.driver_end, &of.actor_died]),
        ("dmesg.txt", &[&of.kernel_kill]),
    ];
    let mut written = 0;
    for (number, (name, blocks)) in (1..).zip(files) {
        let mut log = Log::new(folder, name, number)?;
        while log.bytes < bytes / 4 {
            for block in blocks {
                log.block(block)?.passes(DEATH_MS);
            }
        }
        written += log.end()?;
    }
    Ok(written)
}

/// A file that is being written.
struct Log {
    out: BufWriter<File>,
    random: fastrand::Rng,
    /// Milliseconds since the first of the month.
    now_ms: u64,
    pid: u32,
    node: String,
    blocks: u64,
    bytes: u64,
    line: String,
}

impl Log {
    fn new(folder: &Path, name: &str, seed: u64) -> Result<Self> {
        Self::at(folder.join(name), fastrand::Rng::with_seed(seed))
    }

    /// Begins the log of a core worker, with the worker's id and pid in its name.
    fn of_worker(folder: &Path, seed: u64) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let pid = random.u32(10_000..30_000);
        let name = format!("python-core-worker-{}_{pid}.log", hex(&mut random, 56));
        let log = Self::at(folder.join(name), random)?;
        Ok(Self { pid, ..log })
    }

    fn at(path: PathBuf, mut random: fastrand::Rng) -> Result<Self> {
        Ok(Self {
            out: BufWriter::with_capacity(1 << 20, File::create(path)?),
            now_ms: 0,
            pid: random.u32(10_000..30_000),
            node: hex(&mut random, 56),
            random,
            blocks: 0,
            bytes: 0,
            line: String::new(),
        })
    }

    fn passes(&mut self, milliseconds: u64) -> &mut Self {
        self.now_ms += milliseconds;
        self
    }

    /// Writes the lines of a template.
    fn block(&mut self, template: &Template) -> Result<&mut Self> {
        self.blocks += 1;
        let victim = self.random.u32(10_000..4_000_000);
        let own = hex(&mut self.random, 56);
        self.line.clear();
        for part in &template.0 {
            let filled = match part {
                Part::Text(text) => {
                    self.line.push_str(text);
                    continue;
                }
                Part::Gap(Gap::Victim) => victim.to_string(),
                Part::Gap(Gap::Own) => own.clone(),
                Part::Gap(gap) => self.fill(*gap),
            };
            self.line.push_str(&filled);
        }
        self.out.write_all(self.line.as_bytes())?;
        self.bytes += self.line.len() as u64;
        Ok(self)
    }

    fn fill(&mut self, gap: Gap) -> String {
        match gap {
            Gap::Time => time(self.now_ms),
            Gap::Boot => format!("{:5}.{:03}115", self.now_ms / 1000, self.now_ms % 1000),
            Gap::Writer => self.pid.to_string(),
            Gap::Node => self.node.clone(),
            Gap::Worker | Gap::Own => hex(&mut self.random, 56),
            Gap::Actor => hex(&mut self.random, 32),
            Gap::Count => self.blocks.to_string(),
            Gap::Pid | Gap::Victim => self.random.u32(10_000..4_000_000).to_string(),
        }
    }

    /// Closes the file and returns its size in bytes.
    fn end(mut self) -> Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}

fn hex(random: &mut fastrand::Rng, digits: usize) -> String {
    let digit = |_| char::from(b"0123456789abcdef"[random.usize(..16)]);
    (0..digits).map(digit).collect()
}

/// Returns the time this many milliseconds after `2026-11-01 00:00:00,000`.
fn time(now_ms: u64) -> String {
    let seconds = now_ms / 1000;
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    let day = 1 + seconds / 86_400 % 28;
    let (second, millisecond) = (seconds % 60, now_ms % 1000);
    format!("2026-11-{day:02} {hour:02}:{minute:02}:{second:02},{millisecond:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_size_and_no_gaps() {
        for kind in Kind::ALL {
            let folder = tempfile::tempdir().expect("a folder");
            let written = write(kind, 300_000, folder.path()).expect("logs");
            assert!((300_000..900_000).contains(&written), "{kind:?}: {written}");
            let raylet = ["raylet.out", "node-01/raylet.out"];
            let text = raylet.iter().find_map(|name| {
                let read = std::fs::read_to_string(folder.path().join(name));
                read.ok()
            });
            let text = text.expect("a raylet's log");
            let line = text.lines().next().expect("a line");
            assert!(line.starts_with("[2026-11-01 00:00:00,000 I "), "{line}");
            assert!(!text.contains("%node%") && !text.contains("%self%"));
        }
    }

    #[test]
    fn times_follow_the_calendar() {
        assert_eq!(time(0), "2026-11-01 00:00:00,000");
        assert_eq!(time(90_061_007), "2026-11-02 01:01:01,007");
    }
}
