//! Loads an object and attaches each program of a hook, in the first form that the kernel accepts.

use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use aya::{
    Btf as AyaBtf, Ebpf, EbpfLoader,
    programs::{BtfTracePoint, FEntry, FExit, Program, ProgramError, RawTracePoint},
};

use raytrace_ebpf::records::{AT_ENTRY, AT_EXIT};

use super::error::chain;
use crate::event::{Probe, ProbeState};

/// Makes a loader that relocates nothing. aya reads all types of the kernel (24 MiB) when it makes
/// a loader, even if they are not used.
pub(super) fn loader<'a>() -> EbpfLoader<'a> {
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    give_back();
    loader
}

/// Returns memory that was used only briefly to the system; glibc would keep it.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases free memory of the heaps; it takes malloc's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Attaches one program of a hook as `tp_btf`, or else as a raw tracepoint, which sees the same.
/// That of a function has one form. The caller sets whether the probe is required.
pub(super) fn attach_hook(
    ebpf: &mut Ebpf,
    btf: &AyaBtf,
    hook: &str,
    stem: &str,
) -> (Probe, Option<RawFd>) {
    let tracepoint = tracepoint(hook);
    let probe = |state, reason| Probe {
        name: hook.to_owned(),
        state,
        reason,
        required: false,
    };
    let at_exit = hook.strip_prefix(AT_EXIT);
    let at_exit = at_exit.map(|function| by_fexit(ebpf, btf, stem, function));
    let at_entry = hook.strip_prefix(AT_ENTRY);
    if let Some(attached) = at_exit.or_else(|| at_entry.map(|_| by_fentry(ebpf, btf, stem))) {
        return match attached {
            Ok(fd) => (probe(ProbeState::Ok, None), Some(fd)),
            Err(error) => (probe(ProbeState::Missing, Some(chain(&error))), None),
        };
    }
    let first = match by_btf(ebpf, btf, &format!("{stem}_btf"), tracepoint) {
        Ok(fd) => return (probe(ProbeState::Ok, None), Some(fd)),
        Err(error) => chain(&error),
    };
    match by_raw(ebpf, &format!("{stem}_raw"), tracepoint) {
        Ok(fd) => (
            probe(
                ProbeState::Ok,
                Some(format!("as raw tracepoint; as BTF tracepoint: {first}")),
            ),
            Some(fd),
        ),
        Err(error) => {
            let reason = format!(
                "as BTF tracepoint: {first}; as raw tracepoint: {}",
                chain(&error)
            );
            (probe(ProbeState::Missing, Some(reason)), None)
        }
    }
}

/// Attaches a program of the same name to the entry of a kernel function.
pub(super) fn attach_function(ebpf: &mut Ebpf, btf: &AyaBtf, function: &str) -> Probe {
    let error = by_fentry(ebpf, btf, function).err();
    Probe {
        name: format!("fentry/{function}"),
        state: match error {
            None => ProbeState::Ok,
            Some(_) => ProbeState::Missing,
        },
        reason: error.map(|error| chain(&error)),
        required: false,
    }
}

/// Attaches the program of a function to its entry.
fn by_fentry(ebpf: &mut Ebpf, btf: &AyaBtf, function: &str) -> Result<RawFd, ProgramError> {
    let program: &mut FEntry = program_mut(ebpf, function)?.try_into()?;
    program.load(function, btf)?;
    program.attach()?;
    Ok(program.fd()?.as_fd().as_raw_fd())
}

fn by_fexit(
    ebpf: &mut Ebpf,
    btf: &AyaBtf,
    program: &str,
    function: &str,
) -> Result<RawFd, ProgramError> {
    let program: &mut FExit = program_mut(ebpf, program)?.try_into()?;
    program.load(function, btf)?;
    program.attach()?;
    Ok(program.fd()?.as_fd().as_raw_fd())
}

/// Returns the tracepoint of a hook, or its function: `mark_victim` for `oom/mark_victim`.
pub(super) fn tracepoint(hook: &str) -> &str {
    hook.rsplit('/').next().unwrap_or(hook)
}

fn by_btf(
    ebpf: &mut Ebpf,
    btf: &AyaBtf,
    program: &str,
    tracepoint: &str,
) -> Result<RawFd, ProgramError> {
    let program: &mut BtfTracePoint = program_mut(ebpf, program)?.try_into()?;
    program.load(tracepoint, btf)?;
    program.attach()?;
    Ok(program.fd()?.as_fd().as_raw_fd())
}

fn by_raw(ebpf: &mut Ebpf, program: &str, tracepoint: &str) -> Result<RawFd, ProgramError> {
    let program: &mut RawTracePoint = program_mut(ebpf, program)?.try_into()?;
    program.load()?;
    program.attach(tracepoint)?;
    Ok(program.fd()?.as_fd().as_raw_fd())
}

fn program_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Program, ProgramError> {
    ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)
}
