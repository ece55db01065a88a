//! Reads the figures in torch's message about a GPU that ran out of memory.
//!
//! Mirrors `CUDACachingAllocator.cpp`, torch 1.10 to 2.9: `CUDA out of memory. Tried to allocate
//! 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 17.75 MiB is free. … Of the allocated
//! memory 74.21 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.`;
//! up to 2.0 `Tried to allocate 2.00 GiB (GPU 0; 79.10 GiB total capacity; 74.21 GiB already
//! allocated; 17.75 MiB free; 75.41 GiB reserved in total by PyTorch)`.

use std::sync::LazyLock;

use regex::Regex;

use super::words::pattern;

/// A size as torch writes it.
const SIZE: &str = r"([\d.]+ (?:bytes|KiB|MiB|GiB))";

static WANTED: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("Tried to allocate {SIZE}")));
static DEVICE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bGPU (\d+)\b"));
static TOTAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        "total capac(?:i)?ty of {SIZE}|{SIZE} total capacity"
    ))
});
static FREE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!("of which {SIZE} is free|; {SIZE} free")));
static HELD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        "{SIZE} is allocated by PyTorch|; {SIZE} already allocated"
    ))
});
static RESERVE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!("{SIZE} is reserved by PyTorch but unallocated")));

fn find<'a>(regex: &Regex, text: &'a str) -> Option<&'a str> {
    let found = regex.captures(text)?;
    let group = found.iter().skip(1).flatten().next()?;
    Some(group.as_str())
}

/// Returns a clause: how much torch wanted, on which GPU, and what was free and held there. `None`
/// where a text does not say how much was wanted.
pub fn figures(text: &str) -> Option<String> {
    let wanted = find(&WANTED, text)?;
    let mut told = format!("torch wanted {wanted}");
    if let Some(device) = find(&DEVICE, text) {
        told.push_str(&format!(" on GPU {device}"));
    }
    match (find(&FREE, text), find(&TOTAL, text)) {
        (Some(free), Some(total)) => told.push_str(&format!(", which had {free} of {total} free")),
        (None, Some(total)) => told.push_str(&format!(", which has {total}")),
        (Some(free), None) => told.push_str(&format!(", which had {free} free")),
        (None, None) => {}
    }
    if let Some(held) = find(&HELD, text) {
        told.push_str(&format!("; torch held {held} there"));
        if let Some(reserve) = find(&RESERVE, text) {
            told.push_str(&format!(" and {reserve} in reserve"));
        }
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_old_and_new_messages_are_read() {
        let old = "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.10 GiB total capacity; 74.21 GiB already allocated; 17.75 MiB free; 75.41 GiB reserved in total by PyTorch)";
        assert_eq!(
            figures(old).as_deref(),
            Some(
                "torch wanted 20.00 MiB on GPU 0, which had 17.75 MiB of 79.10 GiB free; torch held 74.21 GiB there"
            )
        );
        let cut = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacty of 79.10 GiB";
        assert_eq!(
            figures(cut).as_deref(),
            Some("torch wanted 2.00 GiB on GPU 3, which has 79.10 GiB")
        );
        assert_eq!(figures("CUDA error: out of memory"), None);
    }
}
