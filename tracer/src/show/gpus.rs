//! Describes GPUs in a line: how full they were, and their errors by NVML and the kernel log.

use crate::{
    ids::Bytes,
    judge::report::{GpuError, GpuReport, Report},
    phrase,
    show::{sanitize, size::of},
};

/// Maximum number of errors that are shown.
const MOST: usize = 4;
/// The Xid of the cleanup after a process or another Xid. It is shown after those.
const CLEANUP: u32 = 45;

/// `61.2 of 79.1 GiB at most on each of 8; 3 uncorrected ECC errors on GPU 2`.
pub(super) fn line(report: &Report) -> Option<String> {
    let memory = said(&report.gpus, " at most", |gpu| gpu.peak_bytes);
    phrase::known([memory, errors(&report.gpu_errors)], "; ")
}

/// Returns `60.0 of 80.0 GiB on each of 8`: what is in use now.
pub(super) fn now(gpus: &[GpuReport]) -> Option<String> {
    said(gpus, "", |gpu| gpu.used_bytes)
}

/// Returns the errors that NVIDIA's driver reported: `Xid 31 (GPU memory page fault) 3 times on
/// 0000:0a:00 by python (pid 7)`.
pub(super) fn errors(errors: &[GpuError]) -> Option<String> {
    let mut sorted: Vec<&GpuError> = errors.iter().collect();
    sorted.sort_by_key(|error| error.code == CLEANUP);
    let mut parts: Vec<String> = sorted.iter().take(MOST).map(|error| one(error)).collect();
    if sorted.len() > MOST {
        parts.push(format!("{} more (JSON: gpu_errors)", sorted.len() - MOST));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn one(error: &GpuError) -> String {
    let words = error
        .meaning
        .map_or_else(String::new, |words| format!(" ({words})"));
    let times = match error.count {
        1 => String::new(),
        count => format!(" {count} times"),
    };
    let whose = match (&error.comm, error.pid) {
        (Some(comm), Some(pid)) => format!(" by {} (pid {pid})", sanitize::name(comm)),
        (None, Some(pid)) => format!(" by pid {pid}"),
        _ => String::new(),
    };
    format!("Xid {}{words}{times} on {}{whose}", error.code, error.gpu)
}

fn said(gpus: &[GpuReport], when: &str, bytes: impl Fn(&GpuReport) -> Bytes) -> Option<String> {
    let figure = |gpu: &GpuReport| of(bytes(gpu), gpu.total_bytes);
    let first = figure(gpus.first()?);
    let mut parts = if gpus.len() > 1 && gpus.iter().all(|gpu| figure(gpu) == first) {
        vec![format!("{first}{when} on each of {}", gpus.len())]
    } else {
        let each = gpus
            .iter()
            .map(|gpu| format!("GPU {} {}", gpu.device, figure(gpu)));
        vec![format!("{}{when}", each.collect::<Vec<_>>().join(", "))]
    };
    parts.extend(gpus.iter().filter_map(|gpu| {
        let errors = gpu.uncorrected_errors.filter(|errors| *errors > 0)?;
        Some(format!(
            "{errors} uncorrected ECC errors on GPU {}",
            gpu.device
        ))
    }));
    Some(parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Pid,
        show::sample::{self, gib},
    };

    #[test]
    fn equal_gpus_share_one_figure() {
        let mut report = sample::report(Vec::new(), Vec::new());
        assert_eq!(line(&report), None);
        let gpu = |device| GpuReport {
            device,
            total_bytes: gib(79.1),
            used_bytes: gib(1.0),
            peak_bytes: gib(61.2),
            peak_time: None,
            uncorrected_errors: (device == 1).then_some(3),
        };
        report.gpus = vec![gpu(0), gpu(1)];
        assert_eq!(
            line(&report).as_deref(),
            Some("61.2 of 79.1 GiB at most on each of 2; 3 uncorrected ECC errors on GPU 1")
        );
        assert_eq!(
            now(&report.gpus).as_deref(),
            Some("1.0 of 79.1 GiB on each of 2; 3 uncorrected ECC errors on GPU 1")
        );
        report.gpus[0].peak_bytes = gib(8.0);
        let text = line(&report).expect("a line");
        assert!(
            text.starts_with("GPU 0 8.0 of 79.1 GiB, GPU 1 61.2 of 79.1 GiB at most;"),
            "{text}"
        );
    }

    /// Cleanup errors (Xid 45) come after the errors that they follow from.
    #[test]
    fn driver_errors_list_consequences_last() {
        let mut report = sample::report(Vec::new(), Vec::new());
        let error = |code, pid, comm: Option<&str>, count| GpuError {
            gpu: "0000:0a:00".into(),
            code,
            meaning: crate::kernel_log::xid::meaning(code),
            pid,
            comm: comm.map(str::to_owned),
            count,
            first: None,
            last: None,
            text: "Ch 00000010".into(),
        };
        report.gpu_errors = vec![
            error(45, None, None, 8),
            error(31, Some(Pid(7)), Some("py\u{1b}[31mthon"), 3),
            error(14, Some(Pid(8)), None, 1),
        ];
        let text = line(&report).expect("a line");
        assert_eq!(
            text,
            "Xid 31 (GPU memory page fault) 3 times on 0000:0a:00 by py\\e[31mthon (pid 7); Xid 14 on 0000:0a:00 by pid 8; Xid 45 (Preemptive cleanup, due to previous errors) 8 times on 0000:0a:00"
        );
        report.gpu_errors = (0..6).map(|code| error(code, None, None, 1)).collect();
        let text = line(&report).expect("a line");
        assert!(text.ends_with("; 2 more (JSON: gpu_errors)"), "{text}");
    }
}
