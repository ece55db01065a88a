//! Orders the limits by which of them kills first, and checks where the object store is.
//!
//! The limits are those of Ray's monitor, of the cgroups on the raylet's path, and of the machine.

use super::{
    Check, State,
    facts::{Machine, Node},
};
use crate::{
    event::LimitOwner,
    ids::{Bytes, size},
    judge::{
        findings,
        killers::{self, LimitMargin},
        report::Monitor,
    },
    phrase::when,
    ray::{
        memory_monitor::{self, Config, Count},
        start::{Change, most_shared_memory},
        version::Version,
    },
};

/// When `/dev/shm` is this full, Ray falls back to disk or a write ends in SIGBUS.
const FULL: f64 = 0.95;
/// The share of a limit that Ray's threshold should be, so that Ray acts before the kernel.
const BEFORE_THE_KERNEL: f64 = 0.9;

/// Sizes of the object store, as a share of the machine, that Ray chooses itself. It takes 30 % of
/// what is available, and some memory is always in use. A smaller size was configured.
const CHOSEN_BY_RAY: std::ops::Range<f64> = 0.15..0.29;

/// Ray's monitor and what it counts.
struct Watch {
    config: Config,
    count: Count,
    threshold: Bytes,
    on: bool,
    isolated: bool,
}

impl Watch {
    fn of(machine: &Machine, node: &Node) -> Self {
        let mut config = Config::of(&node.settings);
        // What the monitor logged of itself takes precedence: a system config is in no environment.
        let said = node.monitor.as_ref().and_then(|monitor| monitor.refresh_ms);
        config.refresh_ms = said.unwrap_or(config.refresh_ms);
        let cluster = node.cluster.as_ref();
        let version = cluster
            .and_then(|cluster| cluster.ray_version.as_deref())
            .and_then(Version::parse);
        let memory = &machine.memory;
        let seen = Count::of_machine(memory.used(), memory.total);
        let count = memory_monitor::count(seen, node.root.as_ref(), version);
        let logged = |field: fn(&Monitor) -> Option<Bytes>| node.monitor.as_ref().and_then(field);
        let total = logged(|monitor| monitor.total_bytes).unwrap_or(count.total);
        Self {
            threshold: logged(|monitor| monitor.threshold_bytes)
                .unwrap_or_else(|| config.threshold(total)),
            on: node
                .monitor
                .as_ref()
                .map_or(config.refresh_ms > 0, |monitor| monitor.enabled),
            count: Count { total, ..count },
            config,
            isolated: node.isolated,
        }
    }

    fn fraction(&self) -> f64 {
        self.threshold.gib() / self.count.total.gib()
    }
}

pub(super) fn checks(machine: &Machine, node: &Node) -> Vec<Check> {
    let watch = Watch::of(machine, node);
    let mut checks = vec![now(machine, &watch)];
    // Without its environment, the raylet's own log may tell when its monitor acts. Its defaults do
    // not.
    if node.hidden && node.monitor.is_none() {
        checks.push(hidden());
    } else {
        checks.extend(order(machine, node, &watch));
    }
    checks.extend(overcommit(machine));
    checks.extend(object_store(machine, node));
    checks.extend(store_share(machine, node));
    checks.extend(shm(machine, node));
    for check in &mut checks {
        check.raylet_pid = node.pid();
    }
    checks
}

/// Reports who acts first, and what would change that.
fn order(machine: &Machine, node: &Node, watch: &Watch) -> Vec<Check> {
    // An isolated monitor counts its user cgroup, which is not read here.
    let counts = watch.on && !watch.isolated;
    let monitor = counts.then_some((watch.threshold, watch.count.used));
    let threats = killers::in_order(monitor, &node.levels, &machine.memory);
    let ranked = (1..).zip(&threats);
    let mut checks: Vec<Check> = ranked
        .map(|(rank, threat)| line(rank, threat, machine, watch))
        .collect();
    checks.extend((watch.on && watch.isolated).then(|| apart(watch)));
    checks.extend((!watch.on).then(|| off(node, watch)));
    checks.extend(above(watch));
    checks.push(limits(machine, node, watch));
    checks
}

fn hidden() -> Check {
    let text = "who kills first is unknown: the raylet belongs to another user, and its settings and its log cannot be read";
    Check::new("killers.hidden", State::Missing, text).command("sudo raytrace doctor")
}

fn note(id: &str, text: String) -> Check {
    Check::new(id, State::Note, text)
}

fn problem(id: &str, word: &str, text: String) -> Check {
    Check::new(id, State::Problem, text).word(word)
}

fn now(machine: &Machine, watch: &Watch) -> Check {
    let of = |used: Bytes, total: Bytes| format!("{:.1} of {}", used.gib(), size(total));
    let mut text = format!("now {}", of(watch.count.used, watch.count.total));
    if watch.count.of_cgroup {
        text.push_str(&format!(
            " in Ray's cgroup, {} on the machine",
            of(machine.memory.used(), machine.memory.total)
        ));
    }
    note("memory.now", text).word("").value(&watch.count.used.0)
}

fn line(rank: usize, threat: &LimitMargin, machine: &Machine, watch: &Watch) -> Check {
    let margin = size(threat.margin);
    let (id, text) = match &threat.limit_owner {
        LimitOwner::RayMonitor => {
            let text = format!(
                "Ray's monitor: above {} ({:.2} of the memory), checked every {} ms; {margin} left",
                size(threat.at),
                watch.fraction(),
                watch.config.refresh_ms
            );
            ("killer.ray-monitor".to_owned(), text)
        }
        LimitOwner::Cgroup(path) => (
            format!("killer.cgroup.{path}"),
            format!(
                "the kernel, limit of cgroup {path}: at {}; {margin} left",
                size(threat.at)
            ),
        ),
        LimitOwner::Machine => (
            "killer.machine".to_owned(),
            end_of_machine(threat, machine, watch),
        ),
    };
    note(&id, text).word(rank.to_string()).value(&threat.at.0)
}

fn end_of_machine(threat: &LimitMargin, machine: &Machine, watch: &Watch) -> String {
    let swap = match machine.memory.swap_size() {
        Bytes(0) => "no swap".to_owned(),
        total => format!("{} swap", size(total)),
    };
    let mut text = format!(
        "the kernel, machine full: at about {}, {swap}; {} left",
        size(machine.memory.total),
        size(threat.margin)
    );
    if watch.on && !watch.isolated && !watch.count.of_cgroup {
        let room = machine.memory.total.0.saturating_sub(watch.threshold.0);
        text.push_str(&format!(
            "; comes before Ray only if memory grows {}{} in {} ms",
            size(Bytes(room)),
            when(machine.memory.swap_size().0 != 0, " and fills the swap"),
            watch.config.refresh_ms
        ));
    }
    text
}

/// Reports that Ray's monitor counts only what is charged to its workers' cgroup, whatever else the
/// machine has in use.
fn apart(watch: &Watch) -> Check {
    let text = format!(
        "Ray's monitor: above {} of what its workers' cgroup and the object store use, checked every {} ms (resource isolation); the present use was not read",
        size(watch.threshold),
        watch.config.refresh_ms
    );
    note("killer.ray-monitor", text)
        .word("")
        .value(&watch.threshold.0)
}

fn off(node: &Node, watch: &Watch) -> Check {
    let text = format!(
        "Ray's monitor is off (RAY_memory_monitor_refresh_ms=0): the kernel kills instead, Ray prints no message, \
         and Ray's retries after memory kills do not apply; turned on, it kills above {}, and {} are in use",
        size(watch.threshold),
        size(watch.count.used)
    );
    problem("monitor.off", "OFF", text)
        .value(&watch.config.refresh_ms)
        .expected(&250)
        .command(Change::environment("RAY_memory_monitor_refresh_ms", "250").at(node.started()))
}

fn above(watch: &Watch) -> Option<Check> {
    (watch.on && !watch.isolated && watch.count.used > watch.threshold).then(|| {
        problem(
            "monitor.above-threshold",
            "ABOVE",
            "memory in use is above Ray's threshold: its monitor kills workers as soon as they start"
                .into(),
        )
        .value(&watch.count.used.0)
        .expected(&format!("below {}", watch.threshold.0))
        .command("ps -eo pid,rss,user,args --sort=-rss | head")
    })
}

/// Reports the limits on the raylet's path: none, seen by Ray, or hit before Ray acts.
fn limits(machine: &Machine, node: &Node, watch: &Watch) -> Check {
    let total = watch.count.total;
    let threshold = if watch.on { watch.threshold } else { total };
    if let Some((level, limit)) =
        killers::hidden_limit(&node.levels, &machine.memory, total, threshold)
    {
        let path = &level.path;
        let fraction = BEFORE_THE_KERNEL * limit.gib() / total.gib();
        let kills = level.oom_kills.unwrap_or(0);
        let so_far = if kills > 0 {
            format!("; it has already killed {kills} there")
        } else {
            String::new()
        };
        let before = if watch.on {
            format!(", before Ray's {}", size(threshold))
        } else {
            "; Ray's monitor is off".to_owned()
        };
        let text = format!(
            "Ray counts {} as all memory; the kernel kills at {} in {path}{before}{so_far}",
            size(total),
            size(limit)
        );
        let raise = "raise that limit";
        let command = if watch.on && !watch.isolated {
            format!(
                "start Ray with RAY_memory_usage_threshold={} in the environment of ray start, or {raise}",
                findings::rounded_down(fraction)
            )
        } else {
            raise.to_owned()
        };
        return problem("limit.unseen", "HIDDEN LIMIT", text)
            .value(&limit.0)
            .expected(&format!("at least {}", total.0))
            .command(command);
    }
    let own = node
        .levels
        .iter()
        .any(|level| level.binding(&machine.memory).is_some());
    let raylet = if node.cluster.is_some() {
        "the raylet"
    } else {
        "a raylet started here"
    };
    let text = match (watch.count.of_cgroup, own) {
        (true, _) => format!("the cgroup of {raylet} has a limit, and Ray sees it: {}", size(total)),
        (false, true) => format!("the cgroup limits of {raylet} are above Ray's threshold"),
        (false, false) if node.cluster.is_some() => {
            "the raylet has no cgroup limit: memory of other processes counts towards Ray's threshold".into()
        }
        (false, false) => {
            "a raylet started here would have no cgroup limit: memory of other processes would count towards Ray's threshold".into()
        }
    };
    let state = if own { State::Ok } else { State::Note };
    Check::new("limit.seen", state, text)
}

fn overcommit(machine: &Machine) -> Option<Check> {
    (machine.overcommit == Some(2)).then(|| {
        note(
            "machine.overcommit",
            "vm.overcommit_memory=2: allocations are refused (MemoryError) before a process is killed".into(),
        )
        .value(&2)
    })
}

/// Reports the object store: its cap, and where it is.
fn object_store(machine: &Machine, node: &Node) -> Option<Check> {
    let cap = node.cluster.as_ref()?.object_store_bytes?;
    let place = node.plasma_directory.as_deref().unwrap_or("/dev/shm");
    let shm = node.shm.as_ref();
    let room = shm.map_or_else(String::new, |shm| format!(" ({})", size(shm.total)));
    let used = node.plasma_used.unwrap_or_default();
    if place != "/dev/shm" {
        let text = format!(
            "the object store ({}) is in {place}, on a disk: /dev/shm{room} had no room for it",
            size(cap)
        );
        return Some(
            problem("object-store.place", "TOO SMALL", text)
                .value(&place)
                .expected(&"/dev/shm")
                .command(match larger_shm(machine, node, Bytes(cap.0 + cap.0 / 10)) {
                    Some(larger) => {
                        format!("{larger}; else a smaller ray start --object-store-memory")
                    }
                    None => "a smaller ray start --object-store-memory".to_owned(),
                }),
        );
    }
    let text = format!(
        "object store {} of {} (a maximum, not reserved) in /dev/shm{room}{}",
        size(used),
        size(cap),
        when(used.gib() < 0.5 * cap.gib(), ": not the problem now")
    );
    Some(note("object-store.use", text).word("").value(&used.0))
}

/// Explains an object store that is visibly smaller than 30 % of the host. Ray takes 30 % of what
/// was available when it started.
fn store_share(machine: &Machine, node: &Node) -> Option<Check> {
    let cap = node.cluster.as_ref()?.object_store_bytes?;
    let share = cap.gib() / machine.memory.total.gib();
    CHOSEN_BY_RAY.contains(&share).then(|| {
        let text = format!(
            "its size is {:.0} % of this machine: without --object-store-memory Ray takes 30 % of the memory available when it starts (200 GB at \
             most)",
            100.0 * share
        );
        note("object-store.share", text).word("").value(&cap.0)
    })
}

/// Says how to enlarge the `/dev/shm` of a raylet, if the machine has the memory for it.
fn larger_shm(machine: &Machine, node: &Node, wanted: Bytes) -> Option<String> {
    if wanted > most_shared_memory(machine.memory.total) {
        return None;
    }
    let size = format!("{}M", wanted.0.div_ceil(1 << 20));
    let host = Some("this machine".to_owned());
    Some(Change::SharedMemory { size, host }.at(node.started()))
}

/// Returns the path of a raylet's `/dev/shm` on the machine where doctor runs.
fn seen_from_here(node: &Node) -> String {
    let pid = node.pid().filter(|_| node.in_container());
    pid.map_or_else(
        || "/dev/shm".to_owned(),
        |pid| format!("/proc/{pid}/root/dev/shm"),
    )
}

fn shm(machine: &Machine, node: &Node) -> Option<Check> {
    let shm = node.shm.as_ref()?;
    let used = Bytes(shm.total.0.saturating_sub(shm.free.0));
    if shm.total.0 > 0 && used.gib() >= FULL * shm.total.gib() {
        let text = format!(
            "/dev/shm is full: {} of {}; the next write into it ends in SIGBUS",
            size(used),
            size(shm.total)
        );
        return Some(
            problem("shm.full", "FULL", text)
                .value(&used.0)
                .expected(&format!("below {:.0} %", FULL * 100.0))
                .command(or_bigger(
                    format!("ls -lS {}", seen_from_here(node)),
                    larger_shm(machine, node, Bytes(2 * shm.total.0)),
                )),
        );
    }
    let cap = node.cluster.as_ref()?.object_store_bytes?;
    let in_shm = node.plasma_directory.as_deref() == Some("/dev/shm");
    // The store's file is sparse. The part that it has not touched yet must still fit.
    let wanted = cap.0.saturating_sub(node.plasma_used.unwrap_or_default().0);
    (in_shm && shm.free.0 < wanted).then(|| {
        let text = format!(
            "/dev/shm has {} left, and the object store may still take {}: a write may end in SIGBUS before the store is full",
            size(shm.free),
            size(Bytes(wanted))
        );
        problem("shm.overbooked", "TOO SMALL", text)
            .value(&shm.free.0)
            .expected(&wanted)
            .command(or_bigger(
                format!("ray start --object-store-memory={}", shm.free.0),
                larger_shm(machine, node, Bytes(shm.total.0 + wanted)),
            ))
    })
}

fn or_bigger(command: String, larger: Option<String>) -> String {
    match larger {
        Some(larger) => format!("{command}; a bigger one: {larger}"),
        None => command,
    }
}
