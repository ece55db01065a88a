//! Acts that are drawn at random: nothing that is proven differs from the kernel's own trace.
//!
//! `SEED=n` repeats the acts of one seed, and `ACT=m` only one of them. A race may come out another
//! way; the trace shows how it came out. Seeds take turns: even ones attach to a raylet (half of them
//! while acts are under way), odd ones wrap the acts, and half of the recorders have no kernel log.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail, ensure};
use raytrace_tests::{
    fake_raylet::FakeRaylet,
    recorder::{Recorder, raytrace, report},
    skipped, soak, staging,
};
use serde_json::Value;

/// These are performed by `cargo xtask test`, one for each kind of recorder.
const SEEDS: [u64; 5] = [0, 1, 2, 3, 4];
/// Acts of one seed, of which some run at a time.
const COUNT: &str = "40";
/// How long acts may take, with some room for a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);
const HOUR: Duration = Duration::from_secs(3600);

/// What a seed's acts came to.
struct Compared {
    /// What was printed about them.
    said: String,
    /// Whether nothing was wrong.
    right: bool,
}

/// The kernel's trace of what happens, as long as it is held.
struct Trace(Child);

impl Trace {
    /// Starts it. `None` where the kernel lets nobody trace, and why.
    fn start(folder: &Path) -> Result<Result<Self, String>> {
        let log = folder.join("trace.log");
        let mut child = script("random_acts.py")?
            .arg("trace")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .spawn()?;
        let mut word = String::new();
        let output = child.stdout.as_mut().context("no stdout")?;
        BufReader::new(output).read_line(&mut word)?;
        if word == "ready\n" {
            return Ok(Ok(Self(child)));
        }
        child.wait()?;
        let said = fs::read_to_string(&log)?;
        ensure!(said.contains("tracefs cannot be mounted"), "{said}");
        Ok(Err(said.lines().last().unwrap_or_default().to_owned()))
    }

    /// Ends it, and writes it down. Returns what it says of events that it has lost, for which
    /// others on the machine must have flooded it.
    fn end(mut self) -> Result<String> {
        drop(self.0.stdin.take());
        let mut said = String::new();
        let mut output = self.0.stdout.take().context("no stdout")?;
        output.read_to_string(&mut said)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the trace ended with {status}");
        Ok(said)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

/// Returns a Python that runs this script of the staging.
fn script(name: &str) -> Result<Command> {
    let mut command = Command::new(python()?);
    command.arg(staging::root().join("tests/staging").join(name));
    Ok(command)
}

/// Returns the Python itself, where `python3` is a shell script that looks for one.
fn python() -> Result<String> {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()?;
    Ok(String::from_utf8(asked.stdout)?.trim().to_owned())
}

/// Returns the recorder's command. Without the kernel log, it reads an empty one.
fn recorder(file: &Path, log: bool) -> Command {
    let mut command = if log {
        Command::new(raytrace())
    } else {
        let mut hidden = Command::new("unshare");
        let hide = "mount --bind /dev/null /dev/kmsg && exec \"$@\"";
        hidden.args(["--mount", "sh", "-c", hide, "sh"]);
        hidden.arg(raytrace());
        hidden
    };
    command.args(["record", "--no-stacks", "-o"]).arg(file);
    command
}

/// Returns the longest time between two acts, in seconds.
fn longest(early: bool) -> &'static str {
    match (soak(), early) {
        (true, _) => "60",
        (false, true) => "12",
        (false, false) => "4",
    }
}

/// Performs the acts of a seed beside a recorder, and returns the report.
fn perform(seed: u64, folder: &Path) -> Result<Value> {
    let (file, attached, log) = (
        folder.join("a.raytrace"),
        seed.is_multiple_of(2),
        (seed / 2).is_multiple_of(2),
    );
    let mut acts = script("random_acts.py")?;
    acts.arg("perform").arg(folder);
    acts.args(["--seed", &seed.to_string(), "--count", COUNT]);
    // Every second one that attaches does so while acts are under way. These last longer.
    let early = attached && seed / 4 % 2 == 1;
    acts.args(["--longest", longest(early)]);
    if let Ok(act) = std::env::var("ACT") {
        acts.args(["--only", &act]);
    }
    let mut command = recorder(&file, log);
    if !attached {
        command
            .arg("--")
            .arg(acts.get_program())
            .args(acts.get_args());
        let mut recorder = Recorder::run(command, &file)?;
        let status = recorder.wait(PATIENCE)?;
        ensure!(status.success(), "{status}: {:#?}", recorder.lines());
        return report(&file);
    }
    acts.arg("--attached");
    acts.args(early.then_some("--early"));
    let words = [acts.get_program()].into_iter().chain(acts.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.display())).collect();
    let (go, done) = (folder.join("go"), folder.join("done"));
    let shell = format!(
        "until [ -e {} ]; do sleep 0.1; done; {}; echo $? > {}; while :; do sleep 1; done",
        go.display(),
        words.join(" "),
        done.display()
    );
    let session = folder.join("session_x");
    fs::create_dir_all(session.join("logs"))?;
    let raylet = FakeRaylet::start_with_script(folder, &session, &shell)?;
    command.args(["--raylet-pid", &raylet.pid().to_string()]);
    if early {
        fs::write(&go, "")?;
        wait_for_first_victims(folder)?;
    }
    let recorder = Recorder::run(command, &file)?;
    fs::write(go, "")?;
    let end = Instant::now() + PATIENCE;
    while fs::read_to_string(&done).unwrap_or_default() != "0\n" {
        ensure!(Instant::now() < end, "the acts did not end well");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(recorder.stop()?.report)
}

/// Waits until an act has been performed.
fn wait_for_first_victims(folder: &Path) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !folder.join("acts.jsonl").exists() {
        ensure!(Instant::now() < end, "no act was performed");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Compares a report with the trace.
fn compare(folder: &Path, report: &Value) -> Result<Compared> {
    let path = folder.join("report.json");
    fs::write(&path, report.to_string())?;
    let output = script("random_truth.py")?.arg(folder).arg(&path).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Ok(Compared { said, right: true }),
        Some(1) if said.contains(" acts compared") => Ok(Compared { said, right: false }),
        _ => bail!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Checks the comparison: with other senders and killers, the same report must be wrong.
fn notices_another_killer(folder: &Path, report: &Value) -> Result<()> {
    let mut other = report.clone();
    for death in other["deaths"].as_array_mut().context("deaths")? {
        if death["verdict"]["killer"] == "signal" {
            death["sender"]["pid"] = Value::from(1);
        } else {
            death["verdict"]["killer"] = Value::from("signal");
        }
    }
    ensure!(!compare(folder, &other)?.right, "each killer was changed");
    Ok(())
}

/// Stages the acts of one seed. Returns whether they were compared; `None` where nobody may trace.
fn stage(seed: u64) -> Result<Option<bool>> {
    let folder = tempfile::tempdir()?;
    let trace = match Trace::start(folder.path())? {
        Ok(trace) => trace,
        Err(why) => {
            skipped(why);
            return Ok(None);
        }
    };
    let report = perform(seed, folder.path())?;
    let lost = trace.end()?;
    if !lost.is_empty() {
        eprintln!("seed {seed}: not compared: {lost}");
        return Ok(Some(false));
    }
    let compared = compare(folder.path(), &report)?;
    eprintln!("seed {seed}: {}", compared.said);
    if !compared.right {
        let kept = folder.keep();
        bail!("SEED={seed}, kept in {}: {}", kept.display(), compared.said);
    }
    if std::env::var_os("ACT").is_none() {
        notices_another_killer(folder.path(), &report)?;
    }
    Ok(Some(true))
}

/// Returns the seeds to stage: new ones for an hour in a soak.
fn seeds() -> Box<dyn Iterator<Item = u64>> {
    if let Some(seed) = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        return Box::new(std::iter::once(seed));
    }
    if !soak() {
        return Box::new(SEEDS.into_iter());
    }
    let first = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = first.map_or(0, |since| since.as_secs());
    let end = Instant::now() + HOUR;
    Box::new((first..).take_while(move |_| Instant::now() < end))
}

#[test]
fn nothing_proven_differs_from_the_kernels_trace() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for seed in seeds() {
        match stage(seed) {
            Ok(Some(was)) => compared += u32::from(was),
            Ok(None) => return,
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 0, "each trace had too little room");
}
