//! What `record` prints while it records: a line for each listed death, and a status line that is rewritten in place.

use std::time::Duration;

use owo_colors::OwoColorize;

use crate::{
    ids::Bytes,
    judge::report::{Certainty, Death, Killer, TopProcess},
    show::{sanitize, size::size, time::Zone, words},
};

/// `08:41:07.482Z RAY MONITOR killed compute_score pid 41877 3.4 GiB · biggest: TaskRunner 402.6 GiB · proven`.
#[must_use]
pub fn death(death: &Death, zone: &Zone) -> String {
    let verdict = if death.verdict.settled {
        certainty(death.verdict.certainty)
    } else {
        "not settled yet"
    };
    format!(
        "{} {} · {verdict}{}",
        time(death, zone),
        what(death),
        then(death)
    )
}

/// The line that settles a death that was printed before its evidence was complete.
#[must_use]
pub fn settled(death: &Death, zone: &Zone) -> String {
    format!(
        "{} settled: {} · {}{}",
        time(death, zone),
        what(death),
        certainty(death.verdict.certainty),
        then(death)
    )
}

fn time(death: &Death, zone: &Zone) -> String {
    let time = death.time.or(death.exit_time);
    time.map_or_else(|| "time unknown".to_owned(), |time| zone.clock(time))
}

fn what(death: &Death) -> String {
    let label = label(death.verdict.killer);
    let label = if words::is_memory_kill(death.verdict.killer) {
        label.red().bold().to_string()
    } else {
        label.yellow().bold().to_string()
    };
    format!("{label} {}", rest(death))
}

fn label(killer: Killer) -> &'static str {
    match killer {
        Killer::KernelOomMemcg | Killer::KernelOomGlobal => "KERNEL OOM",
        Killer::RayMemoryMonitor => "RAY MONITOR",
        Killer::RayIntended => "RAY",
        Killer::RayCollapse => "COLLAPSE",
        Killer::KernelOther => "KERNEL",
        Killer::Signal => "SIGNAL",
        Killer::Crash => "CRASH",
        Killer::Exit => "EXIT",
        Killer::Unknown => "UNKNOWN",
    }
}

fn rest(death: &Death) -> String {
    let resident = death.memory.resident().filter(|bytes| bytes.0 > 0);
    let memory = resident.map_or_else(String::new, |bytes| format!(" {}", size(bytes)));
    let subject = format!("{} pid {}{memory}", words::name(death), death.pid);
    if words::is_memory_kill(death.verdict.killer) {
        format!("killed {subject}{}{}", limit(death), biggest(death))
    } else {
        format!("{subject} {}", words::clause(death))
    }
}

/// Which limit was hit, where the kernel killed.
fn limit(death: &Death) -> String {
    let place = match (death.verdict.killer, &death.oom) {
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

/// The biggest process, where it is another one and the whole machine was short.
fn biggest(death: &Death) -> String {
    let other = |top: &&TopProcess| !top.victim;
    let whole = death.verdict.killer != Killer::KernelOomMemcg;
    match death.top.first().filter(other).filter(|_| whole) {
        Some(top) => format!(
            " · biggest: {} {}",
            words::class_of_top(top),
            size(top.private_bytes)
        ),
        None => String::new(),
    }
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Proven => "proven",
        Certainty::Inferred => "inferred",
        Certainty::Unknown => "not proven",
    }
}

fn then(death: &Death) -> String {
    let then = death.then.as_deref();
    then.map_or_else(String::new, |then| format!(" · {}", sanitize::name(then)))
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
    /// Time left at the present rate, where it grows.
    pub left: Option<Duration>,
    /// Whose growth it is, where one process stands out.
    pub whose: Option<String>,
}

/// What the status line shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// Since the recording began.
    pub elapsed: Duration,
    /// Workers alive.
    pub workers: usize,
    /// The limit that will be hit first, if anything is near one.
    pub next_killer: Option<Nearness>,
    /// Ray's threshold, where the monitor is on.
    pub ray: Option<Nearness>,
    /// Listed deaths so far.
    pub deaths: usize,
    /// Events lost so far.
    pub lost: u64,
}

/// The status line, at most `width` columns: `02:39:18 · 14 workers · Ray 491.9/493.5 GiB · deaths 1 · lost 0`.
#[must_use]
pub fn status(status: &Status, width: usize) -> String {
    let seconds = status.elapsed.as_secs();
    let mut parts = vec![
        format!(
            "{:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        ),
        words::count(status.workers, "worker", "workers"),
    ];
    if let Some(next) = &status.next_killer {
        let who = sanitize::name(&next.who);
        parts.push(format!("NEXT KILLER {who} {}", nearness(next, 2)));
    }
    parts.extend(
        status
            .ray
            .as_ref()
            .map(|ray| format!("Ray {}", nearness(ray, 1))),
    );
    parts.push(format!("deaths {}", status.deaths));
    parts.push(format!("lost {}", words::thousands(status.lost)));
    sanitize::line(&parts.join(" · "), width)
}

fn nearness(near: &Nearness, decimals: usize) -> String {
    let left = near
        .left
        .map_or_else(String::new, |left| format!(", ~{} s", left.as_secs()));
    let whose = near
        .whose
        .as_deref()
        .map_or_else(String::new, |whose| format!(" ({})", sanitize::name(whose)));
    format!(
        "{:.decimals$}/{:.decimals$} GiB{left}{whose}",
        near.used.gib(),
        near.limit.gib()
    )
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
    fn a_verdict_that_waits_says_so_and_is_settled_later() {
        let mut one = sample::verl().deaths[0].clone();
        one.verdict.settled = false;
        one.then = None;
        let zone = Zone::default();
        assert!(plain(&death(&one, &zone)).ends_with("· not settled yet"));
        one.verdict.settled = true;
        let line = plain(&settled(&one, &zone));
        assert!(
            line.starts_with("08:41:07.482Z settled: RAY MONITOR killed compute_score pid 41877")
        );
        assert!(line.ends_with("· proven"));
    }

    #[test]
    fn a_hostile_name_stays_on_one_line() {
        for one in sample::hostile().deaths {
            let line = plain(&death(&one, &Zone::default()));
            assert!(line.chars().all(sanitize::is_harmless), "{line:?}");
            assert!(line.chars().count() < 500, "{line}");
        }
    }

    #[test]
    fn the_status_line_tells_the_nearest_limit_where_one_is_near() {
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
        assert_eq!(status(&near, 40).chars().count(), 40);
    }
}
