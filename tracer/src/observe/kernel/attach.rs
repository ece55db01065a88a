//! Loads both eBPF objects, attaches their hooks, and says what is missing.

use std::sync::Arc;

use aya::{
    Btf as AyaBtf, Ebpf,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use raytrace_ebpf::{
    DEATHS_OBJECT,
    records::{AT_ENTRY, AT_EXIT, Hook, MemoryHook, Offsets},
};

use super::{
    btf::Btf,
    error::{KernelError, chain},
    fields::Fields,
    growth::{self, Growth},
    hooks::{self, Decoder},
    ledger::{Budget, Ledgers, Received},
    offsets,
    programs::{attach_function, attach_hook, give_back, loader, tracepoint},
    ring::Ring,
    symbols::{self, Symbols},
    tracked::Tracked,
};
use crate::{
    bounded,
    event::{INTERFERENCE_BY, Probe, ProbeState, SIGNALS_BY, TITLES_OF},
};

/// What observing the kernel needs, once the hooks are attached.
pub struct Attached {
    /// The ring, for the thread that empties it.
    pub ring: Ring,
    /// The tracked set.
    pub tracked: Tracked,
    /// The loss ledger.
    pub ledgers: Ledgers,
    /// The state of each hook.
    pub probes: Vec<Probe>,
    /// What processes map; `None` if its object did not load.
    pub growth: Option<Growth>,
    /// Holds the programs. They are detached when it is dropped.
    pub programs: AttachedPrograms,
}

/// Holds the attached programs.
pub struct AttachedPrograms {
    _ebpf: Ebpf,
}

/// The machine's own pid namespace: `PROC_PID_INIT_INO` of include/uapi/linux/nsfs.h, the same
/// number since 3.8.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
const PER_CPU_OFFSET: &str = "__per_cpu_offset";
/// The function of the kernel whose argument says what was short of memory. Without a program at
/// its entry, verdicts rest on other evidence.
const OUT_OF_MEMORY: &str = "out_of_memory";
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// `none integrity [confidentiality]`: security/lockdown/lockdown.c, since 5.4. The file is missing
/// where securityfs is not mounted.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// Ten times the size that kernels have.
const BTF_BYTES: u64 = 64 << 20;

/// Loads and attaches everything that this kernel accepts. With `one_cluster`, a raylet that starts
/// is not tracked automatically, because the caller chose one cluster.
///
/// # Errors
///
/// When a needed hook cannot be attached, with the reason.
pub fn attach(one_cluster: bool) -> Result<Attached, KernelError> {
    attach_all(one_cluster).map_err(|error| {
        let lockdown = bounded::text(LOCKDOWN, bounded::SMALL).unwrap_or_default();
        match error {
            error if !lockdown.contains("[confidentiality]") => error,
            // The verifier's message for each program adds nothing.
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
    let fields = Fields { btf: &types };
    let offsets = offsets::find(&fields, symbols::address(PER_CPU_OFFSET))?;
    let for_memory = growth::offsets(&fields, &offsets);
    let hooks = Hook::ALL.map(Hook::name).into_iter();
    let is_of_function = |hook: &&str| hook.starts_with(AT_EXIT) || hook.starts_with(AT_ENTRY);
    let (functions, hooks): (Vec<_>, Vec<_>) = hooks.partition(is_of_function);
    let hooks = hooks
        .into_iter()
        .chain(MemoryHook::ALL.map(MemoryHook::name));
    let tracepoints: Vec<&str> = hooks.map(tracepoint).collect();
    let functions = functions.into_iter().map(tracepoint);
    let functions: Vec<&str> = functions.chain([OUT_OF_MEMORY]).collect();
    // Parsing the full table would make a heap block for each struct and prototype of the kernel.
    let prototypes = types.prototypes(&tracepoints, &functions);
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
        let cost = hooks::of(hook).cost;
        // The hook works if its first program does.
        probes.extend(states.into_iter().take(1).map(|probe| {
            let reason = probe.reason.map(|reason| match cost {
                "" => reason,
                cost => format!("{cost}: {reason}"),
            });
            Probe {
                required,
                reason,
                ..probe
            }
        }));
        refuse_without(hook, probes.last())?;
    }
    let at_entry = attach_function(&mut ebpf, &btf, OUT_OF_MEMORY);
    probes.push(Probe {
        reason: at_entry.reason.map(|error| {
            format!("the kernel log or counts say which cgroup was at its limit: {error}")
        }),
        ..at_entry
    });
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
    let mut budget = |rows: &'static str, users: &str, all: &str| -> Result<Budget, KernelError> {
        Ok(Budget {
            rows,
            users: HashMap::try_from(map(&mut ebpf, users)?).map_err(wrong)?,
            all: Array::try_from(map(&mut ebpf, all)?).map_err(wrong)?,
        })
    };
    let budgets = [
        budget(TITLES_OF, "USER_RENAMED", "ALL_RENAMED")?,
        budget(INTERFERENCE_BY, "USER_INTERFERED", "ALL_INTERFERED")?,
        budget(SIGNALS_BY, "USER_SIGNALLED", "ALL_SIGNALLED")?,
    ];
    Ok(Attached {
        ring: Ring::new(ring, unsent, Decoder::new(symbols), Arc::clone(&received)),
        tracked: Tracked::new(tracked),
        ledgers: Ledgers::new(counters, budgets, programs, received),
        probes,
        growth,
        programs: AttachedPrograms { _ebpf: ebpf },
    })
}

/// Fails if a hook that is needed does not work: deaths would then be reported only by chance.
fn refuse_without(hook: Hook, probe: Option<&Probe>) -> Result<(), KernelError> {
    let works = probe.is_some_and(|probe| probe.state == ProbeState::Ok);
    if works || !hooks::of(hook).is_needed {
        return Ok(());
    }
    let reason = probe.and_then(|probe| probe.reason.clone());
    Err(KernelError::Refused {
        hook: hook.name(),
        reason: reason.unwrap_or_default(),
    })
}

fn load(offsets: &Offsets, one_cluster: bool) -> Result<Ebpf, KernelError> {
    // SAFETY: Offsets is repr(C), plain integers without padding between them, and outlives the
    // slice.
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
