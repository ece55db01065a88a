//! Tests of the sentences for causes, with deaths of the samples.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    event::Role,
    ids::Pid,
    judge::{
        cause::{Cause, ProcessRef},
        report::Killer,
    },
    show::{
        clause::{of, summary},
        sample,
    },
};

fn sentence(cause: Cause) -> String {
    of(&sample::death(1, 7, 0, Killer::Unknown, cause))
}

fn bash() -> ProcessRef {
    ProcessRef {
        pid: Pid(9),
        comm: "bash".into(),
        uid: Some(1000),
    }
}

#[test]
fn reaction_to_a_signal_follows_its_sender() {
    let term = Box::new(Cause::Signal {
        signal: 15,
        sender: Some(bash()),
    });
    assert_eq!(
        sentence(Cause::CaughtSignalThenExit {
            cause: term.clone(),
            exit_code: Some(1),
            after_s: None
        }),
        "was terminated by SIGTERM from bash (pid 9, uid 1000); it caught the signal and exited with code 1"
    );
    assert_eq!(
        sentence(Cause::CaughtSignalThenAbort {
            cause: term.clone(),
            after_s: None
        }),
        "was terminated by SIGTERM from bash (pid 9, uid 1000); it caught the signal and aborted (SIGABRT) while exiting"
    );
    assert_eq!(
        sentence(Cause::CaughtSignalThenSignal {
            cause: term.clone(),
            signal: 2,
            after_s: None
        }),
        "was terminated by SIGTERM from bash (pid 9, uid 1000); it caught the signal and ended with a SIGINT of its own"
    );
    assert_eq!(
        sentence(Cause::CaughtSignalThenSignal {
            cause: term.clone(),
            signal: 11,
            after_s: Some(3)
        }),
        "was terminated by SIGTERM from bash (pid 9, uid 1000); it caught the signal and crashed 3 s later with SIGSEGV"
    );
    assert_eq!(
        sentence(Cause::CaughtSignalThenReraise {
            cause: term.clone(),
            after_s: None
        }),
        "was terminated by SIGTERM from bash (pid 9, uid 1000); its handler re-raised it"
    );
    assert_eq!(
        sentence(Cause::CaughtSignalThenReraise {
            cause: term,
            after_s: Some(3)
        }),
        "was terminated by SIGTERM from bash (pid 9, uid 1000); it caught the signal and sent it to itself 3 s later"
    );
    assert_eq!(
        sentence(Cause::CaughtSignalThenExit {
            cause: Box::new(Cause::WorkerEnding {
                worker_pid: Pid(5),
                by_raylet: true
            }),
            exit_code: Some(1),
            after_s: None
        }),
        "was stopped by the raylet with its worker (pid 5); it caught the signal and exited with code 1"
    );
}

#[test]
fn lost_gcs_clause_depends_on_the_process() {
    let lost = || sample::death(1, 7, 0, Killer::RayCollapse, Cause::GcsLost);
    assert_eq!(of(&lost()), "was stopped by Ray: its node lost the GCS");
    let mut exited = lost();
    (exited.end.exit_code, exited.end.signal) = (Some(1), None);
    assert_eq!(of(&exited), "exited after its node had lost the GCS");
    let mut raylet = lost();
    raylet.process.role = Role::Raylet;
    assert_eq!(
        of(&raylet),
        "shut down: the GCS had marked its node dead or was unreachable"
    );
}

#[test]
fn process_still_ending_was_killed() {
    let mut waits = sample::death(0, 7, 0, Killer::Signal, Cause::signal(9));
    waits.when.exit_time = None;
    let clause = of(&waits);
    assert_eq!(clause, "was killed by SIGKILL, sender unknown");
}

#[test]
fn command_line_is_reduced_to_its_program() {
    let mut driver = sample::death(1, 7, 0, Killer::Exit, Cause::exit(3));
    driver.process.role = Role::Driver;
    driver.process.title = Some("/usr/bin/python3 train.py --token secret was here".into());
    assert_eq!(
        summary(&driver),
        "driver python3 (pid 7) exited on its own with code 3"
    );
}

#[test]
fn only_views_use_the_clause_module() {
    let tracer = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    let sources = ["src", "core/src"].map(|folder| tracer.join(folder));
    let all = sources.iter().flat_map(|source| {
        let of_it = files(source).into_iter();
        of_it.map(move |file| (source, file))
    });
    for (source, file) in all {
        let name = file.strip_prefix(source).unwrap_or(&file);
        // `golden` is compiled only for tests.
        let exempt = name.starts_with("show")
            || name.starts_with("contract.rs")
            || name.starts_with("golden")
            || name.to_string_lossy().contains("tests");
        let text = fs::read_to_string(&file).expect("a source file");
        seen += 1;
        let makes = text.contains("::clause") || text.contains("clause::");
        assert!(exempt || !makes, "{}", name.display());
    }
    assert!(seen > 200, "{seen}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.flat_map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    found
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}
