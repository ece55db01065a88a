//! Tests what retention keeps and what it downsamples, over a day of made-up rows.

use rusqlite::{Connection, params};

use super::*;
use crate::{
    event::{Call, Exec, Exit, Observation, Process, PythonFrame, PythonStack, Role, Source},
    ids::{Bytes, EventId, Pid, ProcessKey},
    recording::{frames, row, schema},
};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A recording in memory that is downsampled at the end of its day.
struct Scene {
    connection: Connection,
    downsampling: Downsampling,
    next: u64,
}

impl Scene {
    fn new(retention: Retention) -> Self {
        let connection = Connection::open_in_memory().expect("a database");
        schema::create(&connection).expect("tables");
        Self {
            connection,
            downsampling: Downsampling::new(retention),
            next: 1_000_000,
        }
    }

    /// Makes a day of samples of two processes, one every 10 s.
    fn of_samples(retention: Retention) -> Self {
        let scene = Self::new(retention);
        let transaction = scene.connection.unchecked_transaction();
        let transaction = transaction.expect("a transaction");
        let mut id = 0;
        for time in (0..DAY).step_by(10) {
            for pid in [1, 2] {
                id += 1;
                // The third sample of each minute is the highest.
                let anon = if time % 60 == 20 { 900 } else { 100 };
                let row = params![id, time * SECOND, pid, anon];
                let sql =
                    "INSERT INTO process_memory (id, time, pid, start, anon) VALUES (?,?,?,0,?)";
                transaction.execute(sql, row).expect("a row");
            }
        }
        transaction.commit().expect("a commit");
        scene
    }

    fn at(&mut self, seconds: i64, what: Observation) -> u64 {
        self.next += 1;
        let event = Event {
            id: EventId(self.next),
            time: BootTime((seconds * SECOND).cast_unsigned()),
            source: Source::Kernel,
            what,
        };
        schema::insert(&self.connection, &event).expect("a row");
        self.downsampling.note(&event);
        self.next
    }

    fn downsample(&mut self) {
        self.downsampling
            .begin(BootTime((DAY * SECOND).cast_unsigned()), None);
        while self.downsampling.is_busy() {
            let done = self
                .downsampling
                .work(&self.connection, Duration::from_millis(1), || Ok(true));
            done.expect("downsampled");
        }
    }

    fn samples(&self, from: i64, to: i64) -> Vec<i64> {
        let sql = "SELECT anon FROM process_memory WHERE time >= ? AND time < ? ORDER BY id";
        let mut statement = self.connection.prepare(sql).expect("a query");
        let found = statement.query_map(params![from * SECOND, to * SECOND], |row| row.get(0));
        let found = found.expect("rows").collect::<rusqlite::Result<_>>();
        found.expect("rows")
    }

    fn size(&self) -> u64 {
        size(&self.connection).expect("a size")
    }

    /// Returns the observations of a kind that are left.
    fn left(&self, kind: &str) -> Vec<Observation> {
        let sql = "SELECT body FROM events WHERE kind = ? ORDER BY id";
        let mut statement = self.connection.prepare(sql).expect("a query");
        let found = statement.query_map([kind], |row| row.get::<_, String>(0));
        let mut frames = frames::Frames::of(&self.connection);
        let body = |body: rusqlite::Result<String>| {
            let body = body.expect("a row");
            row::read(&frames.expand(&body).expect("frames")).expect("an observation")
        };
        found.expect("rows").map(body).collect()
    }
}

fn key(pid: u32) -> ProcessKey {
    ProcessKey::new(pid, 0)
}

fn exit(pid: u32, status: Option<i32>) -> Observation {
    Observation::Exit(Exit {
        process: key(pid),
        comm: "grep".into(),
        status,
        ..Exit::default()
    })
}

fn described(pid: u32, role: Role) -> Observation {
    Observation::Process(Process {
        process: key(pid),
        ns_pid: None,
        parent: None,
        process_group: None,
        slurm: None,
        comm: "x".into(),
        argv: Vec::new(),
        exe: None,
        uid: None,
        cgroup: None,
        container_id: None,
        cluster: None,
        role,
    })
}

fn call(nth: u32) -> Observation {
    Observation::Call(Call {
        process: key(7),
        title: "ray::f".into(),
        nth,
        began: BootTime(0),
        ended: Some(BootTime(1)),
        before: None,
        after: None,
        peak: None,
    })
}

fn full_detail(scene: &Scene, around: i64) -> bool {
    scene.samples(around - 600, around + 60).len() == 2 * 66
}

/// Around a death all samples stay.
#[test]
fn highest_sample_of_each_minute_stays() {
    let mut scene = Scene::of_samples(Retention::default());
    scene.at(43_200, exit(1, Some(9)));
    scene.downsample();
    assert_eq!(scene.samples(3600, 3660), [900, 900], "one a process");
    assert!(full_detail(&scene, 43_200));
    let last = scene.samples(DAY - 600, DAY);
    assert_eq!(last.len(), 2 * 60, "and in the last hours");
}

/// The detail around a death stays.
#[test]
fn size_limit_shortens_full_detail() {
    let before = Scene::of_samples(Retention::default()).size();
    let mut scene = Scene::of_samples(Retention {
        max_bytes: before / 4,
        ..Retention::default()
    });
    scene.at(43_200, exit(1, Some(9)));
    scene.downsample();
    let after = scene.size();
    assert!(after < before / 2, "{before} to {after}");
    assert!(full_detail(&scene, 43_200));
    assert!(!scene.samples(0, 43_000).is_empty());
}

/// The last minutes keep their detail.
#[test]
fn too_large_file_is_reported() {
    let mut scene = Scene::of_samples(Retention {
        max_bytes: 1,
        ..Retention::default()
    });
    scene.downsample();
    assert!(scene.downsampling.is_too_large());
    let left = scene.samples(0, DAY).len();
    assert_eq!(scene.samples(DAY - 600, DAY).len(), 2 * 60);
    for _ in 0..3 {
        scene.downsample();
    }
    assert_eq!(scene.samples(0, DAY).len(), left, "no halving again");
    scene.downsampling.retention.max_bytes = u64::MAX;
    scene.downsample();
    assert!(!scene.downsampling.is_too_large());
}

#[test]
fn detail_stays_around_deaths_of_interest() {
    let mut scene = Scene::of_samples(Retention::default());
    scene.at(0, described(1, Role::Worker));
    scene.at(0, described(2, Role::Worker));
    scene.at(0, described(3, Role::Worker));
    scene.at(0, described(4, Role::Descendant));
    scene.at(10_000, exit(1, None));
    scene.at(20_000, exit(2, Some(1 << 8)));
    scene.at(30_000, exit(3, Some(0)));
    scene.at(40_000, exit(4, Some(1 << 8)));
    scene.at(50_000, exit(4, None));
    scene.at(60_000, exit(4, Some(11)));
    scene.downsample();
    let kept = [10_000, 20_000, 30_000, 40_000, 50_000, 60_000];
    let kept = kept.map(|around| full_detail(&scene, around));
    assert_eq!(kept, [true, true, false, false, false, true]);
}

#[test]
fn touching_spans_are_merged() {
    let mut scene = Scene::new(Retention::default());
    for time in [9000, 5000, 8500, 100_000, 5060, 7000, 6000] {
        scene.at(time, exit(1, Some(9)));
    }
    let keep = |time: i64| scene.downsampling.detail_spans.keeps(time * SECOND);
    let kept =
        [4399, 4400, 5120, 5121, 5400, 6060, 6061, 6400, 7060, 7900].map(|time| (time, keep(time)));
    let expected = [
        (4399, false),
        (4400, true),
        (5120, true),
        (5121, false),
        (5400, true),
        (6060, true),
        (6061, false),
        (6400, true),
        (7060, true),
        (7900, true),
    ];
    assert_eq!(kept, expected);
}

/// They stay for each process.
#[test]
fn first_and_last_calls_stay() {
    let mut scene = Scene::new(Retention::default());
    for nth in 1..=1000 {
        scene.at(i64::from(nth), call(nth));
    }
    scene.at(DAY - 60, call(1001));
    scene.downsample();
    let numbers = scene.left("call").into_iter().map(|what| match what {
        Observation::Call(call) => call.nth,
        other => panic!("{other:?}"),
    });
    let expected: Vec<u32> = [1].into_iter().chain(937..=1001).collect();
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
}

#[test]
fn calls_before_a_death_stay() {
    let mut scene = Scene::new(Retention::default());
    for nth in 1..=500 {
        scene.at(i64::from(nth), call(nth));
    }
    scene.at(500, exit(7, Some(9)));
    scene.downsample();
    assert_eq!(scene.left("call").len(), 500);
}

/// Adds a process that is forked, runs a program and ends.
fn lives(scene: &mut Scene, at: i64, parent: u32, pid: u32, status: i32) {
    let fork = Observation::Fork {
        parent: key(parent),
        child: key(pid),
    };
    scene.at(at, fork);
    let exec = Observation::Exec(Exec {
        process: key(pid),
        parent: Some(Pid(parent)),
        ns_pid: None,
        comm: "x".into(),
        argv: Vec::new(),
        uid: None,
        file: None,
    });
    scene.at(at, exec);
    scene.at(at + 1, exit(pid, Some(status)));
}

/// All of their rows are deleted, and no rows of other processes.
#[test]
fn old_short_lived_processes_are_deleted() {
    let mut scene = Scene::new(Retention::default());
    for pid in 100..200 {
        lives(&mut scene, i64::from(pid), 1, pid, 0);
    }
    // One that fails, one that is described later, the parent of one that fails, one that is still
    // alive, and a recent one.
    lives(&mut scene, 300, 1, 300, 1 << 8);
    lives(&mut scene, 301, 1, 301, 0);
    scene.at(310, described(301, Role::Descendant));
    let fork = |parent, child| Observation::Fork {
        parent: key(parent),
        child: key(child),
    };
    scene.at(320, fork(1, 302));
    lives(&mut scene, 321, 302, 303, 1 << 8);
    scene.at(323, exit(302, Some(0)));
    scene.at(330, fork(1, 304));
    lives(&mut scene, DAY - 60, 1, 305, 0);
    // Its rows are much later, so by then the processes above have been over for long.
    lives(&mut scene, DAY - 50_000, 1, 306, 0);
    scene.downsample();
    scene.downsample();
    let pids = |kind: &str| -> Vec<u32> {
        let of = |what| match what {
            Observation::Fork { child, .. } => child.pid.0,
            Observation::Exec(exec) => exec.process.pid.0,
            Observation::Exit(exit) => exit.process.pid.0,
            other => panic!("{other:?}"),
        };
        scene.left(kind).into_iter().map(of).collect()
    };
    assert_eq!(pids("fork"), [300, 301, 302, 303, 304, 305, 306]);
    assert_eq!(pids("exec"), [300, 301, 303, 305, 306]);
    assert_eq!(pids("exit"), [300, 301, 303, 302, 305, 306]);
}

fn stack(line: u32, grown: u64, repeats: bool) -> Observation {
    let frame = PythonFrame {
        file: "a.py".into(),
        function: "f".into(),
        line,
    };
    Observation::Stack(PythonStack {
        process: key(7),
        tid: None,
        grown: Bytes(grown),
        shared: Bytes(0),
        mapping: None,
        repeats,
        frames: if repeats { Vec::new() } else { vec![frame] },
        unsampled: None,
        native: Vec::new(),
    })
}

/// Returns the line, the growth, and whether the frames are left out. The line is then the one that
/// a reader finds.
fn lines(scene: &Scene) -> Vec<(u32, u64, bool)> {
    let mut line = 0;
    let one = |what| match what {
        Observation::Stack(stack) => {
            line = stack.frames.first().map_or(line, |frame| frame.line);
            (line, stack.grown.0, stack.repeats)
        }
        other => panic!("{other:?}"),
    };
    scene.left("stack").into_iter().map(one).collect()
}

/// Each row still has its frames.
#[test]
fn growth_has_one_row_a_minute() {
    let mut scene = Scene::new(Retention::default());
    let rows = [
        (60, 1, 10, false),
        (61, 1, 1, true),
        (62, 2, 20, false),
        (63, 1, 10, false),
        (64, 2, 20, false),
        (65, 2, 0, true),
        (66, 3, 0, false),
        (67, 3, 5, true),
        (121, 3, 0, true),
        (122, 3, 7, true),
    ];
    for (time, line, grown, repeats) in rows {
        scene.at(time, stack(line, grown, repeats));
    }
    scene.at(DAY - 60, stack(3, 9, true));
    scene.downsample();
    let expected = [
        (1, 21, false),
        (2, 40, false),
        (3, 5, false),
        (3, 7, true),
        (3, 9, true),
    ];
    assert_eq!(lines(&scene), expected);
}

/// One row is left for each step of downsampling.
#[test]
fn hours_at_one_line_leave_few_rows() {
    let mut scene = Scene::new(Retention::default());
    for second in 0..3600 {
        scene.at(second, stack(1, 0, second > 0));
    }
    scene.downsample();
    let left = lines(&scene);
    assert!(left.len() <= 16, "{}", left.len());
    assert_eq!(left.first(), Some(&(1, 0, false)));
    assert!(left.iter().all(|(line, ..)| *line == 1));
}

#[test]
fn memory_freed_in_a_minute_is_summed() {
    let mut scene = Scene::new(Retention::default());
    for second in 0..120 {
        let freed = Observation::Freed {
            process: key(7),
            mapping: Some(1),
            bytes: Bytes(2),
        };
        scene.at(second, freed);
    }
    scene.downsample();
    let sums = scene.left("freed").into_iter().map(|what| match what {
        Observation::Freed { bytes, .. } => bytes.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(sums.collect::<Vec<_>>(), [120, 120]);
}

/// Of a file of shared memory, the highest and the last size of each minute stay.
#[test]
fn highest_and_last_file_size_stay() {
    let mut scene = Scene::new(Retention::default());
    for (second, bytes) in [(60, 5), (61, 9), (62, 7), (63, 0), (125, 3), (126, 4)] {
        let file = crate::event::SharedFile {
            device: 1,
            inode: 1,
            name: "x".into(),
            bytes: Bytes(bytes),
            holders: Vec::new(),
            holder_count: 0,
            looked_us: 0,
        };
        scene.at(second, Observation::SharedFile(file));
    }
    scene.downsample();
    let sizes = scene
        .left("shared_file")
        .into_iter()
        .map(|what| match what {
            Observation::SharedFile(file) => file.bytes.0,
            other => panic!("{other:?}"),
        });
    assert_eq!(sizes.collect::<Vec<_>>(), [9, 0, 4]);
}

#[test]
fn one_step_is_short() {
    let mut scene = Scene::of_samples(Retention::default());
    for pid in 1..2000 {
        let time = i64::from(pid) * 40;
        scene.at(time, exit(pid, Some(9)));
    }
    scene
        .downsampling
        .begin(BootTime((DAY * SECOND).cast_unsigned()), None);
    scene
        .downsampling
        .work(&scene.connection, Duration::ZERO, || Ok(true))
        .expect("a step");
    assert!(scene.downsampling.is_busy(), "one step of many");
    assert!(
        scene.samples(0, DAY).len() > 17_280 - 2_000,
        "of one step of rows"
    );
}

#[test]
fn row_from_the_future_stops_nothing() {
    let mut scene = Scene::new(Retention::default());
    scene.at(2 * DAY, described(1, Role::Worker));
    for nth in 1..=100 {
        scene.at(i64::from(nth), call(nth));
    }
    scene.downsample();
    assert_eq!(scene.left("call").len(), 65);
}

#[test]
fn older_samples_are_further_apart() {
    let mut scene = Scene::of_samples(Retention {
        keep: Duration::from_secs(1800),
        ..Retention::default()
    });
    scene.downsample();
    let each = |from: i64| scene.samples(from, from + 3600).len();
    assert_eq!(each(22 * 3600), 2 * 60, "up to two hours a minute apart");
    assert_eq!(each(12 * 3600), 2 * 6, "up to fourteen hours ten minutes");
    assert_eq!(each(3600), 2);
}

#[test]
fn crash_loop_keeps_its_beginning_and_end() {
    let mut scene = Scene::of_samples(Retention::default());
    for time in (10_000..40_000).step_by(5) {
        scene.at(time, exit(1, Some(9)));
    }
    scene.downsample();
    assert!(full_detail(&scene, 10_000) && full_detail(&scene, 11_100));
    assert!(full_detail(&scene, 39_000));
    let between = scene.samples(20_000, 26_000).len();
    assert!(between < 600, "{between} of {}", 2 * 600);
    // Each death is still there.
    assert_eq!(scene.left("exit").len(), 6_000);
}

/// The first and the last death keep their detail.
#[test]
fn full_file_drops_detail_of_oldest_deaths() {
    let whole = Scene::of_samples(Retention::default()).size();
    let mut scene = Scene::of_samples(Retention {
        max_bytes: whole / 6,
        ..Retention::default()
    });
    for time in (3_000..DAY - 600).step_by(3_000) {
        scene.at(time, exit(1, Some(9)));
    }
    scene.downsample();
    assert!(full_detail(&scene, 3_000), "the first");
    assert!(full_detail(&scene, 84_000), "the last");
    assert!(!full_detail(&scene, 30_000), "one of the oldest");
}

/// A step of the clock stays too.
#[test]
fn ledger_and_clock_are_kept_hourly() {
    let mut scene = Scene::new(Retention::default());
    for minute in 0..600_i64 {
        let row = crate::event::Ledger {
            hook: "oom/mark_victim".into(),
            seen: minute.unsigned_abs(),
            ..Default::default()
        };
        scene.at(minute * 60, Observation::Ledger(row));
        let ahead = if minute < 90 { 0 } else { SECOND };
        let wall = crate::ids::WallTime(minute * 60 * SECOND + ahead);
        scene.at(minute * 60, Observation::Clock { wall, error: None });
    }
    scene.downsample();
    let ledger = scene.left("ledger");
    assert_eq!(ledger.len(), 10);
    let Some(Observation::Ledger(last)) = ledger.last() else {
        panic!("no ledger");
    };
    assert_eq!(last.seen, 599, "its last row has all that was counted");
    assert_eq!(scene.left("clock").len(), 11);
}

#[test]
fn nearly_full_disk_limits_the_file() {
    let retention = Retention::default();
    let gib = 1_u64 << 30;
    let space = |free, total| Some(Space { free, total });
    let most = |size, space| retention.most(size, space);
    assert!(most(0, None) < retention.max_bytes);
    assert_eq!(most(0, space(500 * gib, 900 * gib)), most(0, None));
    assert_eq!(most(gib, space(2 * gib, 900 * gib)), gib);
    assert_eq!(most(gib, space(0, 900 * gib)), 0);
    assert_eq!(most(gib, space(gib / 2, 10 * gib)), gib, "a small disk");
}
