//! Identifies what a process is to Ray, by its command line and title.
//!
//! Mirrors `python/ray/_private/services.py` (how components are started) and
//! `python/ray/_raylet.pyx` (titles) of Ray 2.9 to 2.60.

use std::path::Path;

use crate::{
    ids::HexId,
    ray::{role::Role, tree::Part},
};

/// What a title says: `ray::Class.method`, `ray::task`, `ray::Class`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// The actor's class.
    pub actor_class: Option<String>,
    /// The task or method that runs.
    pub task: Option<String>,
}

impl Title {
    /// Returns the name that a worker with this title is counted under: its actor's class, else its
    /// task.
    pub fn class(self) -> Option<String> {
        self.actor_class.or(self.task)
    }
}

/// Names of engines and of Ray's workers.
const ENGINES: [&str; 5] = ["ray::", "VLLM::", "sglang::", "python", "pt_main_thread"];

/// Whether a process of this name is a worker or an engine.
pub(crate) fn is_engine(comm: &str) -> bool {
    ENGINES.iter().any(|name| comm.starts_with(name))
}

/// Returns the role that a name and a command line show; `None` where they show none.
pub fn role(comm: &str, argv: &[String]) -> Option<Role> {
    match comm {
        "raylet" if has(argv, "--raylet_socket_name") => return Some(Role::Raylet),
        "gcs_server" => return Some(Role::Gcs),
        _ => {}
    }
    let title = argv.first().map_or("", String::as_str);
    match title {
        "ray::DashboardAgent" | "ray::RuntimeEnvAgent" => return Some(Role::Agent),
        title if title.starts_with("ray::") => return Some(Role::Worker),
        _ => {}
    }
    let is_python = |argument: &&String| {
        Path::new(argument)
            .extension()
            .is_some_and(|end| end == "py")
    };
    let script = argv.iter().find(is_python).map_or("", String::as_str);
    // It becomes a worker, or the server of Ray's client.
    let is_set_up = script.ends_with("workers/setup_worker.py") && helper(argv).is_none();
    if is_set_up || script.ends_with("workers/default_worker.py") {
        Some(Role::Worker)
    } else if script.ends_with("dashboard/agent.py") || script.ends_with("agent/main.py") {
        Some(Role::Agent)
    } else if script.ends_with("dashboard/dashboard.py") {
        Some(Role::Dashboard)
    } else if helper(argv).is_some() {
        // Parts of Ray, even if a driver started them.
        Some(Role::Other)
    } else {
        None
    }
}

/// Returns the helper that a command line starts: a part of Ray without a role of its own.
pub fn helper(argv: &[String]) -> Option<Part> {
    let is = |script: &str| argv.iter().any(|argument| argument.ends_with(script));
    if is("ray/_private/log_monitor.py") {
        Some(Part::LogMonitor)
    } else if is("ray/autoscaler/_private/monitor.py") {
        Some(Part::Autoscaler)
    } else if has(argv, "ray.util.client.server") {
        Some(Part::ClientServer)
    } else {
        None
    }
}

fn has(argv: &[String], key: &str) -> bool {
    argv.iter().any(|argument| argument.starts_with(key))
}

/// Returns the value of `--key=value`. Ray writes some keys with dashes and some with underscores.
pub fn option<'a>(argv: &'a [String], key: &str) -> Option<&'a str> {
    argv.iter().find_map(|argument| {
        let (name, value) = argument.strip_prefix("--")?.split_once('=')?;
        (name.replace('_', "-") == key).then_some(value)
    })
}

/// Returns the `--worker-id` of a worker's command line (≥ 2.54).
pub fn worker_id(argv: &[String]) -> Option<HexId> {
    option(argv, "worker-id").and_then(HexId::parse)
}

/// Whether a title says that its process runs neither a task nor an actor.
pub fn is_idle(title: &str) -> bool {
    let name = title.strip_prefix("ray::").map(str::trim_end);
    name.is_none_or(|name| name.is_empty() || name == "IDLE" || name.starts_with("IDLE_"))
}

/// Parses a `ray::` title. `ray::IDLE` and the spill and restore workers run no task.
pub fn title(title: &str) -> Option<Title> {
    if is_idle(title) {
        return None;
    }
    let name = title.strip_prefix("ray::")?.trim_end();
    // `actor name:Class.__init__` while a named actor is created.
    let plain = name.rsplit(':').next().unwrap_or(name);
    if let Some(class) = class_of_call(title) {
        return Some(Title {
            actor_class: Some(class.to_owned()),
            task: Some(plain.to_owned()),
        });
    }
    if is_class_like(plain) {
        // An actor between two calls, or a task with a name like a class.
        return Some(Title {
            actor_class: Some(plain.to_owned()),
            task: None,
        });
    }
    Some(Title {
        actor_class: None,
        task: Some(name.to_owned()),
    })
}

/// Returns the class of the method that a title names: `A` of `ray::A.go` and of
/// `ray::name:A.__init__`.
pub fn class_of_call(title: &str) -> Option<&str> {
    let name = title.strip_prefix("ray::")?.trim_end();
    let plain = name.rsplit(':').next().unwrap_or(name);
    let (class, _) = plain.rsplit_once('.')?;
    is_class_like(class).then_some(class)
}

/// Whether the first or the second letter is a capital: `WorkerDict`, and `vLLMHttpServer` of verl.
/// Ray Data's tasks are called `ReadRange->MapBatches(f)`, and only its actors `MapWorker(…)`.
fn is_class_like(name: &str) -> bool {
    let of_data = name.contains(['(', '>']) && !name.starts_with("MapWorker(");
    name.chars().take(2).any(char::is_uppercase) && !name.contains(' ') && !of_data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn command_lines_show_the_component() {
        let worker = argv(
            "/v/bin/python3 /v/lib/ray/_private/workers/default_worker.py --node-ip-address=1.2.3.4 --worker-id=2abec82d",
        );
        assert_eq!(role("python3", &worker), Some(Role::Worker));
        assert_eq!(worker_id(&worker), HexId::parse("2abec82d"));
        assert_eq!(
            role(
                "raylet",
                &argv("/v/raylet --raylet_socket_name=/x --node_id=ab")
            ),
            Some(Role::Raylet)
        );
        assert_eq!(role("raylet", &argv("raylet-fake")), None);
        assert_eq!(
            role("ray::DashboardA", &argv("ray::DashboardAgent")),
            Some(Role::Agent)
        );
        assert_eq!(
            role("python3", &argv("python3 -u /v/ray/dashboard/agent.py --x")),
            Some(Role::Agent)
        );
        let server = argv(
            "/v/bin/python3 /v/lib/ray/_private/workers/setup_worker.py -m ray.util.client.server --mode=proxy",
        );
        assert_eq!(role("python3", &server), Some(Role::Other));
        assert_eq!(role("python3", &argv("python3 train.py")), None);
        assert_eq!(option(&argv("raylet --node_id=ab"), "node-id"), Some("ab"));
    }

    #[test]
    fn titles_show_class_and_task() {
        let parts = |text: &str| title(text).map(|title| (title.actor_class, title.task));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            parts("ray::WorkerDict.generate"),
            Some((some("WorkerDict"), some("WorkerDict.generate")))
        );
        assert_eq!(parts("ray::WorkerDict"), Some((some("WorkerDict"), None)));
        assert_eq!(
            parts("ray::hog:Hog.__init__"),
            Some((some("Hog"), some("Hog.__init__")))
        );
        assert_eq!(
            parts("ray::vLLMHttpServer.launch_server"),
            Some((some("vLLMHttpServer"), some("vLLMHttpServer.launch_server")))
        );
        assert_eq!(parts("ray::trainStep"), Some((None, some("trainStep"))));
        assert_eq!(
            parts("ray::compute_score"),
            Some((None, some("compute_score")))
        );
        assert_eq!(parts("ray::my task"), Some((None, some("my task"))));
        assert_eq!(
            parts("ray::ReadRange->MapBatches(render)"),
            Some((None, some("ReadRange->MapBatches(render)")))
        );
        assert_eq!(
            parts("ray::MapWorker(MapBatches(Tokenize))"),
            Some((some("MapWorker(MapBatches(Tokenize))"), None))
        );
        assert_eq!(parts("ray::IDLE"), None);
        assert_eq!(parts("ray::IDLE_SpillWorker"), None);
        assert_eq!(parts("python"), None);
    }
}
