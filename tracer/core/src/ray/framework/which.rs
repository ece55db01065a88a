//! Recognizes the framework that runs on Ray.
//!
//! It is recognized by a command line, a printed configuration, or the classes of its actors.

use super::table;

/// A framework, or a library of Ray's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Framework {
    /// `verl`.
    Verl,
    /// `EasyR1`, a fork of verl with keys of its own.
    EasyR1,
    /// `simpleRL-reason`, a fork of an old verl.
    SimpleRl,
    /// `OpenRLHF`.
    OpenRlhf,
    /// `vLLM` without one of those above.
    Vllm,
    /// `SGLang` without one of those above.
    Sglang,
    /// Ray Data.
    Data,
    /// Ray Train.
    Train,
    /// Ray Serve.
    Serve,
    /// Ray itself.
    Ray,
    /// The nth of the tables that the user gave, for a framework of which the program has none.
    Given(usize),
}

impl Framework {
    /// Every framework of the program's own tables, in the order in which their tables are searched for a key.
    pub const ALL: [Self; 10] = [
        Self::Verl,
        Self::EasyR1,
        Self::SimpleRl,
        Self::OpenRlhf,
        Self::Vllm,
        Self::Sglang,
        Self::Data,
        Self::Train,
        Self::Serve,
        Self::Ray,
    ];

    /// Returns the content of its table.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Verl => include_str!("tables/verl.json"),
            Self::EasyR1 => include_str!("tables/easy_r1.json"),
            Self::SimpleRl => include_str!("tables/simple_rl.json"),
            Self::OpenRlhf => include_str!("tables/openrlhf.json"),
            Self::Vllm => include_str!("tables/vllm.json"),
            Self::Sglang => include_str!("tables/sglang.json"),
            Self::Data => include_str!("tables/data.json"),
            Self::Train => include_str!("tables/train.json"),
            Self::Serve => include_str!("tables/serve.json"),
            Self::Ray => include_str!("tables/ray.json"),
            Self::Given(_) => "",
        }
    }
}

/// Keys that only `simpleRL-reason` has. verl passes them to the engine, or does not have them.
const FORK_KEYS: [&str; 2] = [
    "actor_rollout_ref.rollout.swap_space",
    "actor_rollout_ref.rollout.micro_rollout_batch_size",
];

/// Words of a command line, the most specific first.
const WORDS: [(&str, Framework); 14] = [
    ("openrlhf", Framework::OpenRlhf),
    ("simpleRL", Framework::SimpleRl),
    (FORK_KEYS[0], Framework::SimpleRl),
    (FORK_KEYS[1], Framework::SimpleRl),
    ("EasyR1", Framework::EasyR1),
    ("worker.actor.", Framework::EasyR1),
    ("worker.rollout.", Framework::EasyR1),
    ("verl.trainer.main_", Framework::Verl),
    // EasyR1's module is verl.trainer.main; its keys may all be in a file.
    ("verl.trainer.main", Framework::EasyR1),
    ("verl.trainer", Framework::Verl),
    ("actor_rollout_ref.", Framework::Verl),
    ("recipe.dapo.", Framework::Verl),
    ("sglang", Framework::Sglang),
    ("vllm", Framework::Vllm),
];

/// The order in which the classes of their tables are looked for, the most specific first: a
/// service may use Ray Data, and an engine may be part of a trainer.
const BY_CLASS: [Framework; 7] = [
    Framework::OpenRlhf,
    Framework::Verl,
    Framework::Serve,
    Framework::Train,
    Framework::Data,
    Framework::Vllm,
    Framework::Sglang,
];

impl Framework {
    /// Returns its forks. Their actors have the same classes, but their keys differ.
    pub(super) fn forks(self) -> &'static [Self] {
        match self {
            Self::Verl => &[Self::EasyR1, Self::SimpleRl],
            _ => &[],
        }
    }

    /// Recognizes the framework by a driver's command line.
    pub(crate) fn of_command_line(argv: &[String]) -> Option<Self> {
        if let Some(given) = Self::given_by_command(argv) {
            return Some(given);
        }
        let has = |word: &str| argv.iter().any(|argument| argument.contains(word));
        let found = WORDS.iter().find(|(word, _)| has(word));
        found.map(|(_, framework)| *framework)
    }

    /// Recognizes the framework by the keys of the configuration that it printed.
    pub(crate) fn of_keys<'a>(keys: impl Iterator<Item = &'a str>) -> Option<Self> {
        let keys: Vec<&str> = keys.collect();
        if keys.iter().any(|key| FORK_KEYS.contains(key)) {
            return Some(Self::SimpleRl);
        }
        let mut keys = keys.into_iter();
        keys.find_map(|key| match key.split('.').next()? {
            "actor_rollout_ref" => Some(Self::Verl),
            "worker" => Some(Self::EasyR1),
            _ => None,
        })
    }

    /// Recognizes the framework by the classes of its actors or the titles of its processes.
    pub fn of_classes<'a>(classes: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        let runs = |name: &str| classes.clone().any(|class| class.contains(name));
        // Other programs use this name too, but not beside verl's workers.
        let exact = |name: &str| classes.clone().any(|class| class == name);
        if exact("Runner") && (runs("WorkerDict") || runs("FSDPWorker")) {
            return Some(Self::EasyR1);
        }
        let of_table = |one: &Self| {
            let classes = table::of(*one).map_or(&[][..], |table| &table.classes);
            classes.iter().any(|class| runs(&class.name))
        };
        let given = (0..table::given().len()).map(Self::given);
        given.chain(BY_CLASS).find(of_table)
    }

    /// Returns the framework of the nth table that the user gave.
    fn given(number: usize) -> Self {
        let name = &table::given()[number].framework;
        let own = Self::ALL.into_iter().find(|one| one.name() == name);
        own.unwrap_or(Self::Given(number))
    }

    /// Recognizes a framework whose table the user gave by a driver's command line.
    pub(crate) fn given_by_command(argv: &[String]) -> Option<Self> {
        let given = table::given();
        if given.is_empty() {
            return None;
        }
        let line = argv.join(" ");
        let starts = |table: &table::Table| {
            let mut commands = table.commands.iter();
            commands.any(|words| line.contains(words.as_str()))
        };
        given.iter().position(starts).map(Self::given)
    }

    /// Whether it starts Ray's workers itself. If so, its own keys say how many there are.
    pub(crate) fn starts_workers(self) -> bool {
        table::of(self).is_some_and(|table| table.starts_workers)
    }

    /// Whether its rollouts run vLLM, unless a setting says otherwise.
    pub(crate) fn generates_with_vllm(self) -> bool {
        table::of(self).is_some_and(|table| table.generates_with_vllm)
    }

    /// Whether it is part of Ray and has Ray's version.
    pub(crate) fn is_part_of_ray(self) -> bool {
        matches!(self, Self::Data | Self::Train | Self::Serve | Self::Ray)
    }

    /// Whether it runs on GPUs only.
    pub(crate) fn needs_gpus(self) -> bool {
        table::of(self).is_some_and(|table| table.needs_gpus)
    }

    /// Returns its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verl => "verl",
            Self::EasyR1 => "EasyR1",
            Self::SimpleRl => "simpleRL-reason",
            Self::OpenRlhf => "OpenRLHF",
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::Data => "Ray Data",
            Self::Train => "Ray Train",
            Self::Serve => "Ray Serve",
            Self::Ray => "Ray",
            Self::Given(number) => &table::given()[number].framework,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_keys_and_classes_show_the_framework() {
        let line = |line: &str| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            Framework::of_command_line(&argv)
        };
        assert_eq!(
            line("python3 -m verl.trainer.main_ppo a=b"),
            Some(Framework::Verl)
        );
        assert_eq!(
            line("python3 -m verl.trainer.main worker.actor.model=x"),
            Some(Framework::EasyR1)
        );
        assert_eq!(
            line("python -m openrlhf.cli.train_ppo_ray"),
            Some(Framework::OpenRlhf)
        );
        assert_eq!(line("python train.py"), None);
        let fork = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.swap_space=40";
        assert_eq!(line(fork), Some(Framework::SimpleRl));
        let engine = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4";
        assert_eq!(line(engine), Some(Framework::Verl));
        assert_eq!(
            line("python3 -m recipe.dapo.main_dapo"),
            Some(Framework::Verl)
        );
        let printed = ["actor_rollout_ref.rollout.n", FORK_KEYS[1]];
        assert_eq!(
            Framework::of_keys(printed.into_iter()),
            Some(Framework::SimpleRl)
        );
        let keys = ["data.val_batch_size", "worker.actor.offload.offload_params"];
        assert_eq!(
            Framework::of_keys(keys.into_iter()),
            Some(Framework::EasyR1)
        );
        let classes = |all: &[&str]| Framework::of_classes(&all.iter().copied());
        assert_eq!(
            classes(&["compute_score", "WorkerDict"]),
            Some(Framework::Verl)
        );
        assert_eq!(classes(&["WorkerDict", "Runner"]), Some(Framework::EasyR1));
        assert_eq!(
            classes(&["WorkerDict", "TaskRunner"]),
            Some(Framework::Verl)
        );
        assert_eq!(classes(&["Runner"]), None);
        assert_eq!(classes(&["ServeReplica:app"]), Some(Framework::Serve));
        assert_eq!(classes(&["hog"]), None);
    }
}
