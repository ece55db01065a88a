//! Tests of what `top` draws, on terminals of two sizes, and of what its keys do.

use std::time::Duration;

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

use super::{Group, KeyOutcome, Top};
use crate::{
    event::{LimitOwner, MemorySplit, Mode, NodeMemory, Role},
    ids::{BootTime, Bytes, HexId, Pid, ProcessKey},
    judge::{
        killers::LimitMargin,
        live::{Live, LiveProcess},
        report::{GpuError, GpuReport},
    },
    show::{
        sample::{self, at, gib},
        sanitize,
    },
};

/// The cgroup of Ray's own processes, which has a limit.
const SYSTEM: &str = "/kubepods/ray-node_550e/system";
const SECOND: u64 = 1_000_000_000;
const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (140, 40);

fn process(pid: u32, title: &str, role: Role, private: f64) -> LiveProcess {
    let class = title
        .strip_prefix("ray::")
        .and_then(|name| name.split_once('.'));
    LiveProcess {
        process: ProcessKey::new(pid, 1000 * SECOND),
        ns_pid: None,
        parent: None,
        label: title.into(),
        role,
        actor_class: class.map(|(class, _)| class.to_owned()),
        worker_id: HexId::parse(&format!("{pid:056x}")).filter(|_| role == Role::Worker),
        job_id: HexId::parse("02000000").filter(|_| role == Role::Worker),
        cgroup: Some("/ray-node_550e/user".into()),
        memory: MemorySplit {
            anon: Some(gib(private)),
            file: Some(gib(0.2)),
            shmem: Some(gib(if role == Role::Worker { 1.2 } else { 0.0 })),
            swap: Some(Bytes(0)),
            peak: Some(gib(private + 0.5)),
            own: None,
        },
    }
}

/// Makes the state of the verl job of the samples, `seconds` after the first sample. `TaskRunner`
/// and the agent grow.
fn live(seconds: u32) -> Live {
    let grown = f64::from(seconds);
    let agent = LiveProcess {
        cgroup: Some(SYSTEM.into()),
        ..process(
            2143,
            "ray::DashboardAgent",
            Role::Agent,
            22.5 + 0.02 * grown,
        )
    };
    let mut processes = vec![
        agent,
        process(
            1998,
            "/usr/lib/raylet --raylet_socket_name=x",
            Role::Raylet,
            0.6,
        ),
        process(1900, "/usr/lib/gcs_server --log_dir=x", Role::Gcs, 0.4),
        process(2000, "python3 -m verl.trainer.main_ppo", Role::Driver, 1.2),
        process(
            3120,
            "ray::TaskRunner.run",
            Role::Worker,
            380.0 + 0.05 * grown,
        ),
        process(3400, "/usr/bin/nvidia-smi dmon", Role::Descendant, 0.01),
    ];
    processes.extend((0..8).map(|rank| {
        process(
            41_000 + rank,
            "ray::WorkerDict.actor_rollout_generate_sequences",
            Role::Worker,
            8.1,
        )
    }));
    processes.extend((0..4).map(|n| process(41_870 + n, "ray::compute_score", Role::Worker, 3.4)));
    processes.push(process(41_990, "ray::IDLE", Role::Worker, 0.1));
    let used = gib(491.0 + 0.07 * grown);
    let threat = |limit_owner, at: f64, left: f64| LimitMargin {
        limit_owner,
        at: gib(at),
        margin: gib(left - 0.02 * grown),
        left: Some(Duration::from_secs_f64(
            (left / 0.02 - grown - 0.5).max(0.0),
        )),
    };
    Live {
        now: BootTime(10_000 * SECOND + u64::from(seconds) * SECOND),
        wall: Some(at(2_467_000_000_000 + i64::from(seconds) * 1_000_000_000)),
        last_event: BootTime(10_000 * SECOND),
        host: "gpu-07".into(),
        mode: Some(Mode::Ebpf),
        probes: (9, 9),
        lost: 0,
        ended: false,
        clusters: vec![Some("2.60.0".into())],
        node: Some(NodeMemory {
            total: gib(519.5),
            available: Bytes(gib(519.5).0 - used.0),
            free: gib(9.0),
            shmem: gib(9.8),
            swap_used: Bytes(0),
            ..NodeMemory::default()
        }),
        threats: vec![
            threat(LimitOwner::Cgroup(SYSTEM.into()), 24.0, 1.1),
            threat(LimitOwner::RayMonitor, 493.5, 2.9),
            threat(LimitOwner::Machine, 519.5, 28.5),
        ],
        shared_memory: None,
        warnings: Vec::new(),
        gpus: Vec::new(),
        gpu_errors: Vec::new(),
        monitor_headroom: None,
        processes,
    }
}

fn busy() -> Top {
    let mut top = Top::new("", true);
    for second in 0..40 {
        top.update(live(second));
    }
    sample::verl()
        .deaths
        .into_iter()
        .for_each(|death| top.died(death));
    top
}

fn screen(top: &Top, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| top.draw(frame)).expect("a frame");
    let lines: Vec<String> = terminal
        .backend()
        .to_string()
        .lines()
        .map(|line| line.trim_matches('"').trim_end().to_owned())
        .collect();
    lines.join("\n")
}

fn press(top: &mut Top, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            key => KeyCode::Char(key),
        };
        assert_eq!(top.key(KeyEvent::from(code)), KeyOutcome::Draw);
    }
}

#[test]
fn job_near_two_limits_on_small_terminal() {
    insta::assert_snapshot!(screen(&busy(), SMALL));
}

#[test]
fn class_details_on_large_terminal() {
    let mut top = busy();
    press(&mut top, "\n↓");
    insta::assert_snapshot!(screen(&top, LARGE));
}

#[test]
fn process_details_on_small_terminal() {
    let mut top = busy();
    press(&mut top, "2\n");
    insta::assert_snapshot!(screen(&top, SMALL));
}

#[test]
fn components_add_up_to_memory_in_use() {
    let mut top = busy();
    press(&mut top, "3");
    let rows = super::rows::of(&top);
    let sum: u64 = rows.iter().map(|row| row.private.0).sum();
    let node = top.live.node.as_ref().expect("memory");
    assert_eq!(sum, node.total.0 - node.available.0);
    insta::assert_snapshot!(screen(&top, LARGE));
}

#[test]
fn death_details_show_evidence() {
    let mut top = busy();
    press(&mut top, "\t\n");
    for _ in 0..30 {
        press(&mut top, "↓");
    }
    insta::assert_snapshot!(screen(&top, LARGE));
}

#[test]
fn help_closes_at_any_key() {
    let mut top = busy();
    let before = screen(&top, SMALL);
    press(&mut top, "?");
    insta::assert_snapshot!(screen(&top, SMALL));
    press(&mut top, "x");
    assert_eq!(screen(&top, SMALL), before);
}

#[test]
fn waits_for_ray_if_there_is_none() {
    let mut top = Top::new("", true);
    top.update(Live {
        clusters: Vec::new(),
        processes: Vec::new(),
        threats: Vec::new(),
        ..live(0)
    });
    let shown = screen(&top, SMALL);
    assert!(shown.contains("no Ray yet"), "{shown}");
    assert!(shown.contains("Waiting for Ray"), "{shown}");
}

#[test]
fn gpus_have_a_line_if_present() {
    let mut top = busy();
    assert!(!screen(&top, SMALL).contains("GPUs"));
    let gpu = |device| GpuReport {
        device,
        total_bytes: gib(80.0),
        used_bytes: gib(60.0),
        peak_bytes: gib(70.0),
        peak_time: None,
        uncorrected_errors: None,
    };
    top.update(Live {
        gpus: vec![gpu(0), gpu(1)],
        gpu_errors: vec![GpuError {
            gpu: "0000:65:00".into(),
            code: 79,
            meaning: Some("GPU has fallen off the bus"),
            pid: None,
            comm: None,
            count: 1,
            first: None,
            last: None,
            text: String::new(),
        }],
        ..live(41)
    });
    let shown = screen(&top, SMALL);
    assert!(
        shown.contains("GPUs   60.0 of 80.0 GiB on each of 2"),
        "{shown}"
    );
    assert!(
        shown.contains("GPUs   Xid 79 (GPU has fallen off the bus) on 0000:65:00"),
        "{shown}"
    );
}

#[test]
fn hostile_names_stay_in_their_cells() {
    let report = sample::hostile();
    let attack = report.deaths[0].process.title.clone().expect("a title");
    let mut top = Top::new(&attack, true);
    for second in 0..40 {
        let mut hostile = live(second);
        hostile.host.clone_from(&attack);
        hostile.clusters = vec![Some(attack.clone())];
        hostile.threats[0].limit_owner = LimitOwner::Cgroup(format!("/{attack}/{attack}"));
        for process in &mut hostile.processes {
            process.label.clone_from(&attack);
            process.actor_class = Some(attack.clone());
            process.cgroup = Some(attack.clone());
        }
        top.update(hostile);
    }
    report.deaths.into_iter().for_each(|death| top.died(death));
    top.choice.filter = "pwned\u{1b}[31m".into();
    for keys in ["", "2\n", "\u{1b}\u{1b}\n", "3", "\t\n", "/\u{202e}"] {
        press(&mut top, keys);
        for size in [SMALL, LARGE, (50, 12), (200, 60)] {
            let shown = screen(&top, size);
            let harmless = |c: char| sanitize::is_harmless(c) || c == '\n';
            assert!(shown.chars().all(harmless), "{keys:?} {size:?}\n{shown}");
        }
    }
    press(&mut top, "\u{1b}1");
    insta::assert_snapshot!(screen(&top, SMALL));
}

#[test]
fn any_terminal_size_and_key_works() {
    let mut top = busy();
    let mut empty = Top::new("x.raytrace", false);
    for width in [1, 49, 50, 80, 120, 300] {
        for height in [1, 11, 12, 24, 60] {
            for key in "\ngsr↓↓↑\t↓\n/x\u{1b}?x3\u{1b}2".chars() {
                press(&mut top, &key.to_string());
                press(&mut empty, &key.to_string());
                screen(&top, (width, height));
                screen(&empty, (width, height));
            }
        }
    }
}

fn first_row(top: &Top) -> String {
    super::rows::of(top)
        .first()
        .map_or_else(String::new, |row| row.name.clone())
}

#[test]
fn rows_sort_by_memory_growth_or_name() {
    let mut top = busy();
    assert_eq!(first_row(&top), "TaskRunner");
    press(&mut top, "s");
    let rows: Vec<String> = super::rows::of(&top)
        .iter()
        .map(|row| row.name.clone())
        .collect();
    assert_eq!(rows[..2], ["TaskRunner", "DashboardAgent"]);
    press(&mut top, "s");
    assert_eq!(first_row(&top), "compute_score");
    press(&mut top, "r");
    assert_eq!(first_row(&top), "WorkerDict");
}

#[test]
fn filter_finds_names_pids_and_id_prefixes() {
    for (filter, found) in [
        ("taskr", vec!["TaskRunner.run"]),
        ("41871", vec!["compute_score"]),
        ("nothing", vec![]),
    ] {
        let mut top = busy();
        press(&mut top, &format!("2/{filter}\n"));
        let names: Vec<String> = super::rows::of(&top)
            .iter()
            .map(|row| row.name.clone())
            .collect();
        assert_eq!(names, found, "{filter}");
        press(&mut top, "\u{1b}");
        assert_eq!(super::rows::of(&top).len(), 19);
    }
    let mut top = busy();
    press(&mut top, &format!("2/{:056x}\n", 3120));
    assert_eq!(first_row(&top), "TaskRunner.run");
}

#[test]
fn chosen_row_stays_chosen_after_sorting() {
    let mut top = busy();
    press(&mut top, "↓↓");
    let chosen = top.choice.row.clone();
    assert!(chosen.is_some());
    press(&mut top, "ss");
    assert_eq!(top.choice.row, chosen);
    let rows = super::rows::of(&top);
    assert_eq!(Some(rows[top.chosen(&rows)].id.clone()), chosen);
}

#[test]
fn settled_death_updates_its_line() {
    let mut top = busy();
    let mut one = sample::verl().deaths[0].clone();
    one.id = crate::ids::EventId(9999);
    one.process.pid = Pid(777);
    one.verdict.settled = false;
    top.died(one.clone());
    assert!(screen(&top, LARGE).contains("not final yet"));
    one.verdict.settled = true;
    top.died(one);
    assert!(!screen(&top, LARGE).contains("not final yet"));
    assert_eq!(top.deaths[0].process.pid, Pid(777));
}

#[test]
fn q_quits_except_in_a_filter() {
    let key = |code| KeyEvent::from(code);
    let mut top = busy();
    press(&mut top, "/q\n");
    assert_eq!(top.choice.filter, "q");
    assert_eq!(top.key(key(KeyCode::Char('q'))), KeyOutcome::Quit);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(top.key(control), KeyOutcome::Quit);
}

#[test]
fn escape_with_a_key_is_two_keys() {
    let mut top = busy();
    press(&mut top, "2\n");
    assert!(top.choice.detail);
    let both = KeyEvent::new(KeyCode::Char('1'), KeyModifiers::ALT);
    assert_eq!(top.key(both), KeyOutcome::Draw);
    assert!(!top.choice.detail);
    assert_eq!(top.choice.group, Group::Classes);
}

#[test]
fn silent_or_ended_recording_says_so() {
    let mut top = Top::new("run.raytrace", true);
    let mut quiet = live(0);
    quiet.now = quiet.last_event.plus(100 * SECOND.cast_signed());
    top.update(quiet.clone());
    assert!(
        screen(&top, LARGE).contains("run.raytrace: no event for 100 s, is its recorder running?")
    );
    quiet.ended = true;
    top.update(quiet);
    assert!(screen(&top, LARGE).contains("run.raytrace has ended"));
}

#[test]
fn frame_of_2000_processes_is_fast() {
    let mut top = Top::new("", true);
    for second in 0..120 {
        let mut many = live(second);
        many.processes = (0..2000)
            .map(|pid| {
                process(
                    pid,
                    &format!("ray::Class{}.step", pid % 50),
                    Role::Worker,
                    0.1,
                )
            })
            .collect();
        top.update(many);
    }
    let began = std::time::Instant::now();
    press(&mut top, "2");
    screen(&top, LARGE);
    println!("a frame of 2,000 processes: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5));
}
