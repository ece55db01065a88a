//! Lists the `RAY_*` variables that bear on memory.
//!
//! For each it says who reads it, its default, and in which versions it exists.
//!
//! Mirrors `src/ray/common/ray_config_def.h` and `python/ray/_private/ray_constants.py` of Ray 2.9
//! to 2.60. For versions that were not examined, `since` and `until` are the nearest examined ones.
//! looked at are bracketed: `since` and `until` are the nearest ones that were.

use crate::ray::{start::Change, version::Version};

/// A `RAY_*` variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub key: &'static str,
    /// Its default as Ray writes it.
    pub default: &'static str,
    /// The process whose environment counts.
    pub reader: Reader,
    /// The first version that is known to read it.
    pub since: Version,
    /// The last version that is known to read it.
    pub until: Version,
}

/// The process whose environment counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The raylet: what `ray start` (or the `ray.init()` that starts Ray) inherits.
    Raylet,
    /// `ray start`, once.
    Start,
    /// Each driver and worker for its own tasks.
    Owner,
}

const OLDEST: Version = Version(2, 0);
const NEWEST: Version = Version(u32::MAX, 0);

const fn raylet(key: &'static str, default: &'static str) -> Knob {
    Knob {
        key,
        default,
        reader: Reader::Raylet,
        since: OLDEST,
        until: NEWEST,
    }
}

const fn since(knob: Knob, since: Version) -> Knob {
    Knob { since, ..knob }
}

const fn read_by(knob: Knob, reader: Reader) -> Knob {
    Knob { reader, ..knob }
}

/// All known variables.
pub const KNOBS: [Knob; 13] = [
    raylet("RAY_memory_usage_threshold", "0.95"),
    raylet("RAY_memory_monitor_refresh_ms", "250"),
    raylet("RAY_min_memory_free_bytes", "-1"),
    since(
        raylet("RAY_max_kill_memory_buffer_bytes", "3221225472"),
        Version(2, 56),
    ),
    Knob {
        until: Version(2, 49),
        ..raylet("RAY_worker_killing_policy", "group_by_owner")
    },
    since(
        raylet("RAY_worker_killing_policy_by_group", "false"),
        Version(2, 56),
    ),
    since(
        raylet(
            "RAY_idle_worker_killing_memory_threshold_bytes",
            "1073741824",
        ),
        Version(2, 55),
    ),
    since(
        raylet("RAY_count_swap_in_memory_monitor", "false"),
        Version(2, 59),
    ),
    raylet("RAY_worker_oom_score_adjustment", "1000"),
    raylet("RAY_object_spilling_threshold", "0.8"),
    read_by(raylet("RAY_task_oom_retries", "-1"), Reader::Owner),
    read_by(
        raylet("RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION", "0.3"),
        Reader::Start,
    ),
    read_by(
        raylet("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", "200000000000"),
        Reader::Start,
    ),
];

/// Names that only Ray 2.1 reads, with the names since then.
const RENAMED: [(&str, &str); 2] = [
    (
        "RAY_memory_usage_threshold_fraction",
        "RAY_memory_usage_threshold",
    ),
    (
        "RAY_memory_monitor_interval_ms",
        "RAY_memory_monitor_refresh_ms",
    ),
];
/// The first version that reads the new names.
const SINCE_RENAMED: Version = Version(2, 2);

/// Returns the knob with this name.
pub fn find(key: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.key == key)
}

/// Parts of names whose values are never kept, in upper or lower case.
const SECRET: [&str; 7] = [
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "SECRET",
    "KEY",
    "CREDENTIAL",
    "HEADER",
];
/// Variables besides [`KNOBS`] whose values are used in reports. The last four are `KubeRay`'s
/// names for the cluster, its namespace, the pod and the pod's group.
const OTHERS: [&str; 6] = [
    "RAY_object_store_memory",
    "RAY_USE_TLS",
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_NODE_TYPE_NAME",
];

/// Whether the value of this variable may be kept. It may for a knob, and for a setting of Ray's
/// own, which is in lower case after `RAY_`. Ray passes whole runtime environments to its drivers
/// in other variables, and users may store anything in a `RAY_…` variable.
pub fn may_keep(key: &str, value: &str) -> bool {
    let same = |known: &str| known.eq_ignore_ascii_case(key);
    let lower = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && !name.contains(|other: char| other.is_ascii_uppercase())
    };
    let known = KNOBS.iter().any(|knob| same(knob.key))
        || OTHERS.into_iter().any(same)
        || key.strip_prefix("RAY_").is_some_and(lower);
    let name = key.to_ascii_uppercase();
    // JSON may hold anything, and an address may hold a password before its @.
    let plain = !value.trim_start().starts_with(['{', '[']) && !value.contains('@');
    known && plain && !SECRET.iter().any(|word| name.contains(word))
}

/// Returns why a variable has no effect in this version, and what to type instead; `None` where
/// that is not known.
pub fn ignored(key: &str, value: &str, version: Option<Version>) -> Option<IgnoredVariable> {
    if key.eq_ignore_ascii_case("RAY_object_store_memory") {
        return Some(IgnoredVariable {
            why: "no Ray version reads it; the store's size is --object-store-memory".into(),
            // The value was never in effect: as a flag it may be more than the node has.
            instead: Change::unset(key),
        });
    }
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == key) {
        let still = version.is_some_and(|version| version < SINCE_RENAMED);
        return (!still).then(|| IgnoredVariable {
            why: format!("not read any more since Ray 2.2: its name is {new}"),
            instead: Change::environment(new, value),
        });
    }
    if let Some(knob) = find(key) {
        return outside(knob, version?);
    }
    let meant = KNOBS
        .iter()
        .find(|knob| knob.key.eq_ignore_ascii_case(key))?;
    Some(IgnoredVariable {
        why: "no Ray version reads it; upper and lower case count".into(),
        instead: Change::environment(meant.key, value),
    })
}

fn outside(knob: &Knob, version: Version) -> Option<IgnoredVariable> {
    let Version(major, minor) = version;
    if version < knob.since {
        let Version(first, second) = knob.since;
        return Some(IgnoredVariable {
            why: format!("unknown to Ray {major}.{minor}: it came with {first}.{second}"),
            instead: Change::unset(knob.key),
        });
    }
    (version > knob.until).then(|| {
        let Version(first, second) = knob.until;
        IgnoredVariable {
            why: format!(
                "unknown to Ray {major}.{minor}: {first}.{second} was the last to read it"
            ),
            instead: Change::unset(knob.key),
        }
    })
}

/// Returns what to do about a value that is set where no process reads it: set it where the raylet
/// reads it. A higher threshold is to be unset instead: the kernel would kill before Ray does.
pub(crate) fn set_for_raylet(key: &str, value: &str, in_force: &str) -> Change {
    let number = |text: &str| text.parse::<f64>().ok();
    let raised = number(value) > number(in_force);
    if key == "RAY_memory_usage_threshold" && raised {
        return Change::unset(key);
    }
    Change::environment(key, value)
}

/// A variable that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredVariable {
    /// The reason.
    pub why: String,
    /// What to set instead.
    pub instead: Change,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_variable_is_unset_or_respelled() {
        let found = ignored("RAY_object_store_memory", "30000", None).expect("ignored");
        assert_eq!(found.instead, Change::unset("RAY_object_store_memory"));
        let shouted = ignored("RAY_MEMORY_USAGE_THRESHOLD", "0.9", None).expect("ignored");
        let meant = Change::environment("RAY_memory_usage_threshold", "0.9");
        assert_eq!(shouted.instead, meant);
    }

    /// A lower threshold is set where the raylet reads it.
    #[test]
    fn higher_threshold_is_unset_lower_one_moved() {
        let key = "RAY_memory_usage_threshold";
        assert_eq!(set_for_raylet(key, "0.98", "0.8"), Change::unset(key));
        let lower = Change::environment(key, "0.7");
        assert_eq!(set_for_raylet(key, "0.7", "0.8"), lower);
    }

    #[test]
    fn name_of_ray_2_1_is_replaced() {
        let of = |version| ignored("RAY_memory_usage_threshold_fraction", "0.9", version);
        let meant = Change::environment("RAY_memory_usage_threshold", "0.9");
        assert_eq!(
            of(Some(Version(2, 60))).map(|found| found.instead),
            Some(meant)
        );
        assert!(of(None).is_some());
        assert_eq!(of(Some(Version(2, 1))), None);
    }

    #[test]
    fn only_values_of_knobs_are_kept() {
        for (key, value) in [
            ("RAY_memory_usage_threshold", "0.9"),
            ("RAY_MEMORY_USAGE_THRESHOLD", "0.9"),
            ("RAY_memory_treshold", "0.9"),
            ("RAY_object_store_memory", "30000"),
            ("RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION", "0.3"),
            ("RAY_num_workers_soft_limit", "4"),
            ("RAY_USE_TLS", "1"),
            ("RAY_CLUSTER_NAME", "rl-prod"),
            ("RAY_CLUSTER_NAMESPACE", "team-a"),
            ("RAY_CLOUD_INSTANCE_ID", "rl-prod-gpu-worker-x7k2p"),
            ("RAY_NODE_TYPE_NAME", "gpu"),
        ] {
            assert!(may_keep(key, value), "{key}");
        }
        for (key, value) in [
            (
                "RAY_JOB_CONFIG_JSON_ENV_VAR",
                r#"{"runtime_env":{"env_vars":{"WANDB_API_KEY":"x"}}}"#,
            ),
            ("RAY_JOB_HEADERS", r#"{"Authorization": "Bearer x"}"#),
            ("RAY_JOB_HEADERS", "Bearer x"),
            ("RAY_RUNTIME_ENV_CREATE_WORKING_DIR", "https://x"),
            ("RAY_REDIS_PASSWORD", "x"),
            ("RAY_redis_password", "x"),
            ("RAY_AUTH_TOKEN", "x"),
            ("RAY_wandb_api_key", "x"),
            ("RAY_object_spilling_config", r#"{"type":"smart_open"}"#),
            ("RAY_external_storage", "redis://user:x@host"),
            ("RAY_ADDRESS", "ray://host:10001"),
        ] {
            assert!(!may_keep(key, value), "{key}");
        }
    }

    #[test]
    fn variable_is_ignored_outside_its_versions() {
        let policy =
            |version| ignored("RAY_worker_killing_policy", "retriable_fifo", Some(version));
        assert_eq!(policy(Version(2, 44)), None);
        assert!(policy(Version(2, 60)).is_some());
        let by_group =
            |version| ignored("RAY_worker_killing_policy_by_group", "true", Some(version));
        assert!(by_group(Version(2, 44)).is_some());
        assert_eq!(by_group(Version(2, 60)), None);
        assert_eq!(
            ignored("RAY_memory_usage_threshold", "0.9", Some(Version(2, 60))),
            None
        );
        assert_eq!(ignored("RAY_ADDRESS", "auto", Some(Version(2, 60))), None);
    }
}
