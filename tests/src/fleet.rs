//! A Ray cluster of four nodes with a recorder each, and many recordings made from a few.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{
    recorder::{Recorder, raytrace},
    staging,
    truth::Truth,
};

/// What was staged on four nodes, and a recording of each.
pub struct StagedFleet {
    /// What was staged.
    pub truth: Truth,
    /// The recordings. The head's is the first.
    pub files: Vec<PathBuf>,
    /// A copy of each node's session folder, in the same order.
    pub logs: Vec<PathBuf>,
}

/// Runs `fleet.py`, with a recorder for each raylet that writes into `folder`. `arguments` choose
/// what is staged.
pub fn stage(version: &str, arguments: &[&str], folder: &Path) -> Result<StagedFleet> {
    let logs = folder.join("logs");
    std::fs::create_dir(&logs)?;
    let kept = logs.display().to_string();
    let arguments = [&["--keep-logs", &kept], arguments].concat();
    let mut script = staging::start_waiting(version, "fleet.py", &arguments, folder)?;
    let raylets = script.wait_for_raylets("ready")?;
    let mut files = Vec::new();
    let mut recorders = Vec::new();
    for (number, raylet) in (1..).zip(raylets) {
        let file = folder.join(format!("node{number}.raytrace"));
        let arguments = ["--raylet-pid", &raylet.to_string(), "--no-stacks"];
        recorders.push(Recorder::start(&file, &arguments)?);
        files.push(file);
    }
    script.go_on()?;
    script.wait_for("staged")?;
    for recorder in recorders {
        recorder.stop()?;
    }
    let truth = script.finish()?;
    let logs = (1..=files.len()).map(|number| logs.join(format!("node{number}")));
    Ok(StagedFleet {
        truth,
        logs: logs.collect(),
        files,
    })
}

/// Returns `raytrace report --format json` of several recordings or folders.
pub fn report(files: &[PathBuf], arguments: &[&str]) -> Result<Value> {
    run_json("report", files, arguments)
}

/// Returns `raytrace explain --format json` of several session folders.
pub fn explain(folders: &[PathBuf]) -> Result<Value> {
    run_json("explain", folders, &[])
}

fn run_json(command: &str, files: &[PathBuf], arguments: &[&str]) -> Result<Value> {
    let output = std::process::Command::new(raytrace())
        .args([command, "--format", "json"])
        .args(files)
        .args(arguments)
        .output()?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "the report is not JSON: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Makes `count` recordings in `folder` from those in `files`.
///
/// Each group of as many recordings as there are files is one part of the cluster. Its workers,
/// actors, jobs and nodes have ids of their own, and all parts have the same session. An id is
/// replaced by one of the same length, so the files stay valid: SQLite has no checksums of its
/// pages.
pub fn copy_with_new_ids(files: &[PathBuf], count: usize, folder: &Path) -> Result<()> {
    let read: Vec<Vec<u8>> = files
        .iter()
        .map(|file| Ok(std::fs::read(file)?))
        .collect::<Result<_>>()?;
    for number in 0..count {
        let group = u32::try_from(number / read.len())?;
        let path = folder.join(format!("gpu-{number:04}.raytrace"));
        let mut bytes = with_new_ids(&read[number % read.len()], group);
        replace_boot_ids(&mut bytes, number);
        std::fs::write(path, bytes)?;
    }
    Ok(())
}

/// Replaces the boot id by that of another machine. It does so everywhere, because free pages may
/// hold it too.
fn replace_boot_ids(bytes: &mut [u8], number: usize) {
    let key = b"\"boot_id\":\"";
    let found: Vec<usize> = (bytes.windows(key.len()).enumerate())
        .filter(|(_, window)| window == key)
        .map(|(at, _)| at + key.len())
        .collect();
    for begin in found {
        if let Some(id) = bytes.get_mut(begin..begin + 8) {
            id.copy_from_slice(format!("{number:08x}").as_bytes());
        }
    }
}

/// Returns the bytes with the ids of workers, nodes, actors, tasks and jobs changed for this group.
fn with_new_ids(bytes: &[u8], group: u32) -> Vec<u8> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let mut changed = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|byte| is_digit(byte)).count();
        if let Ok(text) = std::str::from_utf8(&bytes[at..at + run])
            && matches!(run, 8 | 32 | 48 | 56)
        {
            changed[at..at + run].copy_from_slice(new_id(text, group).as_bytes());
        }
        at += run.max(1);
    }
    changed
}

/// Returns an id changed for this group. Its length gives its kind: worker and node have 56 digits,
/// task 48, actor 32, job 8.
fn new_id(run: &str, group: u32) -> String {
    let job = |text: &str| match u32::from_str_radix(text, 16) {
        // Ray's first jobs: 01000000, 02000000, …
        Ok(number) if number.trailing_zeros() >= 24 && number >> 24 < 16 => {
            format!("{:08x}", number | group & 0xff_ffff)
        }
        _ => text.to_owned(),
    };
    let own = |text: &str| match u32::from_str_radix(text, 16) {
        Ok(number) => format!("{:08x}", number ^ (group << 8)),
        Err(_) => text.to_owned(),
    };
    match run.len() {
        8 => job(run),
        56 if run.ends_with("ffffffff") => format!("{}{}", job(&run[..8]), &run[8..]),
        56 => format!("{}{}", own(&run[..8]), &run[8..]),
        32 => format!("{}{}{}", own(&run[..8]), &run[8..24], job(&run[24..])),
        48 => format!(
            "{}{}{}{}",
            &run[..16],
            own(&run[16..24]),
            &run[24..40],
            job(&run[40..])
        ),
        _ => run.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_id_changes_the_same_everywhere() {
        let actor = "dc09d58e1f546824e9fb6c1a03000000";
        let changed = new_id(actor, 5);
        assert_ne!(changed, actor);
        assert!(changed.ends_with(&new_id("03000000", 5)), "{changed}");
        let task = format!("44bfa4a5859b21ac{actor}");
        assert!(new_id(&task, 5).ends_with(&changed));
        let driver = format!("03000000{}", "f".repeat(48));
        assert!(new_id(&driver, 5).starts_with(&new_id("03000000", 5)));
        let text = format!("\"file\":\"worker-{actor}-7.out\",\"pid\":7");
        let with = String::from_utf8(with_new_ids(text.as_bytes(), 5)).expect("text");
        assert!(
            with.contains(&changed) && with.ends_with("\"pid\":7"),
            "{with}"
        );
    }
}
