//! Makes a number of texts that stays the same in every build, for names that outlive a process.

/// The offset and the prime of FNV-1a for 64 bits.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0100_0000_01b3);

/// Returns the hash of texts by FNV-1a. A byte that is in no UTF-8 text ends each of them.
pub(super) fn stable_hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(FNV.0, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of Kubernetes Events and numbers of cgroups are compared across builds.
    #[test]
    fn number_of_a_text_never_changes() {
        assert_eq!(stable_hash(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash(&["a"]), 0x089b_c907_b544_c769);
        assert_ne!(stable_hash(&["a", "b"]), stable_hash(&["ab"]));
    }
}
