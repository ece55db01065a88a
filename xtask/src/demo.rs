//! `cargo xtask demo`: records a private Ray cluster while its workers die, and prints the report.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    layout,
    process::{interrupt, run, step},
    setup, test,
};

/// The deaths that are staged, from those in `tests/staging`.
const KINDS: [&str; 7] = [
    "user_kill_9",
    "segv",
    "os_exit_3",
    "ray_kill",
    "kernel_oom_task",
    "child_kernel_oom",
    "monitor_task",
];

pub(crate) fn run_demo() -> Result<()> {
    setup::for_demo()?;
    let raytrace = step("build raytrace", test::build)?;
    let folder = layout::target().join("demo");
    std::fs::create_dir_all(&folder)?;
    let recording = folder.join("demo.raytrace");
    for file in ["demo.raytrace", "truth.jsonl"] {
        // An earlier demo may have left no file.
        let _removed = std::fs::remove_file(folder.join(file));
    }
    eprintln!("==> raytrace record -o {}", recording.display());
    let mut recorder = Command::new(&raytrace);
    recorder
        .arg("record")
        .arg("-o")
        .arg(&recording)
        .stderr(Stdio::piped());
    let mut recorder = recorder.spawn().context("cannot start raytrace record")?;
    let output_thread = show_until_recording(&mut recorder)?;
    let cluster = step(
        "a private Ray cluster; its workers die in real ways (about 30 s)",
        || stage(&folder),
    );
    // This is before the cluster is taken down, which would cause deaths too.
    let status = interrupt(&mut recorder)?;
    let _printed = output_thread.join();
    take_down(cluster?)?;
    if !status.success() {
        bail!("raytrace record ended with {status}");
    }
    eprintln!("==> raytrace report {}", recording.display());
    run(Command::new(&raytrace).arg("report").arg(&recording))?;
    eprintln!("\nThe recording: {}", recording.display());
    Ok(())
}

/// Passes on what the recorder prints, and returns once it records.
fn show_until_recording(recorder: &mut Child) -> Result<std::thread::JoinHandle<()>> {
    let errors = recorder.stderr.take().context("no stderr")?;
    let (sender, started) = std::sync::mpsc::channel();
    let output_thread = std::thread::spawn(move || {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            eprintln!("    {line}");
            if line.starts_with("Recording to") {
                // Only the first message is awaited.
                let _sent = sender.send(());
            }
        }
    });
    started
        .recv()
        .context("raytrace record ended before it recorded")?;
    Ok(output_thread)
}

/// Starts the cluster, and returns when all deaths have been staged.
fn stage(folder: &Path) -> Result<Child> {
    let log = File::create(folder.join("staging.log"))?;
    let mut staging = Command::new(layout::ray(setup::DEMO_VERSION).join("bin/python"))
        .arg(layout::root().join("tests/staging/matrix.py"))
        .arg("--truth")
        .arg(folder.join("truth.jsonl"))
        .arg("--hold")
        .arg("--only")
        .args(KINDS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("cannot start the staging")?;
    let output = staging.stdout.take().context("no stdout")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    if !lines.any(|line| line == "staged") {
        bail!(
            "the staging failed; it said: {}",
            folder.join("staging.log").display()
        );
    }
    // Nothing more is read, so its further output is thrown away.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(staging)
}

/// Ends the cluster, which lasts as long as the staging's standard input.
fn take_down(mut staging: Child) -> Result<()> {
    drop(staging.stdin.take());
    let status = staging.wait()?;
    if !status.success() {
        bail!("the staging ended with {status}");
    }
    Ok(())
}
