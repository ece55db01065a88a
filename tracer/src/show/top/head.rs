//! Renders the head: what is watched, the machine's memory as a bar, and who kills first.

use ratatui::{
    style::Color,
    text::{Line, Span},
};

use super::{
    Top,
    format::{cut, fit, rate},
    style::{Severity, bold, faint, plain},
};
use crate::{
    event::{LimitOwner, Mode, NodeMemory, Role, SharedMemory},
    ids::{Bytes, SECOND_NS},
    judge::{killers::LimitMargin, live::LiveProcess, time_to_limit::MonitorHeadroom},
    show::{
        gpus, limit_warning,
        live::duration,
        size::{self, size},
        time::Zone,
        words as shared,
    },
};

/// Longest time without an event before the recorder of a recording is probably gone. A recorder
/// writes at least each minute.
const SILENT_NS: i64 = 75 * SECOND_NS;
/// Share of a limit above which memory is near it.
const NEAR: f64 = 0.85;
/// Seconds left below which memory is near a limit.
const NEAR_S: u64 = 300;
const AT_ONCE: f64 = 0.97;
const AT_ONCE_S: u64 = 60;

/// The parts of the machine's memory. Each byte is in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    /// Private memory of the tracked processes.
    pub(super) private: Bytes,
    /// Shared memory: the object store, /dev/shm, memfds.
    pub(super) shared: Bytes,
    /// Everything else in use.
    pub(super) rest: Bytes,
    /// Available.
    pub(super) free: Bytes,
}

pub(super) fn parts(node: &NodeMemory, processes: &[LiveProcess]) -> Parts {
    let used = node.used().0;
    let private: u64 = processes.iter().map(|one| one.private().0).sum();
    // Samples are from slightly different moments, and none of them includes swapped memory.
    let private = private.min(used);
    let shared = node.shmem.0.min(used - private);
    Parts {
        private: Bytes(private),
        shared: Bytes(shared),
        rest: Bytes(used - private - shared),
        free: Bytes(node.total.0 - used),
    }
}

/// Returns the lines of the head.
pub(super) fn lines(top: &Top, width: usize, short: bool) -> Vec<Line<'static>> {
    let mut lines = vec![title(top, width)];
    if let Some(node) = &top.live.node {
        let parts = parts(node, &top.live.processes);
        lines.push(bar(top, node, &parts, width));
        lines.push(Line::from(legend(top, &parts)));
    }
    let gpus = gpus::now(&top.live.gpus);
    lines.extend(gpus.map(|text| Line::from(cut(&format!("GPUs   {text}"), width))));
    let errors = gpus::errors(&top.live.gpu_errors);
    lines.extend(errors.map(|text| Line::from(cut(&format!("GPUs   {text}"), width))));
    lines.extend(
        top.live
            .shared_memory
            .as_ref()
            .and_then(|one| shm(top, one)),
    );
    let shown = if short { 2 } else { 4 };
    let threats = top.live.threats.iter().take(shown).enumerate();
    lines.extend(threats.map(|(place, one)| threat(top, place, one, width)));
    let warnings = top.live.warnings.iter().take(2);
    lines.extend(warnings.map(|(_, one)| {
        Line::from(Span::styled(
            cut(&limit_warning::sentence(one), width),
            bold(),
        ))
    }));
    lines.extend(top.live.monitor_headroom.as_ref().and_then(too_late));
    lines
}

/// Returns a line on `/dev/shm`, if it is nearly full. Who writes to a full one dies of SIGBUS.
fn shm(top: &Top, look: &SharedMemory) -> Option<Line<'static>> {
    let share = size::share(look.used, look.total);
    let severity = if share >= AT_ONCE {
        Severity::Danger
    } else {
        Severity::Care
    };
    let text = format!(
        "/dev/shm     {} in use; a write to a full one ends its process with SIGBUS",
        size::of(look.used, look.total)
    );
    (share >= NEAR).then(|| Line::styled(text, top.severity(severity)))
}

/// Returns a warning if memory grows so fast that Ray's monitor acts too late.
fn too_late(monitor_headroom: &MonitorHeadroom) -> Option<Line<'static>> {
    let lasts = monitor_headroom
        .room_lasts_s
        .filter(|_| !monitor_headroom.ray_wins())?;
    let room = size(monitor_headroom.room);
    let text = format!(
        "Ray is too late: the {room} above its threshold fill in {lasts:.1} s, and it needs up to {:.1} s",
        monitor_headroom.ray_needs_s
    );
    Some(Line::from(Span::styled(text, bold())))
}

fn title(top: &Top, width: usize) -> Line<'static> {
    let live = &top.live;
    let count = |role| live.processes.iter().filter(|one| one.role == role).count();
    let mut parts = vec![silence(top)];
    if !live.host.is_empty() {
        parts.push(cut(&live.host, 30));
    }
    let versions: Vec<String> = live
        .clusters
        .iter()
        .map(|version| format!("Ray {}", cut(version.as_deref().unwrap_or("?"), 12)))
        .collect();
    match versions.as_slice() {
        [] if live.ended => parts.push("no Ray at the end".to_owned()),
        [] => parts.push("no Ray yet".to_owned()),
        [one] => parts.push(one.clone()),
        many => parts.push(format!("{} clusters", many.len())),
    }
    parts.push(shared::count(count(Role::Worker), "worker", "workers"));
    match live.mode {
        Some(Mode::Procfs) => parts.push("procfs".to_owned()),
        Some(Mode::Ebpf) if live.probes.0 < live.probes.1 => {
            parts.push(format!("{} of {} probes", live.probes.0, live.probes.1));
        }
        _ => {}
    }
    if live.lost > 0 {
        parts.push(format!("{} lost", shared::thousands(live.lost)));
    }
    parts.retain(|part| !part.is_empty());
    let clock = live.wall.map_or_else(String::new, |wall| match top.sample {
        // Near a limit, there are ten samples in a second.
        Some(_) => Zone::default().clock(wall),
        None => Zone::default().seconds(wall),
    });
    let left = width.saturating_sub("raytrace top  ".len() + clock.len() + 1);
    Line::from(vec![
        Span::styled("raytrace top  ", bold()),
        Span::raw(fit(&parts.join(" · "), left)),
        Span::styled(format!(" {clock}"), faint()),
    ])
}

/// Returns the source, and whether it still sends events.
fn silence(top: &Top) -> String {
    let live = &top.live;
    let quiet = live.now.since(live.last_event);
    match top.source.as_str() {
        "" => String::new(),
        source if let Some((number, of)) = top.sample => {
            format!(
                "{source} has ended: sample {} of {}",
                shared::thousands(number as u64),
                shared::thousands(of as u64)
            )
        }
        source if live.ended => format!("{source} has ended"),
        source if quiet > SILENT_NS => {
            let seconds = u64::try_from(quiet / SECOND_NS).unwrap_or(0);
            format!("{source}: no event for {seconds} s, is its recorder running?")
        }
        source => source.to_owned(),
    }
}

/// Returns `Memory 491.9 of 503.5 GiB ████▒▒░░    97.7 %`, with a mark at Ray's threshold.
fn bar(top: &Top, node: &NodeMemory, parts: &Parts, width: usize) -> Line<'static> {
    let used = Bytes(node.total.0 - parts.free.0);
    let label = format!("Memory {} ", size::of(used, node.total));
    let share = format!(" {:>7}", size::percent(used, node.total));
    let columns = width.saturating_sub(label.chars().count() + share.chars().count());
    let mut cells: Vec<(char, Color)> = Vec::new();
    let mut sum = 0;
    for (bytes, glyph, colour) in [
        (parts.private, '█', Color::Blue),
        (parts.shared, '▓', Color::Cyan),
        (parts.rest, '▒', Color::Gray),
        (parts.free, '·', Color::DarkGray),
    ] {
        sum += bytes.0;
        cells.resize(column(Bytes(sum), node.total, columns), (glyph, colour));
    }
    let threshold = top
        .live
        .threats
        .iter()
        .find(|one| one.limit_owner == LimitOwner::RayMonitor);
    // A threshold within a cgroup is not a share of the machine.
    if let Some(threat) = threshold.filter(|threat| threat.at.0 >= node.total.0 / 2)
        && let Some(cell) = cells.get_mut(column(threat.at, node.total, columns))
    {
        *cell = ('│', Color::Red);
    }
    let mut line = Line::from(Span::raw(label));
    for (glyph, colour) in cells {
        line.push_span(Span::styled(glyph.to_string(), top.tint(colour)));
    }
    line.push_span(Span::styled(share, bold()));
    line
}

fn column(part: Bytes, whole: Bytes, columns: usize) -> usize {
    let whole = u128::from(whole.0.max(1));
    usize::try_from(u128::from(part.0) * columns as u128 / whole).unwrap_or(columns)
}

fn legend(top: &Top, parts: &Parts) -> Vec<Span<'static>> {
    let part = |glyph: &'static str, colour, name: &str, bytes| {
        [
            Span::styled(glyph, top.tint(colour)),
            Span::styled(format!(" {name} {}   ", size(bytes)), faint()),
        ]
    };
    [
        part("█", Color::Blue, "recorded", parts.private),
        part("▓", Color::Cyan, "shared", parts.shared),
        part("▒", Color::Gray, "other", parts.rest),
        part("·", Color::DarkGray, "free", parts.free),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `NEXT KILLER  ~21 s    kernel, .../system  23.9 of 24.0 GiB, 51 MiB left (DashboardAgent +2.4
/// GiB/min)`.
fn threat(top: &Top, place: usize, threat: &LimitMargin, width: usize) -> Line<'static> {
    // What ended grows no more.
    let left = threat.left.filter(|_| !top.live.ended);
    let seconds = left.map_or(u64::MAX, |left| left.as_secs());
    let share = size::share(threat.used(), threat.at);
    let severity = match () {
        () if share >= AT_ONCE || seconds < AT_ONCE_S => Severity::Danger,
        () if share >= NEAR || seconds < NEAR_S => Severity::Care,
        () => Severity::None,
    };
    let first = place == 0;
    let label = if first {
        "NEXT KILLER  "
    } else {
        "then         "
    };
    let time = left.map_or_else(|| "-".to_owned(), |left| format!("~{}", duration(left)));
    let text = format!(
        "{time:<9}{} {}, {} left{}",
        fit(&shared::who_kills(&threat.limit_owner), 33),
        size::of(threat.used(), threat.at),
        size(threat.margin),
        left.map_or_else(String::new, |_| grower(top, &threat.limit_owner)),
    );
    let style = if severity == Severity::None && !first {
        faint()
    } else {
        top.severity(severity)
    };
    Line::from(vec![
        Span::styled(label, if first { bold() } else { plain() }),
        Span::styled(cut(&text, width.saturating_sub(label.len())), style),
    ])
}

/// Returns the class that brings a limit nearer by its growth.
fn grower(top: &Top, limit_owner: &LimitOwner) -> String {
    match top.trends.grower(&top.live, limit_owner) {
        Some((process, grown)) => {
            format!(
                " ({} {})",
                shared::class_of_live(process),
                rate(Some(grown))
            )
        }
        None => String::new(),
    }
}
