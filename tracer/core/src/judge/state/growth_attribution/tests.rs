//! Tests of growth attribution.

use super::*;
use crate::judge::report::GrowthLine;

const MIB: u64 = 1 << 20;

fn frame(file: &str, function: &str, line: u32) -> PythonFrame {
    PythonFrame {
        file: file.into(),
        function: function.into(),
        line,
    }
}

/// Returns an actor of this class as the owner.
fn owner(class: &str) -> Owner {
    Owner {
        class: Some(class.to_owned()),
        otherwise: class.to_owned(),
    }
}

fn row(
    pid: u32,
    frames: &[PythonFrame],
    mapping: Option<u32>,
    grown: u64,
    shared: u64,
) -> PythonStack {
    PythonStack {
        process: ProcessKey::new(pid, 1),
        tid: None,
        grown: Bytes(grown * MIB),
        shared: Bytes(shared * MIB),
        mapping,
        repeats: false,
        frames: frames.to_vec(),
        unsampled: None,
        native: Vec::new(),
    }
}

fn grew(attribution: &mut GrowthAttribution, row: &PythonStack) {
    attribution.observe(BootTime(1), row, owner("Trainer"));
    settle(attribution);
}

/// Settles everything: nothing more comes, and no call is known.
fn settle(attribution: &mut GrowthAttribution) {
    attribution.settle(None, |_, _| None);
}

fn line(growth: &Growth, function: &str) -> GrowthLine {
    let mut lines = growth.lines.iter();
    lines
        .find(|line| line.function == function)
        .expect(function)
        .clone()
}

fn save() -> Vec<PythonFrame> {
    let site = "/v/lib/python3.11/site-packages";
    vec![
        frame(&format!("{site}/torch/serialization.py"), "_save", 849),
        frame(
            &format!("{site}/verl/fsdp_workers.py"),
            "save_checkpoint",
            612,
        ),
        frame(&format!("{site}/ray/_private/worker.py"), "main_loop", 12),
    ]
}

/// The blamed line is one that its author can change.
#[test]
fn users_line_is_blamed_with_its_callee() {
    let mut attribution = GrowthAttribution::default();
    grew(&mut attribution, &row(1, &save(), Some(0), 780, 0));
    grew(
        &mut attribution,
        &row(2, &[frame("/home/u/train.py", "step", 33)], None, 220, 0),
    );
    let found = attribution.growth(|_| None);
    assert_eq!(
        (found[0].processes, found[0].grown_bytes),
        (2, Bytes(1000 * MIB))
    );
    let line = &found[0].lines[0];
    assert_eq!(
        (line.line, line.function.as_str()),
        (Some(612), "save_checkpoint")
    );
    assert_eq!(
        line.inside.as_deref(),
        Some("torch/serialization.py:849 _save")
    );
    assert_eq!(line.grown_bytes, Bytes(780 * MIB));
}

#[test]
fn running_line_is_named_from_half_the_growth() {
    let mut attribution = GrowthAttribution::default();
    let under = |inside: u32| {
        vec![
            frame("/v/lib/python3.11/site-packages/torch/nn.py", "_f", inside),
            frame("/home/u/train.py", "step", 33),
        ]
    };
    let inside =
        |attribution: &GrowthAttribution| attribution.growth(|_| None)[0].lines[0].inside.clone();
    grew(&mut attribution, &row(1, &under(1), None, 10, 0));
    grew(&mut attribution, &row(1, &under(2), None, 30, 0));
    assert_eq!(inside(&attribution).as_deref(), Some("torch/nn.py:2 _f"));
    grew(&mut attribution, &row(1, &under(3), None, 29, 0));
    assert_eq!(inside(&attribution), None);
}

fn called(library: &str, function: Option<&str>) -> NativeFrame {
    NativeFrame {
        library: library.into(),
        function: function.map(str::to_owned),
    }
}

/// The same line with different calls is one line.
#[test]
fn line_names_the_call_that_grew_most() {
    let mut attribution = GrowthAttribution::default();
    let line_of = [frame("a.py", "step", 3)];
    let torch = vec![
        called("libc.so.6", Some("malloc")),
        called("libtorch_cpu.so", Some("at::detail::empty_cpu")),
    ];
    let numpy = vec![
        called("libc.so.6", Some("malloc")),
        called("_umath.so", None),
    ];
    for (native, grown) in [(torch, 60), (numpy, 30), (Vec::new(), 10)] {
        let row = PythonStack {
            native,
            ..row(1, &line_of, Some(0), grown, 0)
        };
        grew(&mut attribution, &row);
        let repeated = PythonStack {
            repeats: true,
            frames: Vec::new(),
            native: Vec::new(),
            ..row
        };
        grew(&mut attribution, &repeated);
    }
    let found = attribution.growth(|_| None);
    assert_eq!((found[0].lines.len(), found[0].functions.len()), (1, 1));
    let line = line(&found[0], "step");
    assert_eq!(line.grown_bytes, Bytes(200 * MIB));
    assert_eq!(line.held_bytes, Some(Bytes(200 * MIB)));
    assert_eq!(
        line.native.as_deref(),
        Some("libtorch_cpu.so: at::detail::empty_cpu")
    );
    let wanted = [
        format!("still held;Trainer;a.py:3 step {}", 20 * MIB),
        format!(
            "still held;Trainer;a.py:3 step;_umath.so;libc.so.6: malloc {}",
            60 * MIB
        ),
        format!(
            "still held;Trainer;a.py:3 step;libtorch_cpu.so: at::detail::empty_cpu;libc.so.6: malloc {}",
            120 * MIB
        ),
    ];
    assert_eq!(attribution.folded(|_| None), wanted);
}

#[test]
fn freed_held_and_unknown_memory_are_distinguished() {
    let mut attribution = GrowthAttribution::default();
    let mib = |count: u64| Some(Bytes(count * MIB));
    grew(
        &mut attribution,
        &row(1, &[frame("a.py", "keep", 1)], Some(0), 100, 0),
    );
    for mapping in 1..4 {
        grew(
            &mut attribution,
            &row(1, &[frame("a.py", "borrow", 2)], Some(mapping), 50, 0),
        );
        attribution.freed(
            BootTime(1),
            ProcessKey::new(1, 1),
            Some(mapping),
            Bytes(50 * MIB),
        );
    }
    grew(
        &mut attribution,
        &row(1, &[frame("a.py", "one", 3)], None, 40, 0),
    );
    grew(
        &mut attribution,
        &row(1, &[frame("a.py", "other", 4)], None, 60, 0),
    );
    attribution.freed(BootTime(1), ProcessKey::new(1, 1), None, Bytes(50 * MIB));
    grew(
        &mut attribution,
        &row(1, &[frame("a.py", "put", 5)], None, 0, 70),
    );
    let found = &attribution.growth(|_| None)[0];
    assert_eq!(line(found, "keep").held_bytes, mib(100));
    assert_eq!(line(found, "borrow").held_bytes, mib(0));
    assert_eq!(line(found, "borrow").grown_bytes, Bytes(150 * MIB));
    assert_eq!(
        (
            line(found, "one").held_bytes,
            line(found, "other").held_bytes
        ),
        (None, None)
    );
    assert_eq!(line(found, "put").shared_bytes, Bytes(70 * MIB));
    let wanted = [
        format!("given back;Trainer;a.py:2 borrow {}", 150 * MIB),
        format!("held or given back;Trainer;a.py:3 one {}", 40 * MIB),
        format!("held or given back;Trainer;a.py:4 other {}", 60 * MIB),
        format!("shared memory;Trainer;a.py:5 put {}", 70 * MIB),
        format!("still held;Trainer;a.py:1 keep {}", 100 * MIB),
    ];
    assert_eq!(attribution.folded(|_| None), wanted);
}

#[test]
fn reused_pid_starts_without_growth() {
    let mut attribution = GrowthAttribution::default();
    grew(&mut attribution, &row(1, &save(), None, 10, 0));
    let later = ProcessKey::new(1, 50_000_000);
    assert!(attribution.last(later).is_none());
    let repeated = PythonStack {
        process: later,
        repeats: true,
        ..row(1, &[], None, 1, 0)
    };
    attribution.observe(BootTime(9), &repeated, owner("Other"));
    settle(&mut attribution);
    let all = attribution.growth(|_| None);
    let other = all
        .iter()
        .find(|growth| growth.class == "Other")
        .expect("its own");
    assert_eq!(other.lines[0].file, "");
    let (seen, stack) = attribution
        .last(ProcessKey::new(1, 1))
        .expect("the earlier one");
    assert_eq!(seen, BootTime(1));
    assert!(
        stack.ends_with("verl/fsdp_workers.py:612 save_checkpoint\n(1 frame inside Ray)"),
        "{stack}"
    );
}

/// A call of an actor may have any name.
#[test]
fn call_growth_belongs_to_actor_or_task() {
    let title = |class: Option<&str>, task: &str| Title {
        actor_class: class.map(str::to_owned),
        task: Some(task.to_owned()),
    };
    let idle = || Owner {
        class: None,
        otherwise: "idle worker".into(),
    };
    let trainer = || owner("Trainer");
    assert_eq!(trainer().by(Some(title(None, "step 17"))), "Trainer");
    assert_eq!(trainer().by(Some(title(Some("Critic"), "fit"))), "Critic");
    assert_eq!(idle().by(Some(title(None, "parse"))), "parse");
    assert_eq!(idle().by(None), "idle worker");
}
