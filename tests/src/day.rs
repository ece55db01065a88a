//! A recording of a day: 200 workers at a time, 600 deaths, and names that try to do harm.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use raytrace::{
    event::{
        Call, Cluster, Event, Exit, MemorySplit, Mode, NodeMemory, Observation, Process,
        ProcessMemory, RecordingStarted, Role, Sender, Signal, Source, Worker,
    },
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey, WallTime},
    recording::Writer,
};

const SECOND: u64 = 1_000_000_000;
/// The recording's length.
pub const LENGTH_S: u64 = 24 * 3600;
const BEGAN: u64 = 10_000 * SECOND;
const SLOTS: u64 = 200;
/// Workers at a time on one of many nodes.
const NODE_SLOTS: u64 = 16;
/// Seconds between the kills on two nodes.
const NODES_APART_S: u64 = 37;
/// Workers of a slot, one after the other. All but the last one are killed.
const EACH: u64 = 4;
/// Seconds between the ends of two slots, and before the next worker of a slot.
const APART_S: u64 = 7;
const BREAK_S: u64 = 60;
pub(crate) const RAYLET: u32 = 100;
const MIB: u64 = 1 << 20;

/// Returns task names that must be shown as text: markup, terminal codes, characters that change
/// the direction of text, a formula, and ten kilobytes of all of these.
fn hostile_names() -> [String; 5] {
    let short = [
        "</script><script>document.title='owned'</script>",
        "\u{1b}[31mred\u{1b}[0m \u{202e}exe.gnp",
        "<img src=x onerror=alert(1)>",
        "=HYPERLINK(\"x\"),\"quoted\"",
    ];
    let all = short.concat();
    let long = format!(
        "\u{1b}[2J\u{202e}</script>{}{all}\u{200f}",
        "x".repeat(10_000)
    );
    let [first, second, third, fourth] = short.map(str::to_owned);
    [first, second, third, fourth, long]
}

/// Which samples a day has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// All of them.
    Full,
    /// Those that `record` keeps at the end of the day: all of the last six hours and around
    /// deaths, and otherwise the highest of each minute.
    Downsampled,
}

impl Detail {
    /// Returns whether a sample at this second of the day is kept, given the second of the next
    /// one.
    fn keeps(self, second: u64, next: u64) -> bool {
        let around = |turn: u64| {
            let first = turn * LENGTH_S / EACH - BREAK_S;
            first <= second + 600 && second <= first + SLOTS * APART_S + 60
        };
        let recent = second + 6 * 3600 >= LENGTH_S;
        self == Self::Full || recent || (1..EACH).any(around) || second / 60 != next / 60
    }
}

/// How many events of a kind were written.
#[derive(Debug, Default, Clone, Copy)]
pub struct EventCounts {
    /// Deaths by a signal.
    pub deaths: usize,
    /// Memory samples of processes.
    pub samples: usize,
    /// All events.
    pub events: usize,
}

/// Writes the day to `file`, with a sample of each worker every `every_s` seconds.
pub fn write(file: &Path, every_s: u64, detail: Detail) -> Result<EventCounts> {
    let mut events = beginning(started(), cluster());
    let mut written = EventCounts::default();
    for slot in 0..SLOTS {
        for turn in 0..EACH {
            let place = (0, slot, turn);
            worker(&mut events, &mut written, place, every_s, detail);
        }
    }
    write_all(file, events, written)
}

/// Writes the day of one of many nodes, with 16 workers at a time. 48 of them are killed; on each
/// third node none is.
pub fn write_node(file: &Path, node: u64, every_s: u64) -> Result<EventCounts> {
    let (mut begins, mut part) = (started(), cluster());
    if let (Observation::RecordingStarted(started), Observation::Cluster(cluster)) =
        (&mut begins, &mut part)
    {
        started.host = format!("gpu-{node:02}");
        started.boot_id = format!("b{node}");
        cluster.node_id = HexId::parse(&format!("{node:056x}"));
        cluster.head = node == 0;
    }
    let mut events = beginning(begins, part);
    let mut written = EventCounts::default();
    let first = if node % 3 == 2 { EACH - 1 } else { 0 };
    for slot in 0..NODE_SLOTS {
        for turn in first..EACH {
            let place = (node, slot, turn);
            worker(&mut events, &mut written, place, every_s, Detail::Full);
        }
    }
    write_all(file, events, written)
}

/// Returns the first events of a node.
fn beginning(started: Observation, cluster: Observation) -> Vec<(u64, Observation)> {
    let raylet = process(key(RAYLET, 1), "raylet", Role::Raylet);
    vec![(BEGAN, started), (BEGAN, cluster), (BEGAN, raylet)]
}

/// Writes the events, together with those of the machine.
fn write_all(
    file: &Path,
    mut events: Vec<(u64, Observation)>,
    mut written: EventCounts,
) -> Result<EventCounts> {
    for second in (0..LENGTH_S).step_by(10) {
        let node = NodeMemory {
            total: Bytes(1 << 40),
            available: Bytes((1 << 40) - (300 + second % 700) * 1024 * MIB),
            shmem: Bytes(20 << 30),
            ..NodeMemory::default()
        };
        events.push((BEGAN + second * SECOND, Observation::Node(node)));
    }
    events.push((BEGAN + LENGTH_S * SECOND, Observation::RecordingEnded));
    events.sort_by_key(|(time, _)| *time);
    written.events = events.len();
    let writer = Writer::create(file, None)?;
    let sender = writer.sender();
    for (id, (time, what)) in (1..).zip(events) {
        let source = match what {
            Observation::Signal(_) | Observation::Exit(_) => Source::Kernel,
            _ => Source::Proc,
        };
        let time = BootTime(time);
        let id = EventId(id);
        sender.send(Event {
            id,
            time,
            source,
            what,
        });
        // The writer's queue holds 16,384 events and is emptied twice a second.
        if id.0.is_multiple_of(8000) {
            std::thread::sleep(Duration::from_millis(800));
        }
    }
    let _summary = writer.finish();
    let (deaths, samples) = sender.dropped();
    let words = sender.dropped_log_records();
    ensure!(
        (deaths, samples, words) == (0, 0, 0),
        "the writer dropped {deaths} deaths and their like, {samples} samples and {words} lines"
    );
    Ok(written)
}

/// Adds the life of one worker. Its samples rise until it is killed.
fn worker(
    events: &mut Vec<(u64, Observation)>,
    written: &mut EventCounts,
    (node, slot, turn): (u64, u64, u64),
    every_s: u64,
    detail: Detail,
) {
    let number = slot * EACH + turn;
    let life = LENGTH_S / EACH * SECOND;
    let begins = BEGAN + turn * life + (slot * APART_S + node * NODES_APART_S) * SECOND;
    let ends = begins + life - BREAK_S * SECOND;
    let pid = 1000 + u32::try_from(number).unwrap_or(0);
    let who = key(pid, begins);
    let name = match hostile_names().get(usize::try_from(slot / 40).unwrap_or(usize::MAX)) {
        Some(hostile) if slot.is_multiple_of(40) => format!("ray::{hostile}"),
        _ => format!("ray::Class{}.step", number % 14),
    };
    events.push((begins, process(who, &name, Role::Worker)));
    events.push((begins, identity(who)));
    let last = turn == EACH - 1;
    let end = ends.min(BEGAN + LENGTH_S * SECOND);
    let mut anon = 200 * MIB;
    let every = usize::try_from(every_s * SECOND).unwrap_or(usize::MAX);
    // A worker that lives at the end has a sample there.
    let at_the_end = last.then_some(end - SECOND);
    for time in (begins..end).step_by(every).chain(at_the_end) {
        anon += (1 + number % 41) * MIB;
        let second = (time - BEGAN) / SECOND;
        if !detail.keeps(second, second + every_s) {
            continue;
        }
        let memory = split(anon);
        let sample = ProcessMemory {
            process: who,
            memory,
        };
        events.push((time, Observation::Memory(sample)));
        written.samples += 1;
    }
    events.push((begins + SECOND, call(who, &name, begins)));
    if !last {
        events.push((ends, signal(who)));
        events.push((ends + 1_000_000, exit(who, &name, anon)));
        written.deaths += 1;
    }
}

fn key(pid: u32, start: u64) -> ProcessKey {
    ProcessKey::new(pid, start)
}

pub(crate) fn split(anon: u64) -> MemorySplit {
    MemorySplit {
        anon: Some(Bytes(anon)),
        file: Some(Bytes(40 * MIB)),
        ..MemorySplit::default()
    }
}

pub(crate) fn started() -> Observation {
    Observation::RecordingStarted(RecordingStarted {
        raytrace: "0".into(),
        host: "gpu-07".into(),
        kernel: "6.18.0".into(),
        boot_id: "b".into(),
        memory_bytes: Bytes(1 << 40),
        cpus: 96,
        cgroup_version: Some(2),
        mode: Mode::Ebpf,
        // 2026-11-20T08:00:00Z.
        wall: WallTime(1_795_161_600_000_000_000),
        pid_namespace: None,
        recorder: None,
        supervisor: None,
        part: None,
        previous: None,
    })
}

pub(crate) fn cluster() -> Observation {
    Observation::Cluster(Cluster {
        session: Some("session_x".into()),
        ray_version: Some("2.60.0".into()),
        head: true,
        ..Cluster::new(key(RAYLET, 1))
    })
}

pub(crate) fn process(process: ProcessKey, name: &str, role: Role) -> Observation {
    Observation::Process(Process {
        process,
        ns_pid: None,
        parent: Some(Pid(RAYLET)),
        process_group: None,
        slurm: None,
        comm: name.chars().take(15).collect(),
        argv: vec![name.into()],
        exe: None,
        uid: Some(0),
        cgroup: None,
        container_id: None,
        cluster: Some(key(RAYLET, 1)),
        role,
    })
}

/// Returns a worker id that contains the pid.
pub fn worker_id(pid: Pid) -> String {
    format!("{:056x}", u64::from(pid.0))
}

pub(crate) fn identity(process: ProcessKey) -> Observation {
    Observation::Worker(Worker {
        process,
        worker_id: HexId(worker_id(process.pid)),
        job_id: HexId::parse("01000000"),
        actor_class: None,
        driver: false,
        from: "test".into(),
    })
}

pub(crate) fn signal(target: ProcessKey) -> Observation {
    Observation::Signal(Signal {
        target,
        target_tid: target.pid,
        signal: 9,
        code: 0,
        group: true,
        result: 0,
        group_exit: true,
        group_exit_code: 9,
        took_effect: true,
        parent_death_signal: 0,
        tracer: None,
        sender: Sender {
            process: key(77, 7),
            tid: Pid(77),
            comm: "bash".into(),
            uid: 1000,
            exiting: false,
            process_exiting: None,
            kernel_thread: false,
            exe: None,
            cgroup: None,
            ancestors: Vec::new(),
            container_id: None,
            effective_uid: Some(1000),
            saved_uid: Some(1000),
            file: None,
            argv: Vec::new(),
            exec_seen: true,
            same_root: true,
        },
        call: None,
    })
}

/// Returns a call that lasts a second and keeps a mebibyte.
pub(crate) fn call(process: ProcessKey, title: &str, began: u64) -> Observation {
    Observation::Call(Call {
        process,
        title: title.into(),
        nth: 1,
        began: BootTime(began),
        ended: Some(BootTime(began + SECOND)),
        before: Some(Bytes(200 * MIB)),
        after: Some(Bytes(201 * MIB)),
        peak: None,
    })
}

pub(crate) fn exit(process: ProcessKey, title: &str, anon: u64) -> Observation {
    Observation::Exit(Exit {
        process,
        ns_pid: None,
        parent: Some(Pid(RAYLET)),
        comm: "ray::x".into(),
        status: Some(9),
        title: Some(title.into()),
        memory: split(anon),
        mm: u64::from(process.pid.0),
        uid: None,
        harvested: false,
        pending: None,
        tracer: None,
        unrecorded: None,
    })
}
