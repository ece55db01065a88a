//! Parses lines of `EasyR1`, verl and vLLM about GPU memory around an offload or a sleep.
//!
//! - `EasyR1`: `After vllm offload in sharding manager: 7.87 GB / 79.10 GB.`
//! - verl: `After rollout offload, memory allocated (GB): 1.2, memory reserved (GB): 2.0, device
//!   memory used/total (GB): 7.87/79.10`
//! - vLLM: `CuMemAllocator: sleep freed 34.06 GiB memory in total, of which 7.56 GiB is backed up
//!   in CPU and the rest …`

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::{
    ids::Bytes,
    ray::{facts::GpuMoved, words::pattern},
};

/// Each of these lines contains one of these texts.
pub const KEYWORDS: [&str; 3] = [
    "sleep freed ",
    " offload in sharding manager",
    " offload, memory allocated",
];

static POINT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(Before|After) ([A-Za-z0-9_ ]{0,60}offload[A-Za-z0-9_ ]{0,40})(?:: |, memory allocated.{0,120}?used/total \(GB\): ?)(\d{1,6}\.\d+)(?: GB)? ?/ ?(\d{1,6}\.\d+)",
    )
});
static SLEPT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"sleep freed (\d{1,6}\.\d+) GiB memory in total, of which (\d{1,6}\.\d+) GiB is backed up in CPU",
    )
});

/// Parses a line. The frameworks' "GB" are 2³⁰ bytes, like Ray's.
pub fn parse(text: &str) -> Option<GpuMoved> {
    if !KEYWORDS.iter().any(|words| text.contains(words)) {
        return None;
    }
    if let Some(found) = SLEPT.captures(text) {
        return Some(GpuMoved::Slept {
            freed: size(&found, 1)?,
            to_host: size(&found, 2)?,
        });
    }
    let found = POINT.captures(text)?;
    let what = found[2].trim().to_owned();
    let (used, total) = (size(&found, 3)?, size(&found, 4)?);
    Some(if &found[1] == "Before" {
        GpuMoved::Before { what, used, total }
    } else {
        GpuMoved::After { what, used, total }
    })
}

fn size(found: &Captures<'_>, group: usize) -> Option<Bytes> {
    let gib: f64 = found.get(group)?.as_str().parse().ok()?;
    Some(Bytes(1 << 30).times(gib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_three_frameworks_are_parsed() {
        let used = |text: &str| match parse(text) {
            Some(GpuMoved::Before { used, total, .. } | GpuMoved::After { used, total, .. }) => {
                format!("{:.2} of {:.2}", used.gib(), total.gib())
            }
            Some(GpuMoved::Slept { freed, to_host }) => {
                format!("{:.2} to {:.2}", freed.gib(), to_host.gib())
            }
            None => String::new(),
        };
        assert_eq!(
            used("Before vllm offload in sharding manager: 66.48 GB / 79.10 GB."),
            "66.48 of 79.10"
        );
        assert_eq!(
            used(
                "After rollout offload, memory allocated (GB): 1.20, memory reserved (GB): 2.00, device memory used/total (GB): 7.87/79.10"
            ),
            "7.87 of 79.10"
        );
        assert_eq!(
            used(
                "INFO 11-14 15:11:23 [device_allocator/cumem.py:239] CuMemAllocator: sleep freed 34.06 GiB memory in total, of which 7.56 GiB is backed up in CPU and the rest 26.51 GiB is discarded directly."
            ),
            "34.06 to 7.56"
        );
        assert_eq!(used("After vllm offload in sharding manager"), "");
        assert_eq!(
            used("worker offload in sharding manager: 1.0 GB / 2.0 GB"),
            ""
        );
    }
}
