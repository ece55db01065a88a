//! Samples the largest processes outside Ray that count against the next limit.
//!
//! They are sampled near the limit, so that the report on a death can name the holder of the
//! memory.

use std::collections::HashMap;

use super::rows::moved;
use crate::{
    cgroup_path::is_below,
    collect::{output::Output, processes::RayState},
    event::{MemorySplit, Observation, OutsideMemory, Source},
    ids::{BootTime, Bytes, Pid, ProcessKey},
    observe::{forks, memory, processes},
    path,
};

/// The most processes that are sampled.
const MOST: usize = 3;
/// Smaller processes are not sampled.
const SMALLEST: u64 = 64 << 20;
/// Smaller processes are not checked for being forks.
const FORKED: u64 = 8 << 20;

/// The name used for a process of another user when only one user's are wanted.
const ANOTHERS: &str = "a process of another user";

/// The processes in the last rows.
#[derive(Default)]
pub(super) struct OutsideProcesses(HashMap<Pid, OutsideMemory>);

impl OutsideProcesses {
    /// Called every two seconds near a limit. `counts` is the
    /// cgroup whose memory that limit counts. Returns
    /// the memory that all processes outside Ray hold together, this process included.
    pub(super) fn sample(
        &mut self,
        now: BootTime,
        counts: Option<&str>,
        found: RayState<'_>,
        out: &mut Output,
    ) -> Bytes {
        let own = Pid(std::process::id());
        let mut biggest: Vec<(Pid, Bytes)> = processes::all()
            .into_iter()
            .filter(|pid| found.processes.get(*pid).is_none())
            .filter_map(|pid| Some((pid, private(pid)?)))
            .collect();
        let all = Bytes(biggest.iter().map(|(_, private)| private.0).sum());
        biggest.retain(|(pid, private)| {
            *pid != own && private.0 >= SMALLEST && is_counted(*pid, counts)
        });
        biggest.sort_by_key(|(pid, anon)| std::cmp::Reverse((*anon, *pid)));
        biggest.truncate(MOST);
        let gone =
            |known: &OutsideMemory| !biggest.iter().any(|(pid, _)| *pid == known.process.pid);
        let gone: Vec<Pid> = self
            .0
            .values()
            .filter(|one| gone(one))
            .map(|one| one.process.pid)
            .collect();
        for pid in gone {
            if let Some(last) = self.0.remove(&pid) {
                let memory = MemorySplit {
                    anon: Some(Bytes(0)),
                    ..MemorySplit::default()
                };
                out.emit(
                    Source::Proc,
                    now,
                    Observation::Outside(OutsideMemory { memory, ..last }),
                );
            }
        }
        for (pid, _) in biggest {
            self.outsider(now, pid, found.clusters.filter_user(), out);
        }
        all
    }

    /// Samples one process. If only one user's processes are `wanted`, those of other users are not
    /// named.
    fn outsider(&mut self, now: BootTime, pid: Pid, wanted: Option<u32>, out: &mut Output) {
        let (Some(stat), Some(memory)) = (processes::stat(pid), memory::process(pid)) else {
            return;
        };
        let last = self.0.get(&pid);
        if last.is_some_and(|last| !moved(last.memory.anon, memory.anon)) {
            return;
        }
        let mut told = OutsideMemory {
            process: ProcessKey {
                pid,
                start: stat.start,
            },
            name: ANOTHERS.to_owned(),
            cgroup: None,
            memory,
        };
        if wanted.is_none_or(|user| processes::only_user(pid) == Some(user)) {
            told.name = name(&stat.comm, &processes::argv(pid));
            told.cgroup = processes::cgroup(pid);
        }
        self.0.insert(pid, told.clone());
        out.emit(Source::Proc, now, Observation::Outside(told));
    }
}

/// Returns the private memory of a process. For a fork, that is at most what it has faulted in; the
/// rest is its parent's.
fn private(pid: Pid) -> Option<Bytes> {
    let anon = memory::count(pid)?.anon;
    let fork = (anon.0 >= FORKED).then(|| forks::forked(pid)).flatten();
    Some(fork.map_or(anon, |fork| anon.min(fork.faulted)))
}

/// Whether a process is in the cgroup whose memory counts.
fn is_counted(pid: Pid, counts: Option<&str>) -> bool {
    counts.is_none_or(|above| processes::cgroup(pid).is_some_and(|own| is_below(&own, above)))
}

/// Returns the name of the program and of the script that it interprets. Other arguments are left
/// out.
fn name(comm: &str, argv: &[String]) -> String {
    let script = argv
        .get(1)
        .filter(|argument| matches!(argument.rsplit_once('.'), Some((_, "py" | "sh"))));
    match (argv.first(), script) {
        (Some(program), Some(script)) => {
            format!("{} {}", path::base(program), path::base(script))
        }
        (Some(program), None) if !program.is_empty() => {
            path::base(program.split_whitespace().next().unwrap_or(program)).to_owned()
        }
        _ => comm.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_leave_out_arguments() {
        let argv = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            name(
                "python3",
                &argv(&["/usr/bin/python3", "/opt/train.py", "--key=x"])
            ),
            "python3 train.py"
        );
        assert_eq!(
            name("postgres", &argv(&["postgres: user db [local] idle"])),
            "postgres:"
        );
        assert_eq!(
            name("mysqld", &argv(&["/usr/sbin/mysqld", "--password=x"])),
            "mysqld"
        );
        assert_eq!(name("kswapd0", &[]), "kswapd0");
    }
}
