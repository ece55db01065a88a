//! Describes what was in use when the least memory was available, as a sum with its remainder.

use crate::{
    ids::Bytes,
    judge::report::InUse,
    phrase::when,
    show::{shared_files, size::Unit},
};

/// A file of shared memory is named if it holds at least one part in this many of all memory in
/// use.
const PART: u64 = 10;

/// Before the sum, in every view.
pub(super) const LABEL: &str = "Machine with its page cache";

/// `3.9 GiB in use = 1.2 GiB of recorded processes + 0.4 others + 0.5 shared + 1.5 page cache + 0.2
/// kernel + 0.1 unaccounted`.
pub(super) fn line(sum: &InUse) -> String {
    let unit = Unit::of(sum.used_bytes);
    let figure = |bytes, name| format!("{} {name}", unit.figure(bytes));
    let others = match (sum.others_counted, sum.others_private_bytes) {
        (true, others) => Some(figure(others, "others")),
        (false, Bytes(0)) => None,
        (false, others) => Some(figure(others, "others (estimated)")),
    };
    let not_counted = when(others.is_none(), "; other processes were not counted");
    let mut parts = vec![format!(
        "{} of recorded processes",
        unit.sum(sum.private_bytes)
    )];
    parts.extend(others);
    parts.extend([
        figure(sum.shared_bytes, "shared"),
        figure(sum.cache_bytes, "page cache"),
        figure(sum.kernel_bytes, "kernel"),
    ]);
    let largest = sum.shared_files.first();
    let largest = largest.filter(|file| file.bytes.0 * PART >= sum.used_bytes.0);
    let whose = largest.map_or_else(String::new, |file| {
        let figure = unit.figure(file.bytes);
        format!("; {figure} of the shared is {}", shared_files::what(file))
    });
    let sign = if sum.remainder_bytes < 0 { '−' } else { '+' };
    let rest = unit.figure(Bytes(sum.remainder_bytes.unsigned_abs()));
    format!(
        "{} in use = {} {sign} {rest} unaccounted{whose}{not_counted}",
        unit.sum(sum.used_bytes),
        parts.join(" + ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Pid,
        judge::report::{SharedFileUse, SharedKind},
        show::sample::{at, gib},
    };

    #[test]
    fn parts_and_remainder_add_up() {
        let sum = InUse {
            time: at(0),
            used_bytes: gib(3.9),
            private_bytes: gib(1.2),
            others_private_bytes: gib(0.4),
            others_counted: true,
            shared_bytes: gib(0.5),
            shared_files: vec![SharedFileUse {
                name: "memfd:weights".into(),
                kind: SharedKind::Memfd,
                bytes: gib(0.4),
                holder_pid: Some(Pid(7)),
                holder: Some("Holder".into()),
                holders: 1,
                files: 1,
            }],
            shared_remainder_bytes: gib(0.1).0.cast_signed(),
            cache_bytes: gib(1.5),
            kernel_bytes: gib(0.2),
            remainder_bytes: gib(0.1).0.cast_signed(),
            error_bytes: gib(0.05),
        };
        assert_eq!(
            line(&sum),
            "3.9 GiB in use = 1.2 GiB of recorded processes + 0.4 others + 0.5 shared + 1.5 page cache + 0.2 kernel + 0.1 unaccounted; \
             0.4 of the shared is memfd:weights (Holder pid 7)"
        );
    }
}
