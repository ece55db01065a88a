//! Loads the object and attaches its hooks, each in the first form that the kernel takes.

use std::{
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::Arc,
};

use aya::{
    Btf as AyaBtf, Ebpf, EbpfLoader,
    maps::{HashMap, PerCpuArray, RingBuf},
    programs::{BtfTracePoint, ProgramError, RawTracePoint},
};
use raytrace_ebpf::{
    DEATHS_OBJECT,
    records::{Hook, MemoryHook, Offsets},
};

use super::{
    btf::{Btf, BtfError},
    decode::Decoder,
    growth::{self, Growth},
    ledger::{Ledgers, Received},
    offsets,
    ring::Ring,
    symbols::{self, Symbols},
    tracked::Tracked,
};
use crate::{
    bounded,
    event::{Probe, ProbeState},
};

/// Why nothing can be observed in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No type information.
    #[error(
        "this kernel has no type information ({path}: {source}); eBPF programs cannot find its structs"
    )]
    NoBtf {
        /// Where it should be.
        path: &'static str,
        /// What reading it said.
        source: std::io::Error,
    },
    /// Damaged type information.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// A struct has changed beyond what is known.
    #[error("this kernel's {structure} has no field {field}: please report its version")]
    NoField {
        /// The struct.
        structure: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The bpf system call is refused.
    #[error("loading eBPF programs is not permitted ({0})")]
    NotPermitted(String),
    /// The kernel's pids are not those of /proc here.
    #[error(
        "this is a pid namespace of its own ({0}), where the pids of /proc are not those that the kernel tells"
    )]
    PidNamespace(String),
    /// The kernel was told at its start to keep its memory from everybody.
    #[error(
        "this kernel is locked down (lockdown=confidentiality) and refuses eBPF programs that read its memory: {0}"
    )]
    LockedDown(String),
    /// The object did not load.
    #[error("the eBPF object did not load: {0}")]
    Load(String),
    /// A hook that everything rests on did not load or attach.
    #[error("this kernel refuses the hook {hook}, without which no death can be proven ({reason})")]
    Refused {
        /// Its name.
        hook: &'static str,
        /// What the kernel said.
        reason: String,
    },
}

/// What an attached kernel gives.
pub struct Attached {
    /// The ring, for the thread that empties it.
    pub ring: Ring,
    /// The tracked set.
    pub tracked: Tracked,
    /// The loss ledger.
    pub ledgers: Ledgers,
    /// State of each hook.
    pub probes: Vec<Probe>,
    /// What processes map; `None` where its object did not load.
    pub growth: Option<Growth>,
    /// Holds the programs: they are detached when it is dropped.
    pub keep: Keep,
}

/// Holds the attached programs.
pub struct Keep {
    _ebpf: Ebpf,
}

/// The machine's own pid namespace: `PROC_PID_INIT_INO` of include/uapi/linux/nsfs.h, the same number since 3.8.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
const PER_CPU_OFFSET: &str = "__per_cpu_offset";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// `none integrity [confidentiality]`: security/lockdown/lockdown.c, since 5.4. Hidden where securityfs is not mounted.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Ten times what kernels have.
const BTF_BYTES: u64 = 64 << 20;

/// The hooks without which acts are not observed: who is tracked, who ended, and who sent a signal.
const NEEDED: [Hook; 3] = [Hook::Fork, Hook::Exit, Hook::Signal];

/// Loads and attaches everything that this kernel takes. With `one_cluster` a raylet that starts is not tracked by
/// itself: the caller chose one.
///
/// # Errors
///
/// When a hook that proof rests on cannot be attached, with the reason.
pub fn attach(one_cluster: bool) -> Result<Attached, KernelError> {
    attach_all(one_cluster).map_err(|error| {
        let lockdown = bounded::text(LOCKDOWN, bounded::SMALL).unwrap_or_default();
        match error {
            error if !lockdown.contains("[confidentiality]") => error,
            // What the verifier says of each program adds nothing.
            KernelError::Refused { hook, .. } => KernelError::LockedDown(hook.to_owned()),
            other => KernelError::LockedDown(other.to_string()),
        }
    })
}

fn attach_all(one_cluster: bool) -> Result<Attached, KernelError> {
    if let Ok(namespace) = std::fs::read_link("/proc/self/ns/pid")
        && namespace.as_os_str() != FIRST_PID_NAMESPACE
    {
        return Err(KernelError::PidNamespace(namespace.display().to_string()));
    }
    let data =
        bounded::file(BTF, BTF_BYTES).map_err(|source| KernelError::NoBtf { path: BTF, source })?;
    let types = Btf::parse(data)?;
    let offsets = offsets::find(&types, symbols::address(PER_CPU_OFFSET))?;
    let for_memory = growth::offsets(&types, &offsets);
    let hooks = Hook::ALL.map(Hook::name).into_iter();
    let hooks = hooks.chain(MemoryHook::ALL.map(MemoryHook::name));
    let tracepoints: Vec<&str> = hooks.map(tracepoint).collect();
    // The full table is a heap block for each struct and prototype of the kernel.
    let prototypes = types.prototypes(&tracepoints);
    drop(types);
    #[expect(clippy::default_trait_access, reason = "aya does not hand the type on")]
    let btf = AyaBtf::parse(&prototypes, Default::default())
        .map_err(|error| KernelError::Load(error.to_string()))?;
    let mut ebpf = load(&offsets, one_cluster)?;
    let received = Arc::new(Received::default());
    let mut probes = Vec::new();
    let mut programs = Vec::new();
    for hook in Hook::ALL {
        let stems = hook.programs().iter();
        let attached = stems.map(|stem| attach_hook(&mut ebpf, &btf, hook.name(), stem));
        let (states, fds): (Vec<_>, Vec<_>) = attached.unzip();
        programs.extend(fds.into_iter().flatten().map(|fd| (hook, fd)));
        let required = hook.is_required();
        // The hook works where its first program does.
        probes.extend(
            states
                .into_iter()
                .take(1)
                .map(|probe| Probe { required, ..probe }),
        );
        refuse_without(hook, probes.last())?;
    }
    let (growth, more) = growth::load(&for_memory, &btf);
    probes.extend(more);
    let symbols = Symbols::load();
    give_back();
    let map = |ebpf: &mut Ebpf, name: &str| {
        ebpf.take_map(name)
            .ok_or_else(|| KernelError::Load(format!("the object has no map {name}")))
    };
    let wrong = |error: aya::maps::MapError| KernelError::Load(error.to_string());
    let ring = RingBuf::try_from(map(&mut ebpf, "DEATHS")?).map_err(wrong)?;
    let unsent = HashMap::try_from(map(&mut ebpf, "UNSENT")?).map_err(wrong)?;
    let tracked = HashMap::try_from(map(&mut ebpf, "TRACKED")?).map_err(wrong)?;
    let counters = PerCpuArray::try_from(map(&mut ebpf, "LEDGER")?).map_err(wrong)?;
    Ok(Attached {
        ring: Ring::new(ring, unsent, Decoder::new(symbols), Arc::clone(&received)),
        tracked: Tracked::new(tracked),
        ledgers: Ledgers::new(counters, programs, received),
        probes,
        growth,
        keep: Keep { _ebpf: ebpf },
    })
}

/// What loads and is refused at a hook that is needed would tell of deaths by chance.
fn refuse_without(hook: Hook, probe: Option<&Probe>) -> Result<(), KernelError> {
    let works = probe.is_some_and(|probe| probe.state == ProbeState::Ok);
    if works || !NEEDED.contains(&hook) {
        return Ok(());
    }
    let reason = probe.and_then(|probe| probe.reason.clone());
    Err(KernelError::Refused {
        hook: hook.name(),
        reason: reason.unwrap_or_default(),
    })
}

fn load(offsets: &Offsets, one_cluster: bool) -> Result<Ebpf, KernelError> {
    // SAFETY: Offsets is repr(C), plain integers without padding between them, and outlives the slice.
    let bytes = unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(offsets).cast::<u8>(),
            size_of::<Offsets>(),
        )
    };
    let loaded = loader()
        .override_global("OFFSETS", bytes, true)
        .override_global("ONE_CLUSTER", &u32::from(one_cluster), true)
        .override_global("HAS_REGISTERS", &u32::from(growth::gives_registers()), true)
        .load(DEATHS_OBJECT);
    loaded.map_err(|error| {
        let text = chain(&error);
        if text.contains("Operation not permitted") || text.contains("os error 1)") {
            KernelError::NotPermitted(text)
        } else {
            KernelError::Load(text)
        }
    })
}

/// A loader that relocates nothing. aya reads all types of the kernel (24 MiB) when a loader is made, whether it will use them or not.
pub(super) fn loader<'a>() -> EbpfLoader<'a> {
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    give_back();
    loader
}

/// Memory that was used for a moment, which glibc would keep.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases free memory of the heaps; it takes malloc's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Attaches one program of a hook as `tp_btf`, else as raw tracepoint; a raw tracepoint sees the same, a little later in the load.
/// Whether the probe is required is for the caller to say.
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

/// `mark_victim` of `oom/mark_victim`.
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

pub(super) fn program_mut<'a>(
    ebpf: &'a mut Ebpf,
    name: &str,
) -> Result<&'a mut aya::programs::Program, ProgramError> {
    ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)
}

/// An error with its causes, the end of a verifier log kept.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    let skip = text.chars().count().saturating_sub(400);
    text.chars().skip(skip).collect()
}
