//! The examples die as they are meant to, raytrace says so, and texts that quote it are up to date.

use std::{fs, path::Path, process::Command};

use raytrace_tests::{
    recorder::{raytrace, report},
    staging,
};

/// What each committed text must say. `#` is any number.
const SAYS: [(&str, &[&str]); 12] = [
    (
        "verl/doctor.txt",
        &[
            "IGNORED    RAY_object_store_memory=#",
            "unset RAY_object_store_memory",
            "Ray's monitor: above # GiB (# of the memory)",
        ],
    ),
    (
        "verl/report.txt",
        &[
            "Ray's memory monitor killed",
            "WorkerDict",
            "Ray counted # GiB in its cgroup of # GiB",
            "RAY_memory_usage_threshold=# has no effect",
            "RAY_object_store_memory=# has no effect",
            "param_offload=True",
            "Peaks: WorkerDict # ",
            "Each call of WorkerDict.generate_sequences leaked # MiB in",
        ],
    ),
    (
        "verl/cut.txt",
        &[
            "WorkerDict.generate_sequences in each of # workers grows # MiB per call",
            "calls are left until",
        ],
    ),
    (
        "OpenRLHF/doctor.txt",
        &["TOO SMALL", "/dev/shm (# MiB) had no room for it"],
    ),
    (
        "OpenRLHF/report.txt",
        &[
            "PolicyModelActor.fit",
            "crashed with SIGBUS",
            "SIGBUS with /dev/shm full: # MiB of # MiB",
        ],
    ),
    (
        "EasyR1/report.txt",
        &[
            "Ray's memory monitor killed",
            "WorkerDict.offload_model",
            "worker.actor.offload.offload_params=true",
        ],
    ),
    (
        "EasyR1/explain.txt",
        &[
            "after-effects, not causes: # line",
            "(keepalive watchdog timeout)",
        ],
    ),
    (
        "EasyR1/diff.txt",
        &[
            "worker.actor.offload.offload_params true false",
            "# worker.actor.offload.offload_params: parameters move from GPU to host memory, in A only; WorkerDict held",
        ],
    ),
    (
        "simpleRL-reason/report.txt",
        &[
            "Ray's memory monitor killed",
            "into call # of WorkerDict.actor_rollout_generate_sequences",
        ],
    ),
    ("simpleRL-reason/cut.txt", &["calls are left until"]),
    (
        "ray-guide/report.txt",
        &[
            "Ray's memory monitor killed",
            "allocate_memory (",
            "# allocate_memory of # MiB each held",
            "task retried",
        ],
    ),
    (
        "ray-guide/diff.txt",
        &[
            "num-cpus # #",
            "num-cpus: value × #; the number of processes of allocate_memory fell from # to #",
        ],
    ),
];

fn examples() -> std::path::PathBuf {
    staging::root().join("examples")
}

/// Replaces any space by one blank and any number by `#`, so that only the words count.
fn words(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        let number =
            character.is_ascii_digit() || (matches!(character, '.' | ',') && shown.ends_with('#'));
        match character {
            _ if number && shown.ends_with('#') => {}
            _ if number => shown.push('#'),
            _ if character.is_whitespace() && shown.ends_with(' ') => {}
            _ if character.is_whitespace() => shown.push(' '),
            _ => shown.push(character),
        }
    }
    shown
}

/// Returns what a folder of texts should say and does not.
fn missing(folder: &Path, example: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for (file, phrases) in SAYS
        .iter()
        .filter(|(file, _)| file.starts_with(&format!("{example}/")))
    {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        let text = words(&text);
        let absent = phrases
            .iter()
            .filter(|phrase| !text.contains(&words(phrase)));
        missing.extend(absent.map(|phrase| format!("{file} does not say {phrase:?}: {text}")));
    }
    missing
}

/// Runs an example as `cargo xtask gallery` does. Recordings and texts are in the folder.
fn made(example: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(staging::ray("2.60.0").join("bin/python"))
        .arg(examples().join("gallery.py"))
        .arg("--raytrace")
        .arg(raytrace())
        .arg("--recordings")
        .arg(folder.path())
        .arg(example)
        .output()
        .expect("Python; run: cargo xtask setup");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let missing = missing(folder.path(), example);
    assert!(missing.is_empty(), "{}", missing.join("\n\n"));
    folder
}

#[test]
fn committed_texts_say_what_they_should() {
    for example in ["verl", "OpenRLHF", "EasyR1", "simpleRL-reason", "ray-guide"] {
        let missing = missing(&examples(), example);
        assert!(
            missing.is_empty(),
            "run: cargo xtask gallery {example}\n{}",
            missing.join("\n\n")
        );
    }
}

/// Growing ranks are counted, and settings without effect are named.
#[test]
fn verl_ranks_grow_together() {
    let folder = made("verl");
    let printed = printed(folder.path(), "verl");
    let death = died(folder.path(), "verl");
    grows_as_printed(&death, &printed);
    calls_left_as_they_came(&folder.path().join("verl/cut.txt"), &printed);
}

/// Shared memory that is too small is reported before the run and after it.
#[test]
fn openrlhf_shared_memory_is_too_small() {
    made("OpenRLHF");
}

/// The diff names the offload as what made it fit, and the timeout is an after-effect.
#[test]
fn easyr1_texts_name_the_offload() {
    made("EasyR1");
}

/// The remedy of the Ray guide's example is a doubled `num_cpus`.
#[test]
fn half_as_many_tasks_fit_at_once() {
    made("ray-guide");
}

/// What a job printed about itself: the bytes that each call keeps, and the call in which it died.
struct Printed {
    per_call: f64,
    died_in: u64,
}

fn printed(folder: &Path, name: &str) -> Printed {
    let log = fs::read_to_string(folder.join(name).with_extension("log"));
    let log = log.expect("what the job printed");
    let calls = log
        .lines()
        .filter_map(|line| line.strip_prefix("call ")?.parse::<u64>().ok());
    let died_in = calls.max().expect("a call");
    let mib = before(&log, " MiB a call").parse::<f64>();
    let per_call = mib.expect("a number") * 1024.0 * 1024.0;
    Printed { per_call, died_in }
}

/// Returns the word before `words`.
fn before<'a>(text: &'a str, words: &str) -> &'a str {
    let (before, _) = text.split_once(words).expect(words);
    before.rsplit([' ', '(', '\n']).next().unwrap_or(before)
}

/// Returns the death of the first worker that was killed.
fn died(folder: &Path, name: &str) -> serde_json::Value {
    let whole = report(&folder.join(name).with_extension("raytrace")).expect("a report");
    let deaths = whole["deaths"].as_array().expect("deaths");
    let first = deaths
        .iter()
        .find(|death| death["actor_class"] == "WorkerDict");
    first.expect("its death").clone()
}

fn grows_as_printed(death: &serde_json::Value, printed: &Printed) {
    let seen = death["calls"]["per_call_bytes"].as_f64();
    let seen = seen.expect("growth per call");
    println!("{seen} bytes a call, truth {}", printed.per_call);
    assert!(
        (seen / printed.per_call - 1.0).abs() < 0.05,
        "{seen} bytes a call, truth {}",
        printed.per_call
    );
}

/// Checks the recording that ends while the job still ran: it forecasts as many calls as then came.
fn calls_left_as_they_came(cut: &Path, printed: &Printed) {
    let cut = fs::read_to_string(cut).expect("cut.txt");
    let cut = cut.split_whitespace().collect::<Vec<_>>().join(" ");
    let number = |words: &str| before(&cut, words).parse::<i64>().expect("a number");
    let seen = number(" calls seen)");
    let left = if cut.contains(" 1 call is left until") {
        1
    } else {
        number(" calls are left until")
    };
    let came = printed.died_in.cast_signed() - 1 - seen;
    println!("after {seen} calls {left} left, {came} came");
    assert!((left - came).abs() <= 1, "{left} calls left, {came} came");
}

/// Growth per call, the call of the death and the calls left are those that the job printed.
#[test]
fn simple_rl_calls_match_what_the_job_printed() {
    let folder = made("simpleRL-reason");
    let printed = printed(folder.path(), "simplerl");
    let death = died(folder.path(), "simplerl");
    assert_eq!(
        death["calls"]["died_in"], printed.died_in,
        "{}",
        death["calls"]
    );
    grows_as_printed(&death, &printed);
    calls_left_as_they_came(&folder.path().join("simpleRL-reason/cut.txt"), &printed);
}

/// Returns the cells of a table's rows in a Markdown text.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
}

/// Returns the texts between backticks.
fn quotes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Each answer in docs/usage/questions.md is in a committed text.
#[test]
fn each_documented_answer_is_in_a_text() {
    let questions = fs::read_to_string(staging::root().join("docs/usage/questions.md"))
        .expect("docs/usage/questions.md");
    let mut kept = String::new();
    for (file, _) in SAYS {
        kept.push_str(&words(
            &fs::read_to_string(examples().join(file)).expect(file),
        ));
    }
    let mut checked = 0;
    for row in rows(&questions).filter(|row| row.len() == 3) {
        for quote in quotes(row[2]) {
            checked += 1;
            assert!(kept.contains(&words(quote)), "no kept text has {quote:?}");
        }
    }
    assert!(checked > 20, "only {checked} quotes");
}

/// Both have the same commands and outputs, links, and inline code.
#[test]
fn chinese_readme_matches_the_english_one() {
    let read = |name: &str| fs::read_to_string(staging::root().join(name)).expect(name);
    let (english, chinese) = (read("README.md"), read("README.zh-CN.md"));
    let (ours, theirs) = (code_blocks(&english), code_blocks(&chinese));
    assert!(ours.len() > 5, "{ours:?}");
    assert_eq!(ours, theirs);
    let (ours, theirs) = (link_targets(&english), link_targets(&chinese));
    assert!(ours.len() > 20, "{ours:?}");
    assert_eq!(ours, theirs);
    let inline = |text: &str| {
        let prose: String = text.split("```").step_by(2).collect();
        let one_line = |quote: &str| quote.split_whitespace().collect::<Vec<&str>>().join(" ");
        let all = quotes(&prose).map(one_line);
        all.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(inline(&english), inline(&chinese));
}

/// Returns the blocks of code, each without its comments.
fn code_blocks(text: &str) -> Vec<String> {
    let blocks = text.split("```").skip(1).step_by(2);
    let bare = |block: &str| {
        let lines = block
            .lines()
            .map(|line| line.split("# ").next().unwrap_or_default());
        lines.map(str::trim_end).collect::<Vec<&str>>().join("\n")
    };
    blocks.map(bare).collect()
}

/// Returns where the links lead, in order of their names, but for those from one README to the
/// other.
fn link_targets(text: &str) -> Vec<String> {
    let parts = text.split("](").skip(1);
    let targets = parts.filter_map(|part| part.split(')').next());
    let targets = targets.filter(|target| !target.starts_with("README"));
    let mut targets: Vec<String> = targets.map(str::to_owned).collect();
    targets.sort();
    targets
}

/// A restarted recorder leaves two recordings, and `raytrace slice` writes a slice of each.
#[test]
fn collect_keeps_each_slice() {
    let held = tempfile::tempdir().expect("a folder");
    let (recordings, collected) = (
        held.path().join("recordings"),
        held.path().join("collected"),
    );
    fs::create_dir(&recordings).expect("a folder");
    for name in ["verl-c", "verl-d"] {
        let packed = staging::root().join(format!("tests/golden/{name}.raytrace.gz"));
        let packed = fs::File::open(packed).expect("a golden recording");
        let file = recordings.join(format!("{name}.raytrace"));
        let mut file = fs::File::create(file).expect("a file");
        std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut file).expect("a recording");
    }
    let mut command = Command::new("python3");
    command.arg(staging::root().join("tests/staging/without_ray.py"));
    command.arg(staging::root().join("examples/fleet/collect.py"));
    command.arg(&collected).arg("--recordings").arg(&recordings);
    let done = command.arg("--raytrace").arg(raytrace()).output();
    let done = done.expect("python3");
    assert!(done.status.success(), "{done:?}");
    let report = report(&collected).expect("a report");
    let files = report["recordings"].as_array().expect("recordings");
    assert_eq!(files.len(), 2, "{files:#?}");
}
