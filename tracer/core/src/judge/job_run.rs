//! Collects what each job ran: its framework and version, and the last training step it printed.

use std::collections::HashMap;

use crate::{
    ids::{HexId, ProcessKey},
    judge::{
        query::live_processes,
        report::{JobFramework, JobStep},
        state::{processes::ProcessState, world::World},
    },
    ray::{
        facts::RayFact,
        framework::{self, Framework},
    },
};

/// What was seen of all jobs, by cluster and id.
pub(super) struct Runs<'a> {
    world: &'a World,
    seen: HashMap<(ProcessKey, HexId), Progress<'a>>,
}

/// What was seen of the workers of one job.
#[derive(Default)]
struct Progress<'a> {
    classes: Vec<String>,
    /// Keys of configurations that the workers printed.
    keys: Vec<&'a str>,
    step: Option<u64>,
    steps: Option<u64>,
}

impl<'a> Runs<'a> {
    pub(super) fn of(world: &'a World) -> Self {
        let mut runs = Self {
            world,
            seen: HashMap::new(),
        };
        for state in world.processes.iter() {
            let class = live_processes::class(state);
            let seen = class.and_then(|class| Some((class, runs.seen_of(state)?)));
            if let Some((class, seen)) = seen
                && !seen.classes.contains(&class)
            {
                seen.classes.push(class);
            }
        }
        for said in world.ray_log_records.iter() {
            let (RayFact::Configuration { worker_id, .. }
            | RayFact::TrainingStep { worker_id, .. }) = &said.what.fact
            else {
                continue;
            };
            let by = said.what.cluster.zip(worker_id.as_ref());
            let state = by.and_then(|(cluster, id)| world.processes.by_worker(cluster, id));
            let Some(seen) = state.and_then(|state| runs.seen_of(state)) else {
                continue;
            };
            match &said.what.fact {
                RayFact::Configuration { settings, .. } => {
                    seen.keys
                        .extend(settings.iter().map(|(key, _)| key.as_str()));
                }
                RayFact::TrainingStep { step, of, .. } => {
                    seen.step = seen.step.max(Some(*step));
                    seen.steps = seen.steps.max(*of);
                }
                _ => {}
            }
        }
        runs
    }

    fn seen_of(&mut self, state: &ProcessState) -> Option<&mut Progress<'a>> {
        let job = state.job().or_else(|| self.world.ray_job(state.key))?;
        let key = (state.cluster?.truncated(), job);
        Some(self.seen.entry(key).or_default())
    }

    fn get(&self, driver: &ProcessState, job: &HexId) -> Option<&Progress<'a>> {
        self.seen.get(&(driver.cluster?.truncated(), job.clone()))
    }

    /// Returns the framework that a job ran; `None` if it is Ray alone, or not a known one.
    pub(super) fn framework(&self, driver: &ProcessState, job: &HexId) -> Option<JobFramework> {
        let seen = self.get(driver, job);
        let printed = || seen.and_then(|seen| Framework::of_keys(seen.keys.iter().copied()));
        let framework = Framework::given_by_command(&driver.argv).or_else(printed);
        let framework = framework.or_else(|| by_names(driver, seen))?;
        Some(JobFramework {
            name: framework.name().to_owned(),
            version: self.version(driver, framework),
        })
    }

    fn version(&self, driver: &ProcessState, framework: Framework) -> Option<String> {
        if framework.is_part_of_ray() {
            let mut clusters = self.world.clusters.iter();
            let own = clusters.find(|one| driver.belongs_to(one.raylet))?;
            return own.ray_version.clone();
        }
        let mut all = self.world.driver_packages.iter();
        let (_, packages) = all.find(|(key, _)| key.same(driver.key))?;
        let wanted = framework::distribution(framework)?;
        let mut packages = packages.iter();
        let found = packages.find(|(name, _)| name == wanted);
        found.map(|(_, version)| version.clone())
    }

    /// Returns the last step of training that the job printed as done.
    pub(super) fn last_step(&self, driver: &ProcessState, job: &HexId) -> Option<JobStep> {
        let seen = self.get(driver, job)?;
        Some(JobStep {
            step: seen.step?,
            of: seen.steps.filter(|steps| Some(*steps) >= seen.step),
        })
    }
}

/// Finds the framework by the driver's command line, else by the classes of its workers. Engines
/// come last, because settings of frameworks that use an engine name it too.
fn by_names(driver: &ProcessState, seen: Option<&Progress<'_>>) -> Option<Framework> {
    let typed = Framework::of_command_line(&driver.argv);
    let is_engine = |one: &Framework| matches!(one, Framework::Vllm | Framework::Sglang);
    let classes = seen.map_or(&[][..], |seen| &seen.classes);
    let by_class = || Framework::of_classes(&classes.iter().map(String::as_str));
    typed
        .filter(|one| !is_engine(one))
        .or_else(by_class)
        .or(typed)
}
