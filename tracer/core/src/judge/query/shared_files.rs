//! Reports shared memory by its files.

use crate::{
    ids::Bytes,
    judge::{
        report::{SharedFileUse, SharedUse},
        state::{owners, shared_files::Held, world::World},
    },
};

/// Returns shared memory at the moment when its known files were largest together.
pub(crate) fn report(world: &World) -> Option<SharedUse> {
    let files = &world.shared_files;
    let peak = files.peak.as_ref()?;
    let named = |held: &Held| {
        // A worker that had run nothing yet has its name by the end.
        let idle = held.file.holder.as_deref() == Some(owners::IDLE);
        if idle {
            held.named(&world.processes)
        } else {
            held.file.clone()
        }
    };
    let biggest: Vec<SharedFileUse> = peak.files.iter().map(named).collect();
    Some(SharedUse {
        time: world.clock.wall(peak.time)?,
        shared_bytes: peak.shared,
        remainder_bytes: remainder(peak.shared, &biggest),
        files: biggest,
        looked_ms: files.looked_us / 1000,
    })
}

/// Returns what no file in the list explains. It is negative only if figures moved between two
/// looks.
pub(crate) fn remainder(shared: Bytes, files: &[SharedFileUse]) -> i64 {
    let known: u64 = files.iter().map(|file| file.bytes.0).sum();
    shared.0.cast_signed() - known.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::report::SharedKind;

    #[test]
    fn unexplained_shared_memory_is_the_remainder() {
        let file = |mib: u64| SharedFileUse {
            kind: SharedKind::Memfd,
            name: "memfd:weights".into(),
            bytes: Bytes(mib << 20),
            holder_pid: None,
            holder: None,
            holders: 0,
            files: 1,
        };
        assert_eq!(
            remainder(Bytes(360 << 20), &[file(300), file(50)]),
            10 << 20
        );
    }
}
