//! The stage: children that wait for a cue, cgroups, and the record of who died how.

use std::{
    fs::{self, File},
    io::Write as _,
    ops::RangeInclusive,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::cases::CASES;

/// Stages every case. A case that does not work is written down as failed.
pub(crate) fn run(truth: &Path) -> Result<()> {
    // Keeps the OOM killer from choosing the stage instead of what is staged.
    fs::write("/proc/self/oom_score_adj", "-900")?;
    let mut stage = Stage::new(truth)?;
    for (label, case) in CASES {
        let began = Instant::now();
        if let Err(error) = case(&mut stage, label) {
            let why = format!("{error:#}");
            stage.write(&json!({"kind": "failed", "label": label, "why": why}))?;
        }
        println!("{label}: {:.1} s", began.elapsed().as_secs_f64());
    }
    stage.recorder()
}

/// The longest wait. Nothing that is staged takes longer, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// The file of the truth.
pub(crate) struct Stage {
    truth: File,
}

/// A process that waits for its cue.
pub(crate) struct Actor {
    child: Child,
    pub(crate) pid: u32,
    start_ticks: u64,
}

/// A memory cgroup.
pub(crate) struct Cgroup(PathBuf);

impl Stage {
    /// Writes down when the machine booted. What is staged follows.
    pub(crate) fn new(truth: &Path) -> Result<Self> {
        let mut stage = Self {
            truth: File::create(truth)?,
        };
        let seconds = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        let boot = seconds(ClockId::Realtime) - seconds(ClockId::Boottime);
        stage.write(&json!({"kind": "boot", "seconds": boot}))?;
        Ok(stage)
    }

    fn write(&mut self, row: &Value) -> Result<()> {
        Ok(writeln!(self.truth, "{row}")?)
    }

    /// Writes down that `who` is about to die of `killer`. `fields` are what its death must have.
    pub(crate) fn death(
        &mut self,
        label: &str,
        who: &Actor,
        killer: &str,
        fields: &Value,
    ) -> Result<()> {
        self.death_of(label, who.pid, who.start_ticks, killer, fields)
    }

    /// Does the same as [`Stage::death`] for a process that another process started.
    pub(crate) fn death_of(
        &mut self,
        label: &str,
        pid: u32,
        start_ticks: u64,
        killer: &str,
        fields: &Value,
    ) -> Result<()> {
        let mut row = json!({
            "kind": "death", "label": label, "pid": pid, "start_ticks": start_ticks,
            "killer": [killer], "certainty": "proven",
        });
        let (Some(row_fields), Some(fields)) = (row.as_object_mut(), fields.as_object()) else {
            bail!("{label}: the fields are no object");
        };
        row_fields.extend(fields.clone());
        self.write(&row)
    }

    /// Writes down the recorder's own OOM score adjustment and peak memory at the end.
    fn recorder(&mut self) -> Result<()> {
        let parent = std::os::unix::process::parent_id();
        let adj = fs::read_to_string(format!("/proc/{parent}/oom_score_adj"))?;
        let status = fs::read_to_string(format!("/proc/{parent}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        self.write(&json!({
            "kind": "recorder",
            "oom_score_adj": adj.trim().parse::<i32>()?,
            "peak": peak.unwrap_or_default().trim(),
        }))
    }
}

impl Actor {
    /// Starts `guest act …`, which waits for its cue. It is the OOM killer's first choice.
    pub(crate) fn start(act: &[&str], cgroup: Option<&Cgroup>) -> Result<Self> {
        let child = Command::new("/init")
            .arg("act")
            .args(act)
            .stdin(Stdio::piped())
            .spawn()?;
        let pid = child.id();
        fs::write(format!("/proc/{pid}/oom_score_adj"), "1000")?;
        if let Some(cgroup) = cgroup {
            fs::write(cgroup.0.join("cgroup.procs"), pid.to_string())?;
        }
        let start_ticks = start_ticks(pid)?;
        Ok(Self {
            child,
            pid,
            start_ticks,
        })
    }

    /// Gives the cue.
    pub(crate) fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no stdin")?;
        Ok(input.write_all(b"\n")?)
    }

    /// Waits until the process has this much memory.
    pub(crate) fn holds(&self, mib: u64) -> Result<()> {
        self.wait_for("RssAnon:", |value| {
            value
                .trim_end_matches(" kB")
                .parse::<u64>()
                .is_ok_and(|kib| kib >= mib << 10)
        })
    }

    /// Waits until the kernel writes a core dump of the process.
    pub(crate) fn dumps_core(&self) -> Result<()> {
        self.wait_for("CoreDumping:", |value| value == "1")
    }

    fn wait_for(&self, field: &str, is_so: impl Fn(&str) -> bool) -> Result<()> {
        let path = format!("/proc/{}/status", self.pid);
        until(&format!("{field} of pid {}", self.pid), || {
            let status = fs::read_to_string(&path).unwrap_or_default();
            let mut lines = status.lines().filter_map(|line| line.strip_prefix(field));
            lines.any(|value| is_so(value.trim()))
        })
    }

    /// Waits until the recorder has a pidfd of this process. It is a child of `supervisor`.
    pub(crate) fn is_watched_by_child_of(&self, supervisor: u32) -> Result<()> {
        let line = format!("Pid:\t{}", self.pid);
        let children = format!("/proc/{supervisor}/task/{supervisor}/children");
        until(&format!("a pidfd of pid {}", self.pid), || {
            let children = fs::read_to_string(&children).unwrap_or_default();
            let entries = children
                .split_whitespace()
                .map(|child| fs::read_dir(format!("/proc/{child}/fdinfo")));
            let mut entries = entries.flatten().flatten().flatten();
            entries.any(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                text.lines().any(|one| one == line)
            })
        })
    }

    /// Waits until the process has ended by one of these signals.
    pub(crate) fn dies_of_one(&mut self, signals: &[i32]) -> Result<()> {
        let status = self.end()?;
        let fine = status
            .signal()
            .is_some_and(|signal| signals.contains(&signal));
        ensure!(fine, "it ended with {status}, not with one of {signals:?}");
        Ok(())
    }

    /// Waits until the process has ended by this signal.
    pub(crate) fn dies_of(&mut self, signal: i32) -> Result<()> {
        self.dies_of_one(&[signal])
    }

    /// Waits until the process has ended with this exit code.
    pub(crate) fn exits_with(&mut self, code: i32) -> Result<()> {
        let status = self.end()?;
        ensure!(
            status.code() == Some(code),
            "it ended with {status}, not with code {code}"
        );
        Ok(())
    }

    /// Gives the cue to exit, and returns whether SIGKILL came first.
    pub(crate) fn is_killed_before_its_cue(&mut self) -> Result<bool> {
        // A dead process does not read its cue.
        let _cue = self.go();
        Ok(self.end()?.signal() == Some(9))
    }

    fn end(&mut self) -> Result<ExitStatus> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child.kill()?;
        bail!("pid {} did not end within {PATIENCE:?}", self.pid)
    }
}

impl Cgroup {
    /// Makes `/sys/fs/cgroup/PATH` with a limit in MiB. Its children may have limits of their own.
    pub(crate) fn new(path: &str, limit_mib: Option<u64>) -> Result<Self> {
        let folder = Path::new("/sys/fs/cgroup").join(path);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let cgroup = Self(folder);
        if let Some(limit) = limit_mib {
            cgroup.set("memory.max", &format!("{limit}M"))?;
        }
        Ok(cgroup)
    }

    /// Writes one of its files.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, value).with_context(|| format!("{} = {value}", path.display()))
    }

    /// Returns whether this kernel has such a file.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.0.join(file).exists()
    }

    /// Checks that the kernel's own count of kills in this cgroup is in this range.
    pub(crate) fn counts(&self, kills: RangeInclusive<u64>) -> Result<()> {
        let events = fs::read_to_string(self.0.join("memory.events"))?;
        let count = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        let count: u64 = count.context("no oom_kill in memory.events")?.parse()?;
        ensure!(
            kills.contains(&count),
            "the kernel counts {count} kills in {}, not {kills:?}",
            self.0.display()
        );
        Ok(())
    }
}

/// Waits until `is_so` returns true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if is_so() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("{what}: not within {PATIENCE:?}")
}

/// Returns the start of a process, field 22 of /proc/PID/stat.
pub(crate) fn start_ticks(pid: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(')').context("no name in stat")?.1;
    let ticks = fields.split_whitespace().nth(19).context("stat is short")?;
    Ok(ticks.parse()?)
}

/// Returns the children of a process, once there are this many.
pub(crate) fn children(pid: u32, count: usize) -> Result<Vec<u32>> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let text =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let found: Vec<u32> = text
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        if found.len() >= count {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("pid {pid} did not get {count} children")
}
