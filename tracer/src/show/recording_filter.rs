//! Restricts a report to one node, job, cluster, Slurm job or pod.

use crate::{
    ids::HexId,
    judge::report::{ClusterReport, Death, Job, Kubernetes, Place, Report, Setting},
    phrase,
    show::sanitize,
};

/// Minimum number of digits of a node's id that name it.
const FEWEST_DIGITS: usize = 4;
/// How many digits of an id are shown.
const SHOWN_DIGITS: usize = 8;
/// Maximum number of names in an error.
const MAX_NAMES: usize = 8;

/// What is asked for. Several conditions must hold together, and none means everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingFilter {
    /// A node's name, or the beginning of its id.
    pub node: Option<String>,
    /// A job.
    pub job: Option<HexId>,
    /// A session's name, or part of it.
    pub cluster: Option<String>,
    /// The number of a Slurm job.
    pub slurm_job: Option<String>,
    /// A pod: `NAMESPACE/NAME`, or its name.
    pub pod: Option<String>,
}

impl RecordingFilter {
    /// Returns whether nothing is asked for.
    pub fn is_all(&self) -> bool {
        self == &Self::default()
    }

    /// Returns whether a cluster or job is asked for, and the report has others too.
    pub fn is_for_a_part_of(&self, report: &Report) -> bool {
        let other_cluster = |one: &ClusterReport| !self.is_of_cluster(Some(one));
        let mut clusters = report.clusters.iter();
        let mut jobs = report.jobs.iter();
        let mut places = report.deaths.iter();
        self.cluster.is_some() && clusters.any(other_cluster)
            || self.job.is_some() && jobs.any(|one| !self.has_job(report, one))
            || (self.slurm_job.is_some() || self.pod.is_some())
                && places.any(|death| !self.is_of_place(report, death))
    }

    /// Returns whether a death is on the node, of the job and of the cluster that are asked for.
    pub fn has_death(&self, report: &Report, death: &Death) -> bool {
        let cluster = || cluster(report, death.cluster);
        let on_node = |text: &str| {
            let names = [death.node.as_deref(), host(report, death.recording_id)];
            names
                .into_iter()
                .flatten()
                .any(|name| is_called(name, text))
                || cluster().is_some_and(|cluster| has_id(cluster, text))
        };
        let in_cluster = |one: &Death| self.is_of_cluster(self::cluster(report, one.cluster));
        let of_job = |one: &Death| {
            let mut asked = self.job.iter();
            asked.all(|job| self.is_of_job(report, job, one))
        };
        let of_place = |one: &Death| self.is_of_place(report, one);
        self.node.as_deref().is_none_or(on_node)
            && (in_cluster(death) || is_beside(report, death, in_cluster))
            && (of_job(death) || is_beside(report, death, |one| in_cluster(one) && of_job(one)))
            && (of_place(death) || is_beside(report, death, of_place))
    }

    /// Returns whether a death is of the Slurm job and the pod that are asked for: its process, or
    /// the raylet of its cluster.
    fn is_of_place(&self, report: &Report, death: &Death) -> bool {
        let own = &death.process.place;
        let raylets = cluster(report, death.cluster).map(|cluster| &cluster.place);
        self.is_at(own) || own.is_empty() && raylets.is_some_and(|place| self.is_at(place))
    }

    fn is_at(&self, place: &Place) -> bool {
        let job = place.slurm.as_ref().map(|slurm| slurm.job_id.as_str());
        let in_pod = |text: &str| {
            let pod = place.kubernetes.as_ref();
            pod.is_some_and(|pod| pod.is_called(text))
        };
        (self.slurm_job.as_deref()).is_none_or(|asked| job == Some(asked))
            && self.pod.as_deref().is_none_or(in_pod)
    }

    /// Returns the error if no death and no cluster is of the Slurm job or the pod.
    fn missing_place(&self, report: &Report) -> Option<String> {
        let places = || {
            let clusters = report.clusters.iter().map(|cluster| &cluster.place);
            clusters.chain(report.deaths.iter().map(|death| &death.process.place))
        };
        if places().any(|place| self.is_at(place)) {
            return None;
        }
        if let Some(job) = &self.slurm_job {
            let known = places().filter_map(|place| Some(place.slurm.as_ref()?.job_id.clone()));
            return Some(missing("--slurm-job", job, known.collect()));
        }
        let pod = self.pod.as_ref()?;
        let known = places().filter_map(|place| pod_name(place.kubernetes.as_ref()?));
        Some(missing("--pod", pod, known.collect()))
    }

    /// Returns whether the death is that of a process of the job, or the one that ended the job.
    fn is_of_job(&self, report: &Report, job: &HexId, death: &Death) -> bool {
        let mut jobs = report.jobs.iter().filter(|one| self.has_job(report, one));
        death.work.job_id.as_ref() == Some(job)
            || jobs.any(|one| one.ended_by_death_id == Some(death.id))
    }

    /// Returns whether a job is the one that is asked for, of the cluster that is asked for, and of a
    /// cluster with the node that is asked for.
    pub fn has_job(&self, report: &Report, job: &Job) -> bool {
        let own = cluster(report, job.cluster);
        let reaches_node = |text: &str| match own {
            Some(own) => {
                let session = own.session.as_deref();
                let is_same = |one: &&ClusterReport| {
                    one.id == own.id || session.is_some() && one.session.as_deref() == session
                };
                let mut parts = report.clusters.iter().filter(is_same);
                parts.any(|part| {
                    has_id(part, text) || is_recorded_on(report, part.recording_id, text)
                })
            }
            None => (job.recording_id).is_some_and(|id| is_recorded_on(report, id, text)),
        };
        let ended_by = || {
            let mut deaths = report.deaths.iter();
            deaths.find(|death| job.ended_by_death_id == Some(death.id))
        };
        let in_place = || match own {
            Some(own) => self.is_at(&own.place),
            None => ended_by().is_some_and(|death| self.is_of_place(report, death)),
        };
        let of_cluster = match own {
            None => {
                ended_by().is_some_and(|death| self.is_of_cluster(cluster(report, death.cluster)))
            }
            own => self.is_of_cluster(own),
        };
        self.job.as_ref().is_none_or(|id| job.job_id == *id)
            && (self.cluster.is_none() || of_cluster)
            && (self.slurm_job.is_none() && self.pod.is_none() || in_place())
            && self.node.as_deref().is_none_or(reaches_node)
    }

    fn is_of_cluster(&self, cluster: Option<&ClusterReport>) -> bool {
        let session = || cluster?.session.as_deref();
        (self.cluster.as_deref())
            .is_none_or(|text| session().is_some_and(|session| session.contains(text)))
    }

    /// Returns the error if the report does not know what is asked for.
    pub fn not_found_message(&self, report: &Report) -> Option<String> {
        if let Some(text) = &self.node
            && !knows_node(report, text)
        {
            return Some(missing("--node", text, nodes(report)));
        }
        let clusters = || report.clusters.iter();
        if let Some(text) = &self.cluster
            && !clusters().any(|cluster| self.is_of_cluster(Some(cluster)))
        {
            let known = clusters().filter_map(|one| one.session.clone());
            return Some(missing("--cluster", text, known.collect()));
        }
        if let Some(message) = self.missing_place(report) {
            return Some(message);
        }
        let mut jobs = report.jobs.iter();
        let mut deaths = report.deaths.iter();
        let job = self.job.as_ref()?;
        let is_known = jobs.any(|one| one.job_id == *job)
            || deaths.any(|death| death.work.job_id.as_ref() == Some(job));
        let known = report.jobs.iter().map(|one| one.job_id.0.clone());
        (!is_known).then(|| missing("--job", &job.0, known.collect()))
    }

    /// Returns the whole name of the session that is asked for, if the report has it.
    pub fn session(&self, report: &Report) -> Option<String> {
        let text = self.cluster.as_deref()?;
        let mut sessions = report
            .clusters
            .iter()
            .filter_map(|one| one.session.as_ref());
        sessions.find(|session| session.contains(text)).cloned()
    }

    /// Returns whether a recording of the report is of the node and cluster that are asked for.
    pub fn has_recording(&self, report: &Report, number: u32) -> bool {
        let own = || {
            let clusters = report.clusters.iter();
            clusters.filter(|cluster| cluster.recording_id == number)
        };
        let is_called_so = |text: &str| {
            own().any(|cluster| has_id(cluster, text)) || is_recorded_on(report, number, text)
        };
        self.node.as_deref().is_none_or(is_called_so)
            && (self.cluster.is_none() || own().any(|one| self.is_of_cluster(Some(one))))
    }
}

impl RecordingFilter {
    /// Returns whether a cluster is the one that is asked for, on the node that is asked for, and
    /// has the job that is asked for.
    pub fn has_cluster(&self, report: &Report, one: &ClusterReport) -> bool {
        let on_node =
            |text: &str| has_id(one, text) || is_recorded_on(report, one.recording_id, text);
        self.is_of_cluster(Some(one))
            && self.node.as_deref().is_none_or(on_node)
            && (self.job.as_ref()).is_none_or(|job| has_job(report, one, job))
            && self.is_at(&one.place)
    }

    /// Returns whether a setting is in such a cluster, and is set for the job that is asked for or
    /// for the whole cluster.
    pub fn has_setting(&self, report: &Report, setting: &Setting) -> bool {
        let Some(own) = cluster(report, setting.cluster) else {
            return !self.is_for_a_part_of(report);
        };
        let others = self.job.is_some() && setting.job_id.is_some() && setting.job_id != self.job;
        !others && self.has_cluster(report, own)
    }

    /// Returns whether a recording is of a machine with such a cluster.
    pub fn has_machine(&self, report: &Report, number: u32) -> bool {
        let mut clusters = report.clusters.iter();
        self.has_recording(report, number)
            && (self.job.is_none()
                || clusters.any(|one| one.recording_id == number && self.has_cluster(report, one)))
    }
}

/// Returns whether a cluster has a job: its driver, or a process of the job that died, may be on
/// another of its nodes.
fn has_job(report: &Report, one: &ClusterReport, job: &HexId) -> bool {
    let is_same = |number: Option<u32>| {
        cluster(report, number).is_some_and(|other| {
            other.id == one.id || one.session.is_some() && one.session == other.session
        })
    };
    let mut jobs = report.jobs.iter();
    let mut deaths = report.deaths.iter();
    jobs.any(|known| known.job_id == *job && is_same(known.cluster))
        || deaths.any(|death| death.work.job_id.as_ref() == Some(job) && is_same(death.cluster))
}

/// Returns whether a process that is not known to be of a cluster died beside one that is asked
/// for: by the same act, or as its cause or effect. The GCS and helpers may have no cluster.
fn is_beside(report: &Report, death: &Death, is_asked: impl Fn(&Death) -> bool) -> bool {
    if death.cluster.is_some() || !death.process.place.is_empty() {
        return false;
    }
    let act = |one: &Death| one.verdict.act.map(|act| act.death_id);
    let is_near = |one: &Death| {
        act(death).is_some() && act(one) == act(death)
            || death.verdict.cause() == Some(one.id)
            || one.verdict.cause() == Some(death.id)
    };
    report
        .deaths
        .iter()
        .any(|one| is_near(one) && is_asked(one))
}

fn pod_name(pod: &Kubernetes) -> Option<String> {
    pod.pod_name().or_else(|| pod.pod_uid.clone())
}

fn cluster(report: &Report, number: Option<u32>) -> Option<&ClusterReport> {
    let number = number?;
    report.clusters.iter().find(|cluster| cluster.id == number)
}

/// Returns whether a recording is of the node with this name.
fn is_recorded_on(report: &Report, recording: u32, name: &str) -> bool {
    let mut nodes = report.nodes.iter();
    let mut recordings = report.recordings.iter();
    nodes.any(|node| node.recordings.contains(&recording) && is_called(&node.name, name))
        || recordings.any(|one| one.id == recording && is_called(&one.host.name, name))
}

/// Returns the error that names what is asked for, and what there is instead.
fn missing(option: &str, text: &str, mut known: Vec<String>) -> String {
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return format!("{option} {text}: not found; the recordings name none: leave {option} out");
    }
    let known: Vec<String> = known.iter().map(|name| sanitize::name(name)).collect();
    let known = phrase::first(&known, MAX_NAMES);
    format!("{option} {text}: not found; there are {known}")
}

/// Returns the host of a recording.
fn host(report: &Report, recording: Option<u32>) -> Option<&str> {
    let mut recordings = report.recordings.iter();
    let of = recordings.find(|one| Some(one.id) == recording)?;
    Some(&of.host.name)
}

fn knows_node(report: &Report, text: &str) -> bool {
    let mut clusters = report.clusters.iter();
    let mut recordings = report.recordings.iter();
    nodes(report).iter().any(|name| is_called(name, text))
        || recordings.any(|one| is_called(&one.host.name, text))
        || clusters.any(|cluster| has_id(cluster, text))
}

fn nodes(report: &Report) -> Vec<String> {
    if report.nodes.is_empty() {
        let recordings = report.recordings.iter();
        let hosts = recordings.map(|one| one.host.name.clone());
        // Several nodes of Ray on one host differ by their ids only.
        let ids = report
            .clusters
            .iter()
            .filter_map(|one| one.node_id.as_ref());
        let ids: Vec<String> = ids
            .map(|id| id.0.chars().take(SHOWN_DIGITS).collect())
            .collect();
        return hosts
            .chain(ids.into_iter().filter(|_| report.clusters.len() > 1))
            .collect();
    }
    report.nodes.iter().map(|node| node.name.clone()).collect()
}

/// Returns whether a node has this name. Several nodes of one host are called `host/id`.
fn is_called(name: &str, text: &str) -> bool {
    let host = name.split_once('/').map_or(name, |(host, _)| host);
    name.eq_ignore_ascii_case(text) || host.eq_ignore_ascii_case(text)
}

fn has_id(cluster: &ClusterReport, text: &str) -> bool {
    let id = cluster.node_id.as_ref();
    text.len() >= FEWEST_DIGITS && id.is_some_and(|id| id.0.starts_with(&text.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::report::{GroupKill, Slurm},
        show::sample,
    };

    #[test]
    fn deaths_match_node_job_and_cluster() {
        let mut report = sample::verl();
        report.recordings[0].host.name = "gpu-07".into();
        report.deaths[0].work.job_id = HexId::parse("03000000");
        let with = |node: Option<&str>, job: Option<&str>, cluster: Option<&str>| RecordingFilter {
            node: node.map(str::to_owned),
            job: job.and_then(HexId::parse),
            cluster: cluster.map(str::to_owned),
            ..RecordingFilter::default()
        };
        let count = |filter: &RecordingFilter| {
            let deaths = report.deaths.iter();
            deaths
                .filter(|death| filter.has_death(&report, death))
                .count()
        };
        let all = report.deaths.len();
        assert_eq!(count(&RecordingFilter::default()), all);
        assert_eq!(count(&with(Some("GPU-07"), None, None)), all);
        assert_eq!(count(&with(Some("gpu-08"), None, None)), 0);
        let of_job = count(&with(None, Some("02000000"), None));
        assert!(of_job > 0 && of_job < all, "{of_job} of {all}");
        let unknown = with(Some("gpu-08"), None, None).not_found_message(&report);
        assert_eq!(
            unknown.as_deref(),
            Some("--node gpu-08: not found; there are gpu-07")
        );
        assert!(
            with(None, Some("0f000000"), None)
                .not_found_message(&report)
                .is_some()
        );
        assert!(
            with(None, None, Some("no such"))
                .not_found_message(&report)
                .is_some()
        );
        assert_eq!(
            with(Some("gpu-07"), Some("02000000"), None).not_found_message(&report),
            None
        );
        let number = report.recordings[0].id;
        assert!(with(Some("gpu-07"), None, None).has_recording(&report, number));
        assert!(!with(Some("gpu-08"), None, None).has_recording(&report, number));
        assert!(!with(Some("gpu-07"), None, None).has_recording(&report, number + 1));
    }

    /// The raylet's job holds for its cluster. A helper without a cluster is kept with its act.
    #[test]
    fn slurm_job_and_pod_select_their_deaths_and_what_died_beside() {
        let mut report = sample::verl();
        let slurm = |job: &str| Place {
            slurm: Some(Slurm {
                job_id: job.to_owned(),
                step_id: None,
            }),
            ..Place::default()
        };
        for death in &mut report.deaths {
            (death.cluster, death.process.place) = (None, slurm("7"));
            (death.verdict.act, death.verdict.cause_death_id) = (None, None);
        }
        report.clusters[0].place = slurm("7");
        report.deaths[0].process.place = slurm("8");
        report.deaths[1].process.place = Place::default();
        let act = GroupKill {
            death_id: report.deaths[0].id,
            victims: 2,
            signalled: 2,
        };
        for at in [0, 1] {
            report.deaths[at].verdict.act = Some(act);
        }
        let count = |filter: &RecordingFilter| {
            let deaths = report.deaths.iter();
            deaths
                .filter(|death| filter.has_death(&report, death))
                .count()
        };
        let of_job = |job: &str| RecordingFilter {
            slurm_job: Some(job.to_owned()),
            ..RecordingFilter::default()
        };
        assert_eq!(count(&of_job("8")), 2);
        assert_eq!(count(&of_job("7")), report.deaths.len() - 2);
        assert_eq!(of_job("7").not_found_message(&report), None);
        let unknown = of_job("9").not_found_message(&report);
        assert_eq!(
            unknown.as_deref(),
            Some("--slurm-job 9: not found; there are 7, 8")
        );
    }

    /// A job belongs to each node of its cluster.
    #[test]
    fn jobs_of_a_node_are_those_of_its_clusters() {
        let mut report = sample::verl();
        let mut elsewhere = report.clusters[0].clone();
        (elsewhere.id, elsewhere.recording_id) = (7, 1);
        elsewhere.session = Some("session_b".into());
        let mut host = report.recordings[0].clone();
        (host.id, host.host.name) = (1, "gpu-08".into());
        report.recordings.push(host);
        let mut job = report.jobs[0].clone();
        job.cluster = Some(7);
        let on = |node: &str| RecordingFilter {
            node: Some(node.to_owned()),
            ..RecordingFilter::default()
        };
        report.clusters.push(elsewhere);
        let first = report.recordings[0].host.name.clone();
        assert!(on("gpu-08").has_job(&report, &job));
        assert!(!on(&first).has_job(&report, &job));
        // A second node of its cluster.
        report.clusters[1].session = report.clusters[0].session.clone();
        assert!(on(&first).has_job(&report, &job));
    }
}
