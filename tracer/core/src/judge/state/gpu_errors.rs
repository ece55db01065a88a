//! Counts errors of GPUs that NVIDIA's driver reported in the kernel log.
//!
//! They are kept by GPU, code and process, with how often and when.

use crate::{
    event::KernelLog,
    judge::report::{GpuError, Utc},
    kernel_log::xid,
};

/// At most this many errors are told apart. More come from a GPU that many processes met one after
/// another.
const MOST: usize = 1024;

/// All errors. `T` is a moment of some clock.
#[derive(Debug, Clone, Default)]
pub struct GpuErrors<T> {
    kinds: Vec<Kind<T>>,
}

/// The errors of one GPU, code and process, with when they came.
#[derive(Debug, Clone)]
struct Kind<T> {
    error: GpuError,
    first: T,
    last: T,
}

impl<T: Copy> GpuErrors<T> {
    /// Counts a line of the kernel log, if it is about a GPU.
    pub fn add_line(&mut self, time: T, line: &KernelLog) {
        let KernelLog::Xid {
            gpu,
            code,
            pid,
            comm,
            text,
            ..
        } = line
        else {
            return;
        };
        let same = |kind: &&mut Kind<T>| {
            let known = &kind.error;
            known.gpu == *gpu && known.code == *code && known.pid == *pid
        };
        if let Some(known) = self.kinds.iter_mut().find(same) {
            known.error.count += 1;
            known.last = time;
        } else if self.kinds.len() < MOST {
            let error = GpuError {
                gpu: gpu.clone(),
                code: *code,
                meaning: xid::meaning(*code),
                pid: *pid,
                comm: comm.clone(),
                count: 1,
                first: None,
                last: None,
                text: text.clone(),
            };
            let (first, last) = (time, time);
            self.kinds.push(Kind { error, first, last });
        }
    }

    /// Returns the errors as the report has them, in the order of the first of each.
    pub(crate) fn report(&self, wall: impl Fn(T) -> Option<Utc>) -> Vec<GpuError> {
        let kinds = self.kinds.iter();
        kinds
            .map(|kind| GpuError {
                first: wall(kind.first),
                last: wall(kind.last),
                ..kind.error.clone()
            })
            .collect()
    }
}
