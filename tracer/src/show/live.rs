//! Renders what `record` prints: a line for each listed death, and a status line.

use std::time::Duration;

use owo_colors::OwoColorize;

use crate::{
    event::{LimitOwner, Role},
    ids::Bytes,
    judge::{
        killers::LimitMargin,
        live::Live,
        report::{Death, Killer, TopProcess},
    },
    phrase::when,
    show::{clause, sanitize, size::size, time::Zone, trend::GrowthTrends, words},
};

/// `08:41:07.482Z RAY MONITOR killed compute_score pid 41877 3.4 GiB · biggest: TaskRunner 402.6
/// GiB · proven`.
pub fn death(death: &Death, zone: &Zone) -> String {
    let verdict = if death.verdict.settled {
        certainty(death)
    } else {
        "not final yet".to_owned()
    };
    format!(
        "{} {} · {verdict}{}",
        time(death, zone),
        what(death),
        then(death)
    )
}

/// Returns the line that settles a death that was printed before its evidence was complete.
pub fn settled(death: &Death, zone: &Zone) -> String {
    format!(
        "{} final: {} · {}{}",
        time(death, zone),
        what(death),
        certainty(death),
        then(death)
    )
}

fn time(death: &Death, zone: &Zone) -> String {
    let time = death.when.time.or(death.when.exit_time);
    time.map_or_else(|| "time unknown".to_owned(), |time| zone.clock(time))
}

fn what(death: &Death) -> String {
    let label = death.verdict.killer.words().label;
    let label = if death.verdict.killer.is_memory_kill() {
        label.red().bold().to_string()
    } else {
        label.yellow().bold().to_string()
    };
    format!("{label} {}", what_happened(death))
}

/// Returns the rest of the line: which process, and why.
pub fn what_happened(death: &Death) -> String {
    // The same figure as in the report.
    let private = death.memory.own_private();
    let memory = private.map_or_else(String::new, |bytes| format!(" {}", size(bytes)));
    let subject = format!("{} pid {}{memory}", words::name(death), death.process.pid);
    if death.verdict.killer.is_memory_kill() {
        format!("killed {subject}{}{}", limit(death), biggest(death))
    } else {
        format!("{subject} {}", words::clause(death))
    }
}

/// Returns which limit was hit, if the kernel killed.
fn limit(death: &Death) -> String {
    let place = match (death.verdict.killer, &death.memory.oom) {
        (Killer::KernelOomGlobal, _) => "the machine was out of memory".to_owned(),
        (Killer::KernelOomMemcg, Some(oom)) => match (&oom.cgroup, oom.limit_bytes) {
            (Some(cgroup), Some(limit)) => {
                format!("cgroup {} of {}", words::cgroup(cgroup), size(limit))
            }
            (Some(cgroup), None) => format!("cgroup {}", words::cgroup(cgroup)),
            (None, _) => return String::new(),
        },
        _ => return String::new(),
    };
    format!(" · {place}")
}

/// Returns the biggest process, if it is another one and the whole machine was short of memory.
fn biggest(death: &Death) -> String {
    let other = |top: &&TopProcess| !top.victim;
    let whole = matches!(
        death.verdict.killer,
        Killer::KernelOomGlobal | Killer::RayMemoryMonitor
    );
    match death.memory.top.first().filter(other).filter(|_| whole) {
        Some(top) => format!(
            " · biggest: {} {}",
            words::class_of_top(top),
            size(top.private_bytes)
        ),
        None => String::new(),
    }
}

fn certainty(death: &Death) -> String {
    let (who, why) = (death.verdict.certainty, death.verdict.reason_certainty);
    if who == why {
        who.name().to_owned()
    } else {
        format!("{}, reason {}", who.name(), why.name())
    }
}

fn then(death: &Death) -> String {
    let then = death.then.as_ref();
    then.map_or_else(String::new, |then| format!(" · {}", clause::recovery(then)))
}

/// How near a limit is.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearness {
    /// Who kills there: `kernel, .../system`.
    pub who: String,
    /// In use.
    pub used: Bytes,
    /// The limit.
    pub limit: Bytes,
    /// Time left at the present rate, if it grows.
    pub left: Option<Duration>,
    /// The class that grows, if it grows.
    pub whose: Option<String>,
}

/// What the status line shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// Time since the recording began.
    pub elapsed: Duration,
    /// Workers that are alive.
    pub workers: usize,
    /// The limit with the least left until it kills.
    pub next_killer: Option<Nearness>,
    /// Ray's threshold, if the monitor is on and another limit is nearer.
    pub ray: Option<Nearness>,
    /// Listed deaths so far.
    pub deaths: usize,
    /// Events lost so far.
    pub lost: u64,
}

impl Status {
    /// Returns the status with the limits of `live`, and the time until each is hit.
    pub fn near(live: &Live, trends: &GrowthTrends) -> Self {
        let nearness = |threat: &LimitMargin| Nearness {
            who: words::who_kills(&threat.limit_owner),
            used: threat.used(),
            limit: threat.at,
            left: threat.left,
            whose: threat
                .left
                .and_then(|_| trends.grower(live, &threat.limit_owner))
                .map(|(process, _)| words::class_of_live(process)),
        };
        let mut threats = live.threats.iter();
        let next_killer = threats.next().map(nearness);
        Self {
            next_killer,
            ray: threats
                .find(|one| one.limit_owner == LimitOwner::RayMonitor)
                .map(nearness),
            workers: live
                .processes
                .iter()
                .filter(|one| one.role == Role::Worker)
                .count(),
            lost: live.lost,
            ..Self::default()
        }
    }
}

/// How much is left out. These are tried in order, until the status line fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Brevity {
    Full,
    NotWhose,
    NotRay,
    NotLabel,
    NotWorkers,
}

/// Returns the status line, at most `width` columns: `02:39:18 · 14 workers · NEXT KILLER Ray's
/// monitor 491.9/493.5 GiB, ~67 s (TaskRunner) · deaths 1 · lost 0`.
pub fn status(status: &Status, width: usize) -> String {
    use Brevity::{Full, NotLabel, NotRay, NotWhose, NotWorkers};
    let tries = [Full, NotWhose, NotRay, NotLabel, NotWorkers];
    let mut lines = tries.into_iter().map(|brevity| with(status, brevity));
    let fitting = lines.find(|line| sanitize::columns(line) <= width);
    fitting.unwrap_or_else(|| sanitize::cut_columns(&with(status, NotWorkers), width))
}

fn with(status: &Status, brevity: Brevity) -> String {
    let seconds = status.elapsed.as_secs();
    let clock = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut parts = vec![format!("{:02}:{:02}:{:02}", clock.0, clock.1, clock.2)];
    if brevity < Brevity::NotWorkers {
        parts.push(words::count(status.workers, "worker", "workers"));
    }
    if let Some(next) = &status.next_killer {
        let label = when(brevity < Brevity::NotLabel, "NEXT KILLER ");
        let whose = brevity < Brevity::NotWhose;
        parts.push(format!(
            "{label}{} {}",
            sanitize::name(&next.who),
            nearness(next, whose)
        ));
    }
    if let Some(ray) = status.ray.as_ref().filter(|_| brevity < Brevity::NotRay) {
        parts.push(format!("Ray {}", nearness(ray, false)));
    }
    parts.push(format!("deaths {}", status.deaths));
    parts.push(format!("lost {}", words::thousands(status.lost)));
    parts.join(" · ")
}

/// Returns `23.95/24.00 GiB, ~21 s (DashboardAgent)`. A limit of 100 GiB or more has one decimal,
/// and one below 1 GiB is in MiB.
fn nearness(near: &Nearness, whose: bool) -> String {
    let mib = |bytes: Bytes| bytes.gib() * 1024.0;
    let figures = match near.limit.gib() {
        ..1.0 => format!("{:.0}/{:.0} MiB", mib(near.used), mib(near.limit)),
        1.0..100.0 => format!("{:.2}/{:.2} GiB", near.used.gib(), near.limit.gib()),
        _ => format!("{:.1}/{:.1} GiB", near.used.gib(), near.limit.gib()),
    };
    let left = near
        .left
        .map_or_else(String::new, |left| format!(", ~{}", duration(left)));
    let whose = near.whose.as_deref().filter(|_| whose);
    let whose = whose.map_or_else(String::new, |whose| format!(" ({})", sanitize::name(whose)));
    format!("{figures}{left}{whose}")
}

/// `21 s`, `3 min`, `2.8 h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{:.1} h", seconds as f64 / 3600.0),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample::{self, gib};

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn lines(deaths: &[Death]) -> String {
        let zone = Zone::default();
        let lines: Vec<String> = deaths.iter().map(|one| plain(&death(one, &zone))).collect();
        lines.join("\n")
    }

    #[test]
    fn each_listed_death_is_one_line() {
        let mut deaths = sample::verl().deaths;
        deaths.truncate(3);
        deaths.extend(sample::others().deaths);
        insta::assert_snapshot!(lines(&deaths));
    }

    #[test]
    fn open_verdict_says_so_until_settled() {
        let mut one = sample::verl().deaths[0].clone();
        one.verdict.settled = false;
        one.then = None;
        let zone = Zone::default();
        assert!(plain(&death(&one, &zone)).ends_with("· not final yet"));
        one.verdict.settled = true;
        let line = plain(&settled(&one, &zone));
        assert!(
            line.starts_with("08:41:07.482Z final: RAY MONITOR killed compute_score pid 41877")
        );
        assert!(line.ends_with("· proven"));
    }

    #[test]
    fn hostile_name_stays_on_one_line() {
        for one in sample::hostile().deaths {
            let line = plain(&death(&one, &Zone::default()));
            assert!(line.chars().all(sanitize::is_harmless), "{line:?}");
            assert!(line.chars().count() < 500, "{line}");
        }
    }

    #[test]
    fn status_line_shows_the_nearest_limit() {
        let quiet = Status {
            elapsed: Duration::from_secs(9558),
            workers: 14,
            deaths: 1,
            ..Status::default()
        };
        assert_eq!(
            status(&quiet, 120),
            "02:39:18 · 14 workers · deaths 1 · lost 0"
        );
        let near = Status {
            next_killer: Some(Nearness {
                who: "kernel, .../system".into(),
                used: gib(23.95),
                limit: gib(24.0),
                left: Some(Duration::from_secs(21)),
                whose: Some("DashboardAgent".into()),
            }),
            ray: Some(Nearness {
                who: "Ray".into(),
                used: gib(491.9),
                limit: gib(493.5),
                left: Some(Duration::from_secs(67)),
                whose: None,
            }),
            ..quiet
        };
        assert_eq!(
            status(&near, 160),
            "02:39:18 · 14 workers · NEXT KILLER kernel, .../system 23.95/24.00 GiB, ~21 s (DashboardAgent) \
             · Ray 491.9/493.5 GiB, ~67 s · deaths 1 · lost 0"
        );
        assert_eq!(
            status(&near, 90),
            "02:39:18 · 14 workers · kernel, .../system 23.95/24.00 GiB, ~21 s · deaths 1 · lost 0"
        );
        for width in 20..160 {
            assert!(sanitize::columns(&status(&near, width)) <= width);
        }
    }

    #[test]
    fn hostile_names_stay_on_the_status_line() {
        let attack = format!("\u{1b}[2J\n\u{202e}任务{}", "x".repeat(10_240));
        let near = Nearness {
            who: format!("kernel, {attack}"),
            used: gib(1.0),
            limit: gib(2.0),
            left: Some(Duration::from_secs(5)),
            whose: Some(attack),
        };
        let status_line = Status {
            next_killer: Some(near),
            ..Status::default()
        };
        for width in [40, 79, 200] {
            let line = status(&status_line, width);
            assert!(line.chars().all(sanitize::is_harmless), "{line:?}");
            assert!(sanitize::columns(&line) <= width, "{line}");
        }
    }
}
