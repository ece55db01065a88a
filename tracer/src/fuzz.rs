//! Every parser of foreign bytes on damaged real ones: it answers or refuses, and does neither panic nor stall.
//!
//! `RAYTRACE_FUZZ_SECONDS=3600 cargo test --release -p raytrace --lib fuzz` gives each target so long; a second without it. The inputs
//! depend on the seed alone, which a failure names.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crate::{
    damage::{self, Random, flip},
    event::{Event, Observation, Source},
    explain::texts,
    ids::{BootTime, EventId, HexId},
    kernel_log,
    ray::{
        gcs::{Table, tests::REPLIES},
        identify,
        log::{FileKind, LogParser},
    },
    recording::{self, Writer},
    show::trace::RayTimeline,
};

/// No input may take longer, on however busy a machine.
const STALLED: Duration = Duration::from_secs(20);

fn time_of_each() -> Duration {
    let asked = std::env::var("RAYTRACE_FUZZ_SECONDS").ok();
    Duration::from_secs(asked.and_then(|text| text.parse().ok()).unwrap_or(1))
}

/// Gives `target` one damaged input after the other.
fn fuzz(seeds: &[&[u8]], mut target: impl FnMut(&[u8])) {
    let end = Instant::now() + time_of_each();
    let mut tried = 0u64;
    while Instant::now() < end {
        tried += 1;
        let mut random = Random(tried.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let seed = seeds[random.below(seeds.len())];
        let other = seeds[random.below(seeds.len())];
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

/// The texts of all message forms.
fn logs() -> Vec<&'static [u8]> {
    texts().into_iter().map(str::as_bytes).collect()
}

fn log_of(kind: FileKind) {
    fuzz(&logs(), |input| {
        let text = String::from_utf8_lossy(input);
        let mut parser = LogParser::new(kind, HexId::parse("ab12"));
        let mut found = Vec::new();
        for line in text.lines() {
            parser.push(line, &mut found);
        }
        parser.flush(&mut found);
        assert!(!parser.is_open());
        // A line says one thing; a block ends with the line that begins the next.
        assert!(found.len() <= text.lines().count() + 1);
    });
}

#[test]
fn the_raylets_log() {
    log_of(FileKind::Raylet);
}

#[test]
fn the_gcs_log() {
    log_of(FileKind::Gcs);
}

#[test]
fn a_core_workers_log() {
    log_of(FileKind::CoreWorker);
}

#[test]
fn what_a_worker_prints() {
    log_of(FileKind::WorkerOutput);
}

#[test]
fn the_kernels_log() {
    fuzz(&logs(), |input| {
        let text = String::from_utf8_lossy(input);
        for line in text.lines() {
            let _said = kernel_log::parse(line);
            let _stamped = kernel_log::kmsg_record(line);
        }
    });
}

#[test]
fn command_lines_and_titles() {
    let seeds: [&[u8]; 4] = [
        b"/venv/ray/core/src/ray/raylet/raylet\n--raylet_socket_name=/tmp/ray/session_1/sockets/raylet\n--node_id=ab12\n--session-name=session_1",
        b"ray::Actor.generate(step=3)\nray::IDLE\nray::task_name:with:colons\nray::A.__init__",
        b"python\n-m\nray.util.client.server\n--worker-id=ab12ab12",
        b"gcs_server\n--gcs_server_port=6379\n--config_list=e30=",
    ];
    fuzz(&seeds, |input| {
        let text = String::from_utf8_lossy(input);
        let argv: Vec<String> = text.lines().map(str::to_owned).collect();
        let comm: String = text.chars().take(15).collect();
        let _role = identify::role(&comm, &argv);
        let _worker = identify::worker_id(&argv);
        for line in &argv {
            let _title = identify::title(line);
            let _class = identify::class_of_call(line);
            let _option = identify::option(&argv, line);
        }
    });
}

#[test]
fn replies_of_the_gcs() {
    let replies: Vec<&[u8]> = REPLIES.iter().flat_map(|(_, replies)| *replies).collect();
    fuzz(&replies, |input| {
        // Any of them may come for any question.
        for table in Table::ALL {
            for row in table.rows(input).into_iter().flatten() {
                let _text = row.to_string();
            }
        }
    });
}

#[test]
fn rays_timeline() {
    let strings = br#"[{"cat":"task","ph":"X","name":"f","pid":"Node 192.0.2.1","tid":"worker:ab12","ts":1.5,"dur":2.5,"args":{"task_id":"ab"}},
{"ph":"M","name":"process_name","pid":1,"args":{"name":"Node 192.0.2.1"}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"worker:ab12"}},
{"cat":"task","ph":"X","name":"g","pid":1,"tid":2,"ts":9,"dur":1,"args":{}}]"#;
    let object = br#"{"traceEvents":[{"ph":"X","name":"f","pid":1,"tid":2,"ts":0,"dur":1}]}"#;
    fuzz(&[strings, object], |input| {
        let _parsed = RayTimeline::parse(&String::from_utf8_lossy(input));
    });
}

#[test]
fn a_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.raytrace");
    let writer = Writer::create(&path, None).expect("a writer");
    for number in 1..200 {
        let clock = Observation::Clock {
            wall: crate::ids::WallTime(number),
        };
        writer.sender().send(Event {
            id: EventId(number.unsigned_abs()),
            time: BootTime(number.unsigned_abs()),
            source: Source::Recorder,
            what: clock,
        });
    }
    let _summary = writer.finish();
    let whole = fs::read(&path).expect("a recording");
    let damaged = folder.path().join("damaged.raytrace");
    fuzz(&[&whole], |input| {
        fs::write(&damaged, input).expect("a file");
        let _read = recording::read(&damaged);
    });
    // Most of the file is free of structure that a line-wise damage would hit.
    let mut random = Random(7);
    for _ in 0..200 {
        fs::write(&damaged, flip(&whole, &mut random)).expect("a file");
        let _read = recording::read(&damaged);
    }
}
