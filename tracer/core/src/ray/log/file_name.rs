//! Parses the names of Ray's log files: component, worker, job, pid.
//!
//! The forms are the same from 2.9 to 2.60.

use super::FileKind;
use crate::ids::{HexId, Pid};

/// The parts of a log file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName {
    /// The component that writes it.
    pub kind: FileKind,
    /// The worker that it belongs to.
    pub worker_id: Option<HexId>,
    /// The job in its name; `None` for `ffffffff` (a prestarted worker keeps that even when it gets
    /// a job).
    pub job_id: Option<HexId>,
    /// The pid in its name, in Ray's pid namespace.
    pub pid: Option<Pid>,
    /// Whether it is a driver's.
    pub driver: bool,
}

/// Parses a file name without its folder. Returns `None` for files that say nothing about deaths.
pub fn parse(name: &str) -> Option<FileName> {
    let plain = |kind| {
        Some(FileName {
            kind,
            worker_id: None,
            job_id: None,
            pid: None,
            driver: false,
        })
    };
    match name {
        name if is_raylet_file(name) => return plain(FileKind::Raylet),
        "gcs_server.out" => return plain(FileKind::Gcs),
        _ => {}
    }
    if let Some(rest) = name
        .strip_prefix("python-core-")
        .and_then(|rest| rest.strip_suffix(".log"))
    {
        let (role, rest) = rest.split_once('-')?;
        let (worker, pid) = rest.rsplit_once('_')?;
        let driver = role == "driver";
        let worker_id = HexId::parse(worker)?;
        let job_id = if driver {
            worker_id.0.get(..8).and_then(HexId::parse)
        } else {
            None
        };
        let kind = FileKind::CoreWorker;
        return Some(FileName {
            kind,
            worker_id: Some(worker_id),
            job_id,
            pid: pid.parse().ok().map(Pid),
            driver,
        });
    }
    if name.starts_with("job-driver-") {
        return plain(FileKind::WorkerOutput);
    }
    let rest = name.strip_prefix("worker-")?;
    let rest = rest
        .strip_suffix(".out")
        .or_else(|| rest.strip_suffix(".err"))?;
    let mut parts = rest.split('-');
    let (worker, job, pid) = (parts.next()?, parts.next()?, parts.next()?);
    Some(FileName {
        kind: FileKind::WorkerOutput,
        worker_id: Some(HexId::parse(worker)?),
        job_id: HexId::parse(job),
        pid: pid.parse().ok().map(Pid),
        driver: false,
    })
}

/// Whether a name is `raylet.out` or `raylet.err`, or `raylet.1.out` of a second raylet in one
/// session (`_get_log_file_name`, python/ray/_private/node.py).
pub fn is_raylet_file(name: &str) -> bool {
    let rest = name.strip_prefix("raylet.");
    let number = rest.and_then(|rest| rest.strip_suffix("out").or(rest.strip_suffix("err")));
    number.is_some_and(|number| {
        let digits = number.strip_suffix('.').unwrap_or(number);
        digits.chars().all(|digit| digit.is_ascii_digit())
            && (number.is_empty() || number.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_raylet_of_a_session_has_its_log() {
        for name in ["raylet.out", "raylet.err", "raylet.1.out", "raylet.12.out"] {
            assert!(is_raylet_file(name), "{name}");
        }
        for name in ["raylet.out.1", "raylet.x.out", "raylet1.out", "raylet"] {
            assert!(!is_raylet_file(name), "{name}");
        }
    }

    #[test]
    fn worker_and_driver_file_names_are_parsed() {
        let worker = "2d84615f7f140986dbfe179f466ef9b6faa24b01641038cce6390fc9";
        let log = parse(&format!("python-core-worker-{worker}_24341.log")).expect("name");
        assert_eq!(log.worker_id, HexId::parse(worker));
        assert_eq!((log.pid, log.driver), (Some(Pid(24341)), false));
        let out = parse(&format!("worker-{worker}-ffffffff-24341.out")).expect("name");
        assert_eq!((out.job_id, out.pid), (None, Some(Pid(24341))));
        let driver = parse(
            "python-core-driver-03000000ffffffffffffffffffffffffffffffffffffffffffffffff_27612.log",
        );
        let driver = driver.expect("name");
        assert_eq!(driver.job_id, HexId::parse("03000000"));
        assert!(driver.driver);
        assert_eq!(parse("dashboard.log"), None);
        assert_eq!(parse("worker-zz-1-2.out"), None);
    }
}
