//! Lists Ray's process tree: who starts whom, who watches whom, and by which means.
//!
//! It was read in Ray 2.9.3, 2.44.1, 2.51.1, 2.55.1 and 2.60.0; the file names are those of 2.60.
//! Every "its X died first" relies on a row here.

/// A part of Ray that is a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// `raylet`. Started by `ray start` or by the driver (`python/ray/_private/services.py`,
    /// `start_raylet`).
    Raylet,
    /// `gcs_server`. Started like the raylet (`start_gcs_server`).
    Gcs,
    /// `dashboard/agent.py`, later `ray::DashboardAgent`. Started by the raylet
    /// (`src/ray/raylet/agent_manager.cc`).
    DashboardAgent,
    /// `runtime_env/agent/main.py`, later `ray::RuntimeEnvAgent`. Started by the raylet, like the
    /// other agent.
    RuntimeEnvAgent,
    /// `dashboard/dashboard.py`. Started like the raylet (`start_api_server`).
    Dashboard,
    /// `ray-dashboard-…Head-0` (from 2.44 on), and what Python's `multiprocessing` starts beside
    /// them. Started by the dashboard (`python/ray/dashboard/subprocesses/handle.py`).
    DashboardModule,
    /// `log_monitor.py`. Started like the raylet (`start_log_monitor`).
    LogMonitor,
    /// `autoscaler/_private/monitor.py`. Started like the raylet (`start_monitor`).
    Autoscaler,
    /// `ray.util.client.server` and its servers for single clients. Started like the raylet
    /// (`start_ray_client_server`).
    ClientServer,
    /// `default_worker.py`, later `ray::…`. Started by the raylet
    /// (`src/ray/raylet/worker_pool.cc`).
    Worker,
    /// A program that called `ray.init()`. Anybody can start it.
    Driver,
}

/// Parts that end when another part has ended.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// The parts that watch.
    pub who: &'static [Part],
    /// The parts that each of them watches.
    pub whom: &'static [Part],
    /// How they notice the end.
    pub by: &'static str,
    /// The source file that shows it.
    pub source: &'static str,
}

/// The agents of a node.
const AGENTS: &[Part] = &[Part::DashboardAgent, Part::RuntimeEnvAgent];

/// Which part ends because of which.
pub(crate) const WATCHES: [Watch; 7] = [
    Watch {
        who: &[Part::Worker],
        whom: &[Part::Raylet],
        by: "looks at its parent's pid each second, and exits with 1",
        source: "src/ray/core_worker/core_worker_process.cc, src/ray/core_worker/core_worker.cc",
    },
    Watch {
        who: &[Part::Driver],
        whom: &[Part::Raylet],
        by: "its connection to the raylet is closed",
        source: "src/ray/raylet_ipc_client/raylet_ipc_client.cc",
    },
    Watch {
        who: AGENTS,
        whom: &[Part::Raylet],
        by: "a pipe from the raylet is closed, or its parent is another one",
        source: "python/ray/_private/process_watcher.py",
    },
    Watch {
        who: &[Part::Raylet],
        whom: AGENTS,
        by: "waits for it, and ends its workers and itself",
        source: "src/ray/raylet/agent_manager.cc",
    },
    Watch {
        who: &[
            Part::Raylet,
            Part::Worker,
            Part::Driver,
            Part::DashboardAgent,
            Part::RuntimeEnvAgent,
            Part::DashboardModule,
        ],
        whom: &[Part::Gcs],
        by: "gives up after gcs_rpc_server_reconnect_timeout_s",
        source: "src/ray/gcs_rpc_client/rpc_client.h",
    },
    Watch {
        who: &[Part::Dashboard],
        whom: &[Part::Gcs],
        by: "asks whether it lives; in 2.9 it counts the answers that fail",
        source: "python/ray/dashboard/head.py",
    },
    Watch {
        who: &[Part::DashboardModule],
        whom: &[Part::Dashboard],
        by: "looks each second whether its parent lives; what multiprocessing starts, by a pipe",
        source: "python/ray/dashboard/subprocesses/module.py",
    },
];

impl Part {
    /// Whether this part ends when `whom` has ended.
    pub fn watches(self, whom: Part) -> bool {
        WATCHES
            .iter()
            .any(|watch| watch.who.contains(&self) && watch.whom.contains(&whom))
    }

    /// Whether this part ends when an agent of its node has ended: the raylet watches the agents,
    /// and ends its workers.
    pub(crate) fn ends_with_an_agent(self) -> bool {
        let raylet_does = Part::Raylet.watches(Part::DashboardAgent);
        raylet_does && (self == Part::Raylet || self.watches(Part::Raylet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They do not end with an agent.
    #[test]
    fn dashboard_modules_end_with_the_dashboard() {
        assert!(Part::DashboardModule.watches(Part::Dashboard));
        assert!(!Part::DashboardModule.ends_with_an_agent());
        assert!(!Part::Dashboard.ends_with_an_agent());
        assert!(Part::Worker.ends_with_an_agent() && Part::Raylet.ends_with_an_agent());
        let agents = [Part::DashboardAgent, Part::RuntimeEnvAgent];
        assert!(agents.into_iter().all(Part::ends_with_an_agent));
    }

    #[test]
    fn every_watch_has_means_and_source() {
        for watch in WATCHES {
            assert!(!watch.by.is_empty() && watch.source.contains('/'));
            assert!(!watch.who.iter().any(|who| watch.whom.contains(who)));
        }
    }
}
