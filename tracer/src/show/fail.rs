//! Decides whether a report is a failure for a script: `--fail-on` and `--fail-above`.

use std::{str::FromStr, sync::LazyLock};

use crate::{
    judge::report::{Death, Killer, Report},
    phrase::when,
    show::{
        causes, limit,
        size::{percent, size},
        words,
    },
};

/// The killers that `--fail-on` means without a list: those of all memory kills.
pub static MEMORY_KILLERS: LazyLock<String> = LazyLock::new(|| names(true).join(","));
/// The help text of `--fail-on`.
pub static FAIL_ON: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Exit with code 8 if a first cause shown was one of these killers. Without a list: {}, or an OOM killer in user space. Others: {}. FILES go before this option",
        names(true).join(", "),
        names(false).join(", ")
    )
});

fn names(memory: bool) -> Vec<&'static str> {
    let all = Killer::ALL.iter().copied();
    let of = all.filter(|killer| killer.is_memory_kill() == memory);
    of.map(Killer::name).collect()
}

/// What makes a report a failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FailWhen {
    /// Killers that fail a report as the killer of a first cause. A death that followed from
    /// another never fails it.
    pub killers: Vec<Killer>,
    /// The share of its nearest limit above which memory fails a report.
    pub above: Option<Share>,
}

/// A share of a whole, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = text.trim_end_matches('%').trim_end();
        let parsed = number.parse::<f64>().ok();
        // 0.85 may be meant as a fraction, as in Ray's threshold.
        let is_fraction = |percent: f64| percent > 0.0 && percent < 1.0 && !text.ends_with('%');
        parsed
            .filter(|percent| (0.0..=100.0).contains(percent) && !is_fraction(*percent))
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| "give a percentage from 0 to 100, like 85%".to_owned())
    }
}

/// Parses a list of killers like `kernel-oom-memcg,signal`.
pub fn parse_killers(text: &str) -> Result<Vec<Killer>, String> {
    text.split(',')
        .map(|name| parse_killer(name.trim()))
        .collect()
}

fn parse_killer(name: &str) -> Result<Killer, String> {
    let known = Killer::ALL
        .iter()
        .copied()
        .find(|killer| killer.name() == name);
    known.ok_or_else(|| {
        let names: Vec<&str> = Killer::ALL.iter().copied().map(Killer::name).collect();
        let hint = when(name.contains(['.', '/']), "; FILE goes before --fail-on");
        format!(
            "unknown killer {name:?}; known are {}{hint}",
            names.join(", ")
        )
    })
}

/// Returns why the report is a failure, one sentence for each reason. The list is empty if it is
/// none.
pub fn reasons(report: &Report, when: &FailWhen) -> Vec<String> {
    let mut reasons = Vec::new();
    let causes = causes::all(report);
    let died = causes.iter().map(|cause| cause.death);
    // A process that was killed and is still blocked in the kernel is lost as well.
    let killed: Vec<&Death> = died
        .chain(&report.pending)
        .filter(|death| death.listed)
        .collect();
    let all_for_memory = Killer::ALL
        .iter()
        .filter(|killer| killer.is_memory_kill())
        .all(|killer| when.killers.contains(killer));
    let by_daemons = killed
        .iter()
        .filter(|death| death.is_memory_kill() && !death.verdict.killer.is_memory_kill())
        .count();
    if all_for_memory && by_daemons > 0 && !when.killers.contains(&Killer::Signal) {
        let deaths = words::count(by_daemons, "death", "deaths");
        reasons.push(format!("--fail-on: {deaths} by OOM killers in user space"));
    }
    for killer in &when.killers {
        let of_killer = |death: &&&Death| death.verdict.killer == *killer;
        let count = killed.iter().filter(of_killer).count();
        if count > 0 {
            let deaths = words::count(count, "death", "deaths");
            reasons.push(format!("--fail-on: {deaths} by {}", killer.name()));
        }
    }
    if let (Some(above), Some(nearest)) = (when.above, limit::nearest(report))
        && nearest.share() > above.0
    {
        reasons.push(format!(
            "--fail-above: the peak was {}, {} of {} {}, above {:.1} %",
            size(nearest.used),
            percent(nearest.used, nearest.limit),
            nearest.whose,
            size(nearest.limit),
            above.0 * 100.0
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Bytes, EventId},
        judge::{
            cause::Cause,
            report::{AtDeath, CgroupUse, Monitor},
        },
        show::sample,
    };

    fn memory() -> Vec<Killer> {
        parse_killers(&MEMORY_KILLERS).expect("names of killers")
    }

    fn on(killers: &[Killer]) -> FailWhen {
        FailWhen {
            killers: killers.to_vec(),
            above: None,
        }
    }

    #[test]
    fn only_a_memory_kill_fails() {
        let when = on(&memory());
        assert_eq!(
            reasons(&sample::verl(), &when),
            [
                "--fail-on: 1 death by kernel-oom-memcg",
                "--fail-on: 1 death by ray-memory-monitor"
            ]
        );
        assert!(reasons(&sample::quiet(), &when).is_empty());
        assert!(reasons(&sample::others(), &when).is_empty());
        let mut waits = sample::others();
        waits.pending[0].verdict.killer = Killer::KernelOomMemcg;
        assert_eq!(
            reasons(&waits, &when),
            ["--fail-on: 1 death by kernel-oom-memcg"]
        );
    }

    #[test]
    fn kill_by_an_oom_killer_of_user_space_fails() {
        let mut report = sample::quiet();
        let mut death = sample::verl().deaths.remove(0);
        death.verdict.killer = Killer::Signal;
        death.verdict.cause = Cause::MemoryDaemon {
            fix: None,
            name: "earlyoom".into(),
            says: "VmRSS 2891 MiB".into(),
        };
        report.deaths = vec![death];
        assert_eq!(
            reasons(&report, &on(&memory())),
            ["--fail-on: 1 death by OOM killers in user space"]
        );
        assert!(reasons(&report, &on(&[Killer::KernelOomMemcg])).is_empty());
    }

    #[test]
    fn cascade_never_fails_by_itself() {
        assert!(reasons(&sample::verl(), &on(&[Killer::RayCollapse])).is_empty());
        let mut group = sample::burst();
        for death in group.deaths.iter_mut().skip(1) {
            death.verdict.cause_death_id = Some(EventId(100));
        }
        assert_eq!(
            reasons(&group, &on(&memory())),
            ["--fail-on: 1 death by kernel-oom-memcg"]
        );
    }

    #[test]
    fn peak_fails_above_share_of_nearest_limit() {
        let above = |percent: &str| FailWhen {
            killers: Vec::new(),
            above: Some(percent.parse().expect("a share")),
        };
        assert_eq!(reasons(&sample::quiet(), &above("85.3%")).len(), 0);
        assert_eq!(
            reasons(&sample::quiet(), &above("85 %")),
            [
                "--fail-above: the peak was 152.3 GiB, 85.3 % of Ray's threshold 178.6 GiB, above 85.0 %"
            ]
        );
        let mut unmonitored = sample::quiet();
        unmonitored.clusters.clear();
        assert_eq!(reasons(&unmonitored, &above("81.1%")).len(), 0);
        assert_eq!(
            reasons(&unmonitored, &above("80%")),
            [
                "--fail-above: the peak was 152.3 GiB, 81.0 % of the machine's memory 188.0 GiB, above 80.0 %"
            ]
        );
        assert!("0.85".parse::<Share>().is_err(), "a fraction");
        assert!("0.85%".parse::<Share>().is_ok());
        assert!("850%".parse::<Share>().is_err());
        assert!("much".parse::<Share>().is_err());
    }

    #[test]
    fn full_cgroup_counts_beside_a_free_machine() {
        let mut report = sample::burst();
        report.deaths[0].memory.at_death = Some(AtDeath {
            ray_used_bytes: None,
            ray_threshold_bytes: None,
            ray_total: None,
            limits: vec![CgroupUse {
                cgroup: "/job".into(),
                usage_bytes: Bytes(2 << 30),
                limit_bytes: Some(Bytes(2 << 30)),
            }],
            object_store_bytes: None,
        });
        let when = FailWhen {
            killers: Vec::new(),
            above: Some(Share(0.9)),
        };
        assert_eq!(
            reasons(&report, &when),
            ["--fail-above: the peak was 2.0 GiB, 100.0 % of cgroup /job 2.0 GiB, above 90.0 %"]
        );
    }

    #[test]
    fn nearly_full_cgroup_counts_without_deaths() {
        let mut report = sample::pod();
        let when = FailWhen {
            killers: Vec::new(),
            above: Some(Share(0.9)),
        };
        assert_eq!(
            reasons(&report, &when),
            [
                "--fail-above: the peak was 23.9 GiB, 99.6 % of cgroup .../kubepods/pod7 24.0 GiB, above 90.0 %"
            ]
        );
        // A monitor that takes the container for the whole machine kills first.
        report.clusters[0].monitor = Some(Monitor {
            enabled: true,
            threshold_bytes: Some(Bytes(22 << 30)),
            total_bytes: Some(Bytes(24 << 30)),
            refresh_ms: Some(250),
        });
        assert_eq!(
            reasons(&report, &when),
            [
                "--fail-above: the peak was 23.9 GiB, 108.6 % of Ray's threshold in cgroup .../kubepods/pod7 22.0 GiB, above 90.0 %"
            ]
        );
    }

    #[test]
    fn unknown_killer_is_refused_with_the_known() {
        assert_eq!(
            parse_killers("signal, crash"),
            Ok(vec![Killer::Signal, Killer::Crash])
        );
        let refused = parse_killers("oom").expect_err("no such killer");
        assert!(refused.contains("kernel-oom-memcg"), "{refused}");
    }
}
