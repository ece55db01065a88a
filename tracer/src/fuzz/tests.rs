//! Runs the fuzz targets on damaged real samples.
//!
//! `RAYTRACE_FUZZ_SECONDS=60 cargo test --release -p raytrace --lib fuzz` runs each target for that
//! long; the default is one second. A failure names the number of its input, which reproduces it.

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    damage::{self, Random},
    event::{Event, Observation, Source},
    explain::texts,
    ids::{BootTime, EventId, WallTime},
    ray::gcs::samples::REPLIES,
    recording::Writer,
};

/// No input may take longer, however busy the machine is.
const STALLED: Duration = Duration::from_secs(20);

/// The samples to damage.
type Seeds = Vec<Vec<u8>>;

/// Makes a test for each target, and one that writes the seeds of all targets.
macro_rules! targets {
    ($($target:ident: $seeds:expr,)*) => {
        $(
            #[test]
            fn $target() {
                fuzz(&$seeds, super::$target);
            }
        )*

        #[test]
        #[ignore = "writes the seeds of `cargo xtask fuzz` into the folder RAYTRACE_FUZZ_CORPUS"]
        fn write_seeds() {
            let folder = env::var_os("RAYTRACE_FUZZ_CORPUS").expect("RAYTRACE_FUZZ_CORPUS");
            $(write(&Path::new(&folder).join(stringify!($target)), &$seeds);)*
        }
    };
}

targets! {
    raylet_log: logs(),
    gcs_log: logs(),
    core_worker_log: logs(),
    worker_output: logs(),
    explain: logs(),
    kernel_log: logs(),
    command_line: command_lines(),
    gcs_reply: replies(),
    ray_timeline: timelines(),
    recording: [a_recording()],
    program_file: [fs::read("/bin/true").expect("a small program")],
}

fn write(folder: &Path, seeds: &[Vec<u8>]) {
    fs::create_dir_all(folder).expect("a folder");
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number}")), seed).expect("a file");
    }
}

fn time_of_each() -> Duration {
    let asked = env::var("RAYTRACE_FUZZ_SECONDS").ok();
    Duration::from_secs(asked.and_then(|text| text.parse().ok()).unwrap_or(1))
}

/// Runs `target` on one damaged input after another.
fn fuzz(seeds: &[Vec<u8>], target: impl Fn(&[u8])) {
    let end = Instant::now() + time_of_each();
    let mut tried = 0u64;
    while Instant::now() < end {
        tried += 1;
        let mut random = Random(tried.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let seed = &seeds[random.below(seeds.len())];
        let other = &seeds[random.below(seeds.len())];
        let input = damage::any(seed, other, &mut random);
        let started = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let shown = || String::from_utf8_lossy(&input).into_owned();
        assert!(done.is_ok(), "input {tried} panics: {}", shown());
        assert!(
            started.elapsed() < STALLED,
            "input {tried} stalls: {}",
            shown()
        );
    }
    eprintln!("{tried} inputs");
}

/// Returns the texts of all known messages.
fn logs() -> Seeds {
    texts()
        .into_iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}

fn command_lines() -> Seeds {
    let seeds: [&[u8]; 4] = [
        b"/venv/ray/core/src/ray/raylet/raylet\n--raylet_socket_name=/tmp/ray/session_1/sockets/raylet\n--node_id=ab12\n--session-name=session_1",
        b"ray::Actor.generate(step=3)\nray::IDLE\nray::task_name:with:colons\nray::A.__init__",
        b"python\n-m\nray.util.client.server\n--worker-id=ab12ab12",
        b"gcs_server\n--gcs_server_port=6379\n--config_list=e30=",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}

fn replies() -> Seeds {
    let replies = REPLIES.iter().flat_map(|(_, replies)| *replies);
    replies.map(<[u8]>::to_vec).collect()
}

fn timelines() -> Seeds {
    let strings: &[u8] = br#"[{"cat":"task","ph":"X","name":"f","pid":"Node 192.0.2.1","tid":"worker:ab12","ts":1.5,"dur":2.5,"args":{"task_id":"ab"}},
{"ph":"M","name":"process_name","pid":1,"args":{"name":"Node 192.0.2.1"}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"worker:ab12"}},
{"cat":"task","ph":"X","name":"g","pid":1,"tid":2,"ts":9,"dur":1,"args":{}}]"#;
    let object = br#"{"traceEvents":[{"ph":"X","name":"f","pid":1,"tid":2,"ts":0,"dur":1}]}"#;
    vec![strings.to_vec(), object.to_vec()]
}

fn a_recording() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.raytrace");
    let writer = Writer::create(&path, None).expect("a writer");
    for number in 1..200 {
        let clock = Observation::Clock {
            wall: WallTime(number),
            error: None,
        };
        writer.sender().send(Event {
            id: EventId(number.unsigned_abs()),
            time: BootTime(number.unsigned_abs()),
            source: Source::Recorder,
            what: clock,
        });
    }
    let _summary = writer.finish();
    fs::read(&path).expect("a recording")
}
