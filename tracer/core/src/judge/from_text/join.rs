//! Joins a kill in a kernel log with a death in Ray's words, only if that is sound.
//!
//! Otherwise both stand alone, with the reason. The kernel counts pids in the initial namespace,
//! Ray in its own. The two are the same if a task dump shows a raylet under the pid that the
//! raylet's own log has. Otherwise two of time (in known zones), name and size must agree, and only
//! one pair may fit.

use std::collections::BTreeMap;

use libc::SIGKILL;

use super::{
    claim::{Claim, PidNamespace, Place, Statement},
    claims::ProcessClaims,
    mismatch::{Candidate, Mismatch, Namespace, Times},
    names::name_agrees,
    other_runs::OtherRuns,
    text_evidence::TextEvidence,
    zone::Clock,
};
use crate::ids::{Pid, SECOND_NS};

/// Two logs date one death at most this far apart.
const SAME_TIME_NS: i64 = 10 * SECOND_NS;
/// The same, if several deaths look alike.
const CLOSE_NS: i64 = 2 * SECOND_NS;
/// Sizes of one process differ by at most this share between Ray and the kernel.
const SAME_SIZE: f64 = 0.05;
/// At most this many pairs are compared.
const MAX_PAIRS: usize = 100_000;
/// At most this many reasons are kept for one death.
const MAX_REASONS: usize = 2;

/// One death: what Ray says of it, what the host's logs say, or both.
#[derive(Debug, Default)]
pub(super) struct Case<'a> {
    pub(super) ray: Option<&'a ProcessClaims>,
    pub(super) host: Option<&'a ProcessClaims>,
    /// Why a kill by the host was joined or not, with its place.
    pub(super) remarks: Vec<(Place, String)>,
    /// A kill by the kernel that may be the same death.
    pub(super) candidate: Option<Candidate>,
}

/// Returns all deaths of named processes in the texts, but for those of other runs.
pub(super) fn join<'a>(
    gathered: &'a TextEvidence,
    clock: &Clock,
    other_runs: &OtherRuns,
) -> Vec<Case<'a>> {
    let (mut hosts, rays): (Vec<&ProcessClaims>, Vec<&ProcessClaims>) = gathered
        .claims
        .deaths()
        .partition(|claims| claims.subject.pid_namespace == PidNamespace::Host);
    hosts.retain(|host| !other_runs.has(host));
    let namespace = namespace(gathered, &rays, &hosts);
    let mut partner: Vec<Option<usize>> = vec![None; rays.len()];
    let mut taken = vec![false; hosts.len()];
    // If there are too many to compare each with each, only equal pids are compared.
    let few = rays.len().saturating_mul(hosts.len()) <= MAX_PAIRS;
    let all: Vec<usize> = (0..hosts.len()).collect();
    let by_pid = by_pid(&hosts);
    for (at, ray) in rays.iter().enumerate() {
        let alike = by_pid.get(&ray.subject.pid).map_or(&[][..], Vec::as_slice);
        let compared = if few { all.as_slice() } else { alike };
        let fitting: Vec<usize> = compared
            .iter()
            .copied()
            .filter(|host| !taken[*host] && judge(ray, hosts[*host], namespace, clock).is_ok())
            .collect();
        let mutual = |host: &usize| {
            let others = rays
                .iter()
                .filter(|other| judge(other, hosts[*host], namespace, clock).is_ok());
            others.count() == 1
        };
        let same_pid = |host: &usize| hosts[*host].subject.pid == ray.subject.pid;
        let of_this_pid: Vec<usize> = fitting.iter().copied().filter(same_pid).collect();
        let chosen = match (of_this_pid.as_slice(), fitting.as_slice()) {
            ([only], _) => Some(*only),
            ([], [only]) if mutual(only) => Some(*only),
            _ => None,
        };
        if let Some(host) = chosen {
            taken[host] = true;
            partner[at] = Some(host);
        }
    }
    let mut cases: Vec<Case<'_>> = Vec::new();
    let left = hosts.iter().zip(&taken).filter(|(_, taken)| !**taken);
    let kernels: Vec<&ProcessClaims> = left
        .map(|(host, _)| *host)
        .filter(|host| is_of_kernel(host))
        .collect();
    for (ray, partner) in rays.iter().zip(&partner) {
        let (remarks, candidate) = match partner.map(|host| hosts[host]) {
            Some(host) => (vec![(place(host), matched(host).to_owned())], None),
            None => reasons(ray, &kernels, namespace, clock, few),
        };
        cases.push(Case {
            ray: Some(ray),
            host: partner.map(|host| hosts[host]),
            remarks,
            candidate,
        });
    }
    let alone = hosts.iter().zip(&taken).filter(|(_, taken)| !**taken);
    cases.extend(alone.map(|(host, _)| Case {
        host: Some(host),
        ..Case::default()
    }));
    cases
}

fn namespace(
    gathered: &TextEvidence,
    rays: &[&ProcessClaims],
    hosts: &[&ProcessClaims],
) -> Namespace {
    let known = &gathered.remarks.raylets;
    let dumped: Vec<_> = hosts
        .iter()
        .flat_map(|host| &host.statements)
        .filter_map(|one| match &one.claim {
            Claim::KernelOom(oom) => Some(oom),
            _ => None,
        })
        .flat_map(|oom| &oom.tasks)
        .filter(|task| task.comm == "raylet")
        .collect();
    if coincidences(rays, hosts) >= 2 {
        return Namespace::Same;
    }
    if known.is_empty() || dumped.is_empty() {
        Namespace::Unknown
    } else if dumped.iter().any(|task| known.contains(&task.pid)) {
        Namespace::Same
    } else {
        Namespace::Different
    }
}

/// Counts workers whose pid a kernel log has too, for a process with the same name. One may be
/// chance, two are not.
fn coincidences(rays: &[&ProcessClaims], hosts: &[&ProcessClaims]) -> usize {
    let by_pid = by_pid(hosts);
    let pairs = rays.iter().filter(|ray| {
        let pid = ray.subject.pid;
        let same = by_pid.get(&pid).filter(|_| pid.is_some());
        same.into_iter().flatten().any(|host| {
            let host = hosts[*host];
            let rays_name = host
                .subject
                .comm
                .as_deref()
                .is_some_and(|comm| comm.starts_with("ray::"));
            rays_name && name_agrees(&ray.subject, &host.subject) != Some(false)
        })
    });
    pairs.count()
}

/// Decides whether both speak of one process.
fn judge(
    ray: &ProcessClaims,
    host: &ProcessClaims,
    namespace: Namespace,
    clock: &Clock,
) -> Result<(), Mismatch> {
    let named = name_agrees(&ray.subject, &host.subject);
    if named == Some(false) {
        return Err(Mismatch::Name);
    }
    if !ray.subject.may_share_host(&host.subject) {
        return Err(Mismatch::Host);
    }
    let apart = apart(ray, host, clock);
    if apart.is_some_and(|apart| apart > 12 * SAME_TIME_NS) {
        return Err(Mismatch::Time);
    }
    let same_pid = ray.subject.pid.is_some() && ray.subject.pid == host.subject.pid;
    if namespace == Namespace::Same {
        return match ray.subject.pid {
            _ if same_pid => Ok(()),
            Some(_) => Err(Mismatch::Pid),
            None => Err(Mismatch::NoPid),
        };
    }
    if !same_pid && !is_open(ray) {
        return Err(Mismatch::KillerKnown);
    }
    let limit = if same_pid { SAME_TIME_NS } else { CLOSE_NS };
    let timed = apart.is_some_and(|apart| apart <= limit);
    let sized = size_agrees(ray, host);
    // Two processes that have one pid in different containers hardly end in the same seconds.
    let only_its_pid = same_pid && timed && namespace == Namespace::Unknown;
    let agreeing = usize::from(timed)
        + usize::from(named == Some(true))
        + usize::from(sized)
        + usize::from(only_its_pid);
    if agreeing >= 2 {
        return Ok(());
    }
    if apart.is_some() && !timed {
        return Err(Mismatch::Time);
    }
    if ray.subject.pid.is_none() {
        return Err(Mismatch::NoPid);
    }
    Err(Mismatch::TooLittle {
        same_pid,
        namespace,
        times: match apart {
            Some(_) => Times::Common,
            None if has_time(ray) && has_time(host) => Times::OfTwoClocks,
            None => Times::Missing,
        },
    })
}

fn size_agrees(ray: &ProcessClaims, host: &ProcessClaims) -> bool {
    let own = ray.statements.iter().find_map(|one| match &one.claim {
        Claim::RayMemory(memory) => memory.own,
        _ => None,
    });
    let kernel = host.statements.iter().find_map(|one| match &one.claim {
        Claim::KernelOom(oom) => oom.anon,
        _ => None,
    });
    let Some((own, kernel)) = own.zip(kernel) else {
        return false;
    };
    (own.gib() - kernel.gib()).abs() <= SAME_SIZE * kernel.gib()
}

fn apart(ray: &ProcessClaims, host: &ProcessClaims, clock: &Clock) -> Option<i64> {
    let times = |claims: &ProcessClaims| -> Vec<i64> {
        of_end(claims)
            .filter_map(|one| clock.time(one.place, one.stamp))
            .collect()
    };
    let host = times(host);
    times(ray)
        .into_iter()
        .flat_map(|ray| host.iter().map(move |host| (ray - host).abs()))
        .min()
}

/// Whether a line about the end has a time, by whatever clock.
fn has_time(claims: &ProcessClaims) -> bool {
    of_end(claims).any(|one| !one.stamp.is_empty())
}

/// Returns what was stated about the end of the process.
fn of_end(claims: &ProcessClaims) -> impl Iterator<Item = &Statement> {
    let statements = claims.statements.iter();
    statements.filter(|one| !matches!(one.claim, Claim::Identity))
}

fn place(host: &ProcessClaims) -> Place {
    host.statements
        .first()
        .map_or(Place::default(), |one| one.place)
}

/// Returns the indices of the host's kills, by their pids.
fn by_pid(hosts: &[&ProcessClaims]) -> BTreeMap<Option<Pid>, Vec<usize>> {
    let mut by_pid: BTreeMap<Option<Pid>, Vec<usize>> = BTreeMap::new();
    for (at, host) in hosts.iter().enumerate() {
        by_pid.entry(host.subject.pid).or_default().push(at);
    }
    by_pid
}

fn is_of_kernel(host: &ProcessClaims) -> bool {
    let mut claims = host.statements.iter();
    claims.any(|one| matches!(&one.claim, Claim::KernelOom(_)))
}

/// Says which log names the same process.
fn matched(host: &ProcessClaims) -> &'static str {
    let by_kernel = |claim: &Claim| match claim {
        Claim::KernelOom(oom) => oom.reporter.is_none(),
        claim => *claim == Claim::Reaped,
    };
    if host.statements.iter().all(|one| by_kernel(&one.claim)) {
        "matched: the kernel log names the same process"
    } else {
        "matched: the host's log names the same process"
    }
}

/// Returns why none of the kernel's kills is this death, if Ray does not know the killer. A kill
/// that may be this death is returned too. All kills are compared only if there are `few`.
fn reasons(
    ray: &ProcessClaims,
    kernels: &[&ProcessClaims],
    namespace: Namespace,
    clock: &Clock,
    few: bool,
) -> (Vec<(Place, String)>, Option<Candidate>) {
    if !is_open(ray) {
        return (Vec::new(), None);
    }
    let of_this_pid = |host: &&&ProcessClaims| host.subject.pid == ray.subject.pid;
    let same = kernels.iter().filter(of_this_pid);
    let others = kernels.iter().filter(|host| !of_this_pid(host));
    let compared = if few { kernels.len() } else { MAX_REASONS };
    let compared = same.chain(others).take(compared);
    let nearest = compared.filter_map(|host| {
        let why = judge(ray, host, namespace, clock).err()?;
        Some((*host, why))
    });
    let mut nearest: Vec<(&ProcessClaims, Mismatch)> = nearest.collect();
    let candidate = |host: &ProcessClaims, why| Candidate::of(place(host), host.subject.pid, why);
    // Kills that nothing rules out come first.
    nearest.sort_by_key(|(host, why)| candidate(host, *why).is_none());
    nearest.truncate(MAX_REASONS);
    let reason = |(host, why): &(&ProcessClaims, Mismatch)| {
        let pid = host
            .subject
            .pid
            .map_or_else(String::new, |pid| format!(" of pid {pid}"));
        let comm = host
            .subject
            .comm
            .as_deref()
            .map_or_else(String::new, |comm| format!(" ({comm})"));
        let same_pid = candidate(host, *why).is_some_and(|one| one.same_pid.is_some());
        let why = if same_pid {
            "may be this death".to_owned()
        } else {
            format!("was not matched: {}", why.words())
        };
        (place(host), format!("an OOM kill{pid}{comm} {why}"))
    };
    let first = nearest.iter().find_map(|(host, why)| candidate(host, *why));
    (nearest.iter().map(reason).collect(), first)
}

/// Whether Ray does not say who ended it.
fn is_open(ray: &ProcessClaims) -> bool {
    let open = |claim: &Claim| {
        matches!(
            claim,
            Claim::DisconnectTypeMemory
                | Claim::MemoryTable(_)
                | Claim::Lost
                | Claim::Unregistered
                | Claim::UnparsedKill
                | Claim::Died
                | Claim::Identity
                | Claim::Frame { .. }
                | Claim::Signalled(SIGKILL)
        )
    };
    ray.statements.iter().all(|one| open(&one.claim))
}
