//! Finds the Slurm step of a process: its job by the environment, and its tasks by their parent.
//!
//! slurmstepd starts each task of a step and signals them. With `proctrack/linuxproc` no cgroup
//! names the job, only the variables that slurmstepd gives each task (`srun(1)`, Output Environment
//! Variables; Slurm 22.05).

use super::{
    clusters,
    processes::{self, Stat},
};
use crate::{
    cgroup_path::{self, STEPD, is_slurm_id},
    event::{Process, SlurmJob},
    ids::{Bytes, Pid},
};

/// How many parents of a process are looked at.
const MOST_PARENTS: usize = 32;
/// How many tasks of a step are followed.
const MOST_TASKS: usize = 256;
/// The numbers of steps that have a name (`slurm.h`: `SLURM_BATCH_SCRIPT` and the like).
const NAMED_STEPS: [(&str, &str); 3] = [
    ("4294967290", "interactive"),
    ("4294967291", "batch"),
    ("4294967292", "extern"),
];

/// Adds to a process what its environment says about its job. A cgroup that names a job is
/// believed rather.
pub fn look_at_environment(process: &mut Process) {
    let Some(told) = job(&clusters::slurm_variables(process.process.pid)) else {
        return;
    };
    let by_path = process.cgroup.as_deref().and_then(cgroup_path::slurm);
    let by_path = by_path.map(|found| (found.job, found.step));
    let known = process.slurm.take().map(|known| (known.job, known.step));
    let found = match by_path.or(known) {
        Some((job, _)) if job != told.job => SlurmJob {
            job,
            ..SlurmJob::default()
        },
        Some((job, step)) => SlurmJob {
            job,
            step: step.or(told.step),
            ..told
        },
        None => told,
    };
    process.slurm = Some(Box::new(found));
}

/// Reads the job in the variables of an environment.
fn job(variables: &[(String, String)]) -> Option<SlurmJob> {
    let value = |name: &str| {
        let mut all = variables.iter();
        all.find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    let step = value("SLURM_STEP_ID").filter(|step| is_slurm_id(step));
    let named = |step: &str| {
        let mut names = NAMED_STEPS.iter();
        let name = names.find(|(number, _)| *number == step);
        name.map_or(step, |(_, name)| *name).to_owned()
    };
    let per_cpu = || {
        let (each, cpus) = (number("SLURM_MEM_PER_CPU")?, number("SLURM_CPUS_ON_NODE")?);
        each.checked_mul(cpus)
    };
    let mebibytes = number("SLURM_MEM_PER_NODE").or_else(per_cpu);
    Some(SlurmJob {
        job: value("SLURM_JOB_ID")
            .filter(|job| is_slurm_id(job))?
            .to_owned(),
        step: step.map(named),
        memory: mebibytes
            .and_then(|size| size.checked_mul(1 << 20))
            .map(Bytes),
        ends: number("SLURM_JOB_END_TIME"),
    })
}

/// Returns the tasks of the job that a process runs in: the children of the job's slurmstepds. Its
/// batch script is one. Leaves out those that this program descends from.
pub fn tasks(of: Pid) -> Vec<Pid> {
    let Some(own_stepd) = parents(of).find(|pid| is_stepd(*pid)) else {
        return Vec::new();
    };
    let job_of = |stepd: Pid| Some(cgroup_path::job_of_stepd(&processes::argv(stepd))?.job);
    let job = job_of(own_stepd);
    let above: Vec<Pid> = parents(Pid(std::process::id())).collect();
    let of_job = |stepd: &Pid| {
        let same = || job.is_some() && is_stepd(*stepd) && job_of(*stepd) == job;
        *stepd == own_stepd || same()
    };
    let all = processes::all();
    let stepds: Vec<Pid> = all.iter().copied().filter(of_job).collect();
    let is_task = |pid: &Pid| {
        let parent = || processes::stat(*pid).map(|stat| stat.parent);
        !above.contains(pid) && parent().is_some_and(|parent| stepds.contains(&parent))
    };
    all.into_iter().filter(is_task).take(MOST_TASKS).collect()
}

/// Returns a process and those above it.
fn parents(of: Pid) -> impl Iterator<Item = Pid> {
    let above = |pid: &Pid| {
        let Stat { parent, .. } = processes::stat(*pid)?;
        (parent.0 > 1).then_some(parent)
    };
    std::iter::successors(Some(of), above).take(MOST_PARENTS)
}

/// Whether this is slurmstepd, by its name and root as its user. Its name alone proves nothing.
fn is_stepd(pid: Pid) -> bool {
    processes::stat(pid).is_some_and(|stat| stat.comm == STEPD)
        && processes::only_user(pid) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> Vec<(String, String)> {
        let all = all.iter();
        all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn environment_names_job_step_and_memory() {
        let batch = [("SLURM_JOB_ID", "12"), ("SLURM_MEM_PER_NODE", "2000")];
        let found = job(&variables(&batch)).expect("a job");
        assert_eq!((found.job.as_str(), found.step), ("12", None));
        assert_eq!(found.memory, Some(Bytes(2000 << 20)));
        let step = [
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_MEM_PER_CPU", "100"),
            ("SLURM_CPUS_ON_NODE", "4"),
        ];
        let found = job(&variables(&step)).expect("a job");
        assert_eq!(found.step.as_deref(), Some("0"));
        assert_eq!(found.memory, Some(Bytes(400 << 20)));
        let named = [("SLURM_JOB_ID", "12"), ("SLURM_STEP_ID", "4294967290")];
        let found = job(&variables(&named)).expect("a job");
        assert_eq!(found.step.as_deref(), Some("interactive"));
        for other in [
            &[("SLURM_JOB_ID", "x; rm")][..],
            &[],
            &[("SLURM_STEP_ID", "1")],
        ] {
            assert_eq!(job(&variables(other)), None);
        }
    }
}
