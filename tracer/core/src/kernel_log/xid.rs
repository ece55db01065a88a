//! Parses `NVRM: Xid`: the line of NVIDIA's driver in the kernel log about an error of a GPU. Pure.
//!
//! Mirrors `krcReportXid_IMPL` (`kernel_rc.c`) of NVIDIA's open kernel modules 515 to 610, and the
//! shorter lines of older drivers: without `name` (450), also without `pid` (418), without `PCI:`
//! (340). The words for a code are those of NVIDIA's catalogue of Xids
//! (docs.nvidia.com/deploy/xid-errors, R590).

use crate::{event::KernelLog, ids::Pid};

/// The beginning of a message. It must be the first text: inside another message it could be part
/// of a path or a name.
const BEGIN: &str = "NVRM: Xid (";
/// How many characters of the driver's text about the error are kept.
const MAX_TEXT: usize = 200;

/// Parses `NVRM: Xid (PCI:0000:65:00): 31, pid=1234, name=python, Ch 00000008, intr 00000000. MMU
/// Fault: …`.
pub fn parse(line: &str) -> Option<KernelLog> {
    let rest = line.trim_start().strip_prefix(BEGIN)?;
    let (device, rest) = rest.split_once("): ")?;
    let device = device.strip_prefix("PCI:").unwrap_or(device);
    // `0000:65:00 GPU-I:05 GPU-CI:02` where the GPU is partitioned (MIG).
    let (gpu, instance) = match device.split_once(' ') {
        Some((gpu, instance)) => (gpu, Some(instance.to_owned())),
        None => (device, None),
    };
    let hex = |part: &str| (2..=8).contains(&part.len()) && u32::from_str_radix(part, 16).is_ok();
    if gpu.split(':').count() != 3 || !gpu.split(':').all(hex) {
        return None;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (code, rest) = rest.split_at(digits);
    let (pid, rest) = field(said(rest), "pid=");
    let (comm, rest) = field(rest, "name=");
    Some(KernelLog::Xid {
        gpu: gpu.to_owned(),
        instance,
        code: code.parse().ok()?,
        pid: pid.and_then(|pid| pid.parse().ok()).map(Pid),
        comm: comm.map(str::to_owned),
        text: rest.trim().chars().take(MAX_TEXT).collect(),
    })
}

fn said(rest: &str) -> &str {
    rest.trim_start_matches([',', ' '])
}

/// Splits off the field at the beginning: its value, and the rest. A value that the driver did not
/// know (`pid='<unknown>'`) is `None`.
fn field<'a>(rest: &'a str, key: &str) -> (Option<&'a str>, &'a str) {
    let Some(behind) = rest.strip_prefix(key) else {
        return (None, rest);
    };
    let (value, rest) = behind.split_once(',').unwrap_or((behind, ""));
    let value = value.trim().trim_matches(['\'', '"']);
    let known = !matches!(value, "" | "0" | "<unknown>");
    (known.then_some(value), said(rest))
}

/// Returns NVIDIA's words for the codes that occur beside jobs; `None` for others.
pub fn meaning(code: u32) -> Option<&'static str> {
    Some(match code {
        8 | 43 | 46 => "GPU stopped processing",
        13 => "Graphics Engine Exception",
        31 => "GPU memory page fault",
        32 => "Invalid or corrupted push buffer stream",
        38 => "Driver firmware error",
        45 => "Preemptive cleanup, due to previous errors",
        48 => "Double Bit ECC Error",
        62 => "Internal micro-controller halt",
        63 => "GPU memory remapping event",
        64 => "GPU memory remapping failure",
        69 => "Graphics Engine class error",
        79 => "GPU has fallen off the bus",
        92 => "High single-bit ECC error rate",
        94 => "Contained memory error",
        95 => "Uncontained memory error",
        109 => "Context Switch Timeout Error",
        119 => "GSP RPC Timeout",
        120 => "GSP Error",
        121 => "C2C Error",
        137 => "NVLink Privilege Error",
        140 => "ECC Unrecovered Error",
        143 => "GPU Initialization Error",
        74 | 144..=150 => "NVLINK Error",
        154 => "GPU Recovery Action Changed",
        _ => return None,
    })
}

/// Whether two lines are about one GPU, code and process.
pub fn alike(one: &KernelLog, other: &KernelLog) -> bool {
    let key = |line: &KernelLog| match line {
        KernelLog::Xid { gpu, code, pid, .. } => Some((gpu.clone(), *code, *pid)),
        _ => None,
    };
    key(one).is_some() && key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::{kmsg_record, parse as line_of_log};

    /// Lines that people have posted, the oldest driver first, and what they say: GPU, code, pid,
    /// name, the beginning of the rest.
    const REAL: [(&str, &str); 14] = [
        (
            "NVRM: Xid (0000:03:00): 14, Channel 00000001",
            "0000:03:00 14 - - Channel",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
            "0000:01:00 79 - - GPU",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 31, Ch 0000005a, intr 10000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_1 faulted @ 0x0_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_READ",
            "0000:01:00 31 - - Ch",
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00): 31, pid=12890, Ch 0000003b, intr 00000000. MMU Fault: ENGINE HOST0 HUBCLIENT_HOST_CPU faulted @ 0x1_0c3c0000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
            "0000:c1:00 31 12890 - Ch",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.",
            "0000:01:00 79 1122 - GPU",
        ),
        (
            "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
            "0000:10:1c 63 1896 - Row",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            "0000:01:00 94 7194 - Contained:",
        ),
        (
            "NVRM: Xid (PCI:0000:0a:00): 31, pid=13332, name=cuda_plot_k32_v, Ch 00000010, intr 00000000. MMU Fault: ENGINE CE2 HUBCLIENT_CE0 faulted @ 0x7f29_5b8c9000. Fault is of type FAULT_PRIV_VIOLATION ACCESS_TYPE_VIRT_READ",
            "0000:0a:00 31 13332 cuda_plot_k32_v Ch",
        ),
        (
            "NVRM: Xid (PCI:0000:0a:00): 62, pid='<unknown>', name=<unknown>, 2023b230 20238a3a 2023e8b6",
            "0000:0a:00 62 - - 2023b230",
        ),
        (
            "NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter",
            "0000:cb:00 13 - - Graphics",
        ),
        (
            "NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x58005",
            "0000:cb:00 109 1797828 pt_main_thread Ch",
        ),
        (
            "NVRM: Xid (PCI:0000:00:06): 31, pid=79749, name=exe, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_7 faulted @ 0x2b57_b3000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
            "0000:00:06 31 79749 exe Ch",
        ),
        (
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
            "0000:dc:00 45 1818990 python3 Ch",
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)",
            "0019:01:00 149 - - NETIR",
        ),
    ];

    /// Each line gives the GPU, the code and the process, as far as that driver prints them.
    #[test]
    fn lines_of_each_driver_generation_are_parsed() {
        for (line, expected) in REAL {
            let Some(KernelLog::Xid {
                gpu,
                code,
                pid,
                comm,
                text,
                ..
            }) = line_of_log(line)
            else {
                panic!("{line}");
            };
            let pid = pid.map_or("-".to_owned(), |pid| pid.to_string());
            let (comm, first) = (comm.as_deref().unwrap_or("-"), text.split(' ').next());
            let found = format!("{gpu} {code} {pid} {comm} {}", first.unwrap_or_default());
            assert_eq!(found, expected, "{line}");
            assert!(
                line.contains(&text) && text.len() <= MAX_TEXT,
                "{line}: {text}"
            );
        }
    }

    #[test]
    fn mig_instance_is_kept_beside_the_address() {
        let line = "NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 43, pid=9, name=a, ";
        let Some(KernelLog::Xid {
            gpu,
            instance,
            text,
            ..
        }) = parse(line)
        else {
            panic!();
        };
        assert_eq!(
            (gpu.as_str(), instance.as_deref()),
            ("0000:3b:00", Some("GPU-I:01 GPU-CI:02"))
        );
        assert_eq!(text, "");
    }

    #[test]
    fn xid_words_elsewhere_in_a_line_are_no_xid() {
        let xid = REAL[7].0;
        for line in [
            // A path or a name inside another message of the kernel.
            format!("EXT4-fs error: comm /a/{xid}"),
            format!("python[7]: {xid}"),
            "NVRM: Xid (PCI:0000:0a:00): x, pid=1".into(),
            "NVRM: Xid (PCI:here): 31, pid=1".into(),
            "NVRM: Xid (PCI:0000:0a:00): 99999999999, pid=1".into(),
            "NVRM: GPU at PCI:0000:01:00: GPU-8a47641b-dff6-f09f-618c-c3eb58fb430d".into(),
            "nvidia-nvswitch3: SXid (PCI:0000:4e:00.0): 12028, Non-fatal, Link 32".into(),
        ] {
            assert_eq!(line_of_log(&line), None, "{line}");
        }
    }

    /// The kernel files what a process writes to /dev/kmsg under facility 1.
    #[test]
    fn xid_written_to_dev_kmsg_is_refused() {
        fn read(record: &str) -> Option<KernelLog> {
            line_of_log(kmsg_record(record)?.1)
        }
        let xid = REAL[7].0;
        let drivers = format!("3,1880,14328198504,-;{xid}\n");
        assert!(read(&drivers).is_some());
        // Facility user (1): the kernel sets it for what is written to /dev/kmsg without a
        // facility, or with the kernel's.
        for forged in [
            format!("11,1880,14328198504,-;{xid}\n"),
            format!("27,1,1,-;{xid}\n"),
        ] {
            assert_eq!(read(&forged), None, "{forged}");
        }
    }

    #[test]
    fn codes_without_nvidias_words_have_no_meaning() {
        assert_eq!(meaning(79), Some("GPU has fallen off the bus"));
        assert_eq!(meaning(14), None);
    }
}
