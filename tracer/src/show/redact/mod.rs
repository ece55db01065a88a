//! Redacts a report: no command arguments, host or user names, addresses or paths.
//!
//! Class, task and method names stay, and so do ids, pids and sizes. What is removed gets a stable
//! pseudonym (`host-1`, `path-2`), so equal things stay equal, such as the path in a cgroup's field
//! and in the log line that quotes it. Every view prints the redacted report, and none redacts by
//! itself.

mod cause;
mod known_names;
mod link;
mod public;
mod scrub;

use std::path::Path;

use crate::{
    event::Role,
    judge::{
        report::{
            Death, Finding, GcsReport, Job, Node, OomReport, OutcomeReason, Place, Report,
            SenderReport, SharedFileUse,
        },
        timeline::Timeline,
    },
    path,
};
pub use known_names::KnownNames;
use scrub::Scrubber;

/// Returns the report without what identifies people, machines and their data.
pub fn redact(report: &Report) -> Report {
    redact_by(&mut Scrubber::default(), report)
}

/// Redacts a report, and in place the timelines of its recordings, under the same pseudonyms.
///
/// Also returns the names that the output must not hold. `file` is where the report was read from.
pub fn redact_with_timelines<'a>(
    report: &Report,
    timelines: impl Iterator<Item = &'a mut Timeline>,
    file: Option<&Path>,
) -> (Report, KnownNames) {
    let all = serde_json::to_value(report).unwrap_or_default();
    let mut scrubber = Scrubber::default();
    // The name of a recording contains its host.
    if let Some(name) = file.and_then(Path::file_name) {
        scrubber.learn_file(&name.to_string_lossy());
    }
    let report = redact_by(&mut scrubber, report);
    for timeline in timelines {
        for process in &mut timeline.processes {
            process.label = scrubber.title(&process.label);
            scrubber.each(Scrubber::path, process.cgroup.iter_mut());
            for (_, title) in &mut process.titles {
                *title = scrubber.title(title);
            }
            for call in &mut process.calls {
                call.task = scrubber.code(&call.task);
            }
        }
        for cgroup in &mut timeline.cgroups {
            cgroup.path = scrubber.path(&cgroup.path);
        }
        scrubber.each(Scrubber::text, timeline.addresses.iter_mut().flatten());
    }
    learn_all(&mut scrubber, &all);
    let known = scrubber.known_names();
    (report, known)
}

/// Finds the names in every field, whatever its purpose.
fn learn_all(scrubber: &mut Scrubber, value: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => scrubber.learn(text),
        serde_json::Value::Array(all) => all.iter().for_each(|one| learn_all(scrubber, one)),
        serde_json::Value::Object(all) => all.values().for_each(|one| learn_all(scrubber, one)),
        _ => {}
    }
}

fn redact_by(scrubber: &mut Scrubber, report: &Report) -> Report {
    learn(scrubber, report);
    let mut report = report.clone();
    for recording in &mut report.recordings {
        recording.host.name = scrubber.host(&recording.host.name);
        recording.host.boot_id = scrubber.pseudonym("boot", &recording.host.boot_id);
        for probe in &mut recording.probes {
            probe.name = probe_name(scrubber, &probe.name);
            scrubber.each(Scrubber::text, &mut probe.reason);
        }
        for gone in &mut recording.lost_probes {
            gone.name = probe_name(scrubber, &gone.name);
            scrubber.each(Scrubber::text, &mut gone.reason);
        }
        for ledger in &mut recording.ledgers {
            ledger.hook = probe_name(scrubber, &ledger.hook);
        }
    }
    for cluster in &mut report.clusters {
        scrubber.each(Scrubber::text, &mut cluster.node_ip);
        redact_place(scrubber, &mut cluster.place);
    }
    for job in &mut report.jobs {
        redact_job(scrubber, job);
    }
    for death in report.deaths.iter_mut().chain(&mut report.pending) {
        redact_death(scrubber, death);
    }
    for owner in &mut report.owners {
        owner.class = scrubber.title(&owner.class);
        if let Some(gcs) = &mut owner.gcs {
            scrubber.each(Scrubber::text, &mut gcs.actor_names);
            scrubber.each(Scrubber::text, &mut gcs.placement_groups);
            scrubber.each(Scrubber::command, &mut gcs.job_entrypoints);
        }
    }
    for error in &mut report.gpu_errors {
        scrubber.each(Scrubber::text, &mut error.comm);
        error.text = scrubber.text(&error.text);
    }
    for unread in &mut report.unread_stacks {
        unread.reason = scrubber.text(&unread.reason);
    }
    for growth in &mut report.growth {
        growth.class = scrubber.title(&growth.class);
        for line in growth.lines.iter_mut().chain(&mut growth.functions) {
            line.file = scrubber.code_file(&line.file);
            scrubber.each(Scrubber::text, &mut line.user_line);
            scrubber.each(Scrubber::text, &mut line.inside);
            scrubber.each(Scrubber::text, &mut line.native);
        }
    }
    for setting in &mut report.settings {
        setting.value = scrubber.setting(&setting.value);
        setting.source = scrubber.text(&setting.source);
    }
    for finding in &mut report.findings {
        redact_finding(scrubber, finding);
    }
    let sums = report.shared_memory.iter_mut().map(|sum| &mut sum.files);
    let sums = sums.chain(report.in_use.iter_mut().map(|sum| &mut sum.shared_files));
    for file in sums.flatten() {
        redact_shared_file(scrubber, file);
    }
    for limit in &mut report.limits {
        limit.cgroup = scrubber.path(&limit.cgroup);
    }
    for text in &mut report.texts {
        // The evidence names the file without its folder.
        text.name = scrubber.text(path::base(&text.name));
    }
    for node in &mut report.nodes {
        redact_node(scrubber, node);
    }
    for cluster in &mut report.clusters {
        scrubber.each(Scrubber::text, &mut cluster.gcs_address);
    }
    scrubber.each(Scrubber::note, &mut report.notes);
    report
}

/// Redacts the name of a probe. Names of hooks and of the kernel's files stay, but a GCS has its
/// address in its name.
fn probe_name(scrubber: &mut Scrubber, name: &str) -> String {
    match name.strip_prefix("GCS ") {
        Some(address) => format!("GCS {}", scrubber.text(address)),
        None => name.to_owned(),
    }
}

/// Learns the names in fields, so that they are also removed from free text.
fn learn(scrubber: &mut Scrubber, report: &Report) {
    for recording in &report.recordings {
        scrubber.learn_host(&recording.host.name);
    }
    for node in &report.nodes {
        scrubber.learn_host(&node.name);
    }
    for setting in &report.settings {
        scrubber.learn_key(&setting.key);
    }
    for command in report.jobs.iter().flat_map(|job| &job.entrypoint) {
        scrubber.learn_command(command);
    }
    for death in report.deaths.iter().chain(&report.pending) {
        let gcs = death.work.gcs.as_ref();
        if let Some(name) = gcs.and_then(|gcs| gcs.node_name.as_ref()) {
            scrubber.learn_host(name);
        }
        let code = [&death.work.actor_class, &death.work.task_name];
        for name in code.into_iter().flatten() {
            scrubber.learn_code(name);
        }
        let job = gcs.and_then(|gcs| gcs.job_entrypoint.as_ref());
        let top = death.memory.top.iter().map(|top| &top.title);
        for command in job.into_iter().chain(&death.process.title).chain(top) {
            scrubber.learn_command(command);
        }
    }
}

fn redact_node(scrubber: &mut Scrubber, node: &mut Node) {
    node.name = scrubber.host(&node.name);
    scrubber.each(Scrubber::text, &mut node.address);
    if let Some(declared) = &mut node.declared_dead {
        scrubber.each(Scrubber::text, &mut declared.message);
    }
    for limit in &mut node.limits {
        limit.cgroup = scrubber.path(&limit.cgroup);
    }
    let files = node.in_use.iter_mut().flat_map(|sum| &mut sum.shared_files);
    for file in files {
        redact_shared_file(scrubber, file);
    }
}

fn redact_job(scrubber: &mut Scrubber, job: &mut Job) {
    scrubber.each(Scrubber::command, &mut job.entrypoint);
    match &mut job.because {
        OutcomeReason::Driver { cause, .. } | OutcomeReason::Raylet { cause, .. } => {
            cause::redact(scrubber, cause);
        }
        OutcomeReason::OnAnotherNode { link, node, .. } => {
            link::redact_link_reason(scrubber, link);
            *node = scrubber.host(node);
        }
        OutcomeReason::Running
        | OutcomeReason::Succeeded
        | OutcomeReason::Interrupted
        | OutcomeReason::AfterDeath { .. }
        | OutcomeReason::NoDeathSeen { .. } => {}
    }
}

fn redact_death(scrubber: &mut Scrubber, death: &mut Death) {
    death.process.comm = scrubber.text(&death.process.comm);
    scrubber.each(Scrubber::title, &mut death.process.title);
    if death.process.role != Role::Worker {
        scrubber.each(Scrubber::text, &mut death.work.task_name);
    }
    let names = [&mut death.work.task_name, &mut death.work.actor_class];
    scrubber.each(Scrubber::code, names.into_iter().flatten());
    if let Some(gcs) = &mut death.work.gcs {
        redact_gcs(scrubber, gcs);
    }
    redact_place(scrubber, &mut death.process.place);
    let verdict = &mut death.verdict;
    cause::redact(scrubber, &mut verdict.cause);
    if let Some(remote) = &mut verdict.cause_remote {
        link::redact_remote(scrubber, remote);
    }
    if let Some(link) = &mut verdict.cause_link {
        link.node = scrubber.host(&link.node);
        link::redact_link_reason(scrubber, &mut link.because);
    }
    for piece in &mut verdict.evidence {
        piece.source = scrubber.text(&piece.source);
        piece.what = scrubber.quote(&piece.what);
    }
    if let Some(sender) = &mut death.sender {
        redact_sender(scrubber, sender);
    }
    if let Some(oom) = &mut death.memory.oom {
        redact_oom(scrubber, oom);
    }
    let limits = death
        .memory
        .at_death
        .iter_mut()
        .flat_map(|at| &mut at.limits);
    for limit in limits {
        limit.cgroup = scrubber.path(&limit.cgroup);
    }
    for top in &mut death.memory.top {
        top.title = scrubber.title(&top.title);
        scrubber.each(Scrubber::path, &mut top.cgroup);
    }
    if let Some(suspect) = &mut death.memory.suspect {
        suspect.title = scrubber.title(&suspect.title);
    }
    for file in &mut death.memory.shared {
        redact_shared_file(scrubber, file);
    }
    if let Some(warning) = &mut death.memory.warning {
        let names = [&mut warning.grower, &mut warning.likely_victim];
        scrubber.each(Scrubber::code, names.into_iter().flatten());
    }
    if let Some(minute) = &mut death.memory.last_minute {
        for top in &mut minute.top {
            top.title = scrubber.title(&top.title);
        }
        for limit in &mut minute.limits {
            limit.cgroup = scrubber.path(&limit.cgroup);
        }
    }
    if let Some(calls) = &mut death.activity.calls {
        calls.task = scrubber.code(&calls.task);
    }
    scrubber.each(Scrubber::text, &mut death.activity.stack_at_death);
    scrubber.each(Scrubber::text, &mut death.activity.line_at_death);
    scrubber.each(Scrubber::host, &mut death.node);
}

/// Redacts names that people have given. Ids stay.
fn redact_place(scrubber: &mut Scrubber, place: &mut Place) {
    let Some(kubernetes) = &mut place.kubernetes else {
        return;
    };
    for (kind, name) in [
        ("cluster", &mut kubernetes.cluster),
        ("namespace", &mut kubernetes.namespace),
        ("pod", &mut kubernetes.pod),
        ("group", &mut kubernetes.group),
        ("container", &mut kubernetes.container),
    ] {
        if let Some(name) = name {
            *name = scrubber.pseudonym(kind, name);
        }
    }
}

/// Redacts names of actors and placement groups as free text: plain names stay.
fn redact_gcs(scrubber: &mut Scrubber, gcs: &mut GcsReport) {
    scrubber.each(Scrubber::text, &mut gcs.actor_name);
    scrubber.each(Scrubber::text, &mut gcs.placement_group);
    scrubber.each(Scrubber::host, &mut gcs.node_name);
    scrubber.each(Scrubber::command, &mut gcs.job_entrypoint);
}

fn redact_shared_file(scrubber: &mut Scrubber, file: &mut SharedFileUse) {
    file.name = match file.name.strip_prefix("memfd:") {
        Some(name) => format!("memfd:{}", scrubber.pseudonym("name", name)),
        None => scrubber.path(&file.name),
    };
    scrubber.each(Scrubber::title, &mut file.holder);
}

fn redact_sender(scrubber: &mut Scrubber, sender: &mut SenderReport) {
    sender.comm = scrubber.text(&sender.comm);
    if let Some(exe) = &mut sender.exe {
        *exe = path::base(exe).to_owned();
    }
    for ancestor in &mut sender.ancestors {
        ancestor.comm = scrubber.text(&ancestor.comm);
    }
}

fn redact_oom(scrubber: &mut Scrubber, oom: &mut OomReport) {
    let cgroups = [&mut oom.cgroup, &mut oom.task_cgroup];
    scrubber.each(Scrubber::path, cgroups.into_iter().flatten());
    scrubber.each(Scrubber::text, &mut oom.invoker_comm);
}

fn redact_finding(scrubber: &mut Scrubber, finding: &mut Finding) {
    finding.summary = scrubber.text(&finding.summary);
    scrubber.each(Scrubber::quote, &mut finding.evidence);
    scrubber.each(Scrubber::text, &mut finding.remedy);
    if let Some(saving) = &mut finding.saving {
        scrubber.each(Scrubber::code, &mut saving.class);
        scrubber.each(Scrubber::code, &mut saving.task);
    }
    scrubber.each(Scrubber::text, &mut finding.cost);
    scrubber.each(Scrubber::text, &mut finding.not_if);
    scrubber.each(Scrubber::text, &mut finding.about.shared);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::report::{CallsReport, GcsOwner, Owner},
        show::{json, sample},
    };

    fn staged() -> Report {
        let mut report = sample::others();
        report.jobs[0].entrypoint =
            Some("python3 /home/lin/train.py --api-key sk-123 s3://bucket/data".into());
        report.recordings[0].host.name = "gpu-07.corp.example.com".into();
        let death = &mut report.deaths[0];
        death.memory.oom = sample::burst().deaths[0].memory.oom.clone();
        death.activity.stack_at_death =
            Some("lin@gpu-07 retried it with sk-123 from 10.1.2.3:6379 and [fd00::1:2]".into());
        death.verdict.evidence[0].what =
            "oom-kill:oom_memcg=/job,task_memcg=/job/lin on gpu-07, user lin, /home/lin/x.parquet"
                .into();
        death.verdict.evidence[0].source = "/tmp/ray/session_x/logs/raylet.out".into();
        death.memory.top = sample::verl().deaths[0].memory.top.clone();
        death.work.task_name = Some("for Acme with hf_AbCdEfGhIjKl".into());
        death.activity.calls = Some(Box::new(CallsReport {
            task: "for Acme with hf_AbCdEfGhIjKl".into(),
            died_in: Some(2),
            from_start: true,
            running_ms: None,
            before_bytes: None,
            peak_bytes: None,
            complete: 1,
            per_call_bytes: None,
        }));
        let mut shell = death.verdict.evidence[0].clone();
        shell.what =
            "x.sh: line 12:  4218 Killed    KEY=hush python3 -m verl.main project=acme".into();
        let mut daemon = shell.clone();
        daemon.what = "sent SIGTERM to \"python3 train.py --api-key hush\"".into();
        death.verdict.evidence.extend([shell, daemon]);
        death.work.gcs = Some(Box::new(GcsReport {
            actor_name: Some("keeper".into()),
            placement_group: Some("of user lin".into()),
            job_entrypoint: Some("python3 /home/lin/train.py --api-key sk-123".into()),
            node_name: Some("gpu-07.corp.example.com".into()),
            ..GcsReport::default()
        }));
        report.owners = vec![Owner {
            class: "Keeper".into(),
            gcs: Some(GcsOwner {
                actor_names: vec!["of user lin".into()],
                placement_groups: vec!["/home/lin".into()],
                job_entrypoints: vec!["python3 /home/lin/train.py --api-key sk-123".into()],
            }),
            ..Owner::default()
        }];
        report
    }

    #[test]
    fn no_field_keeps_what_identifies() {
        let text = json::render(&redact(&staged())).expect("JSON");
        for secret in [
            "lin\"", "/home", "lin@", "sk-123", "s3://", "gpu-07", "corp", "10.1.2.3", "fd00",
            "hunter2", "user lin", "/tmp", "/job", "parquet", "/usr/bin", "hush", "acme", "hf_",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }

    #[test]
    fn recording_file_name_is_removed() {
        let mut report = staged();
        let name = "raytrace-c-node.internal-20261120T060211Z.raytrace";
        report.notes = ["", "/data/", "runs/"]
            .map(|folder| format!("{folder}{name} was not ended cleanly"))
            .to_vec();
        let file = Path::new("/data").join(name);
        let (report, _) = redact_with_timelines(&report, std::iter::empty(), Some(&file));
        assert_eq!(report.notes[0], "FILE was not ended cleanly");
        for note in &report.notes {
            assert!(!note.contains("c-node"), "{note}");
        }
    }

    #[test]
    fn class_method_and_program_names_stay() {
        let report = redact(&staged());
        assert_eq!(report.jobs[0].entrypoint.as_deref(), Some("python3 …"));
        assert_eq!(
            report.deaths[0].process.title.as_deref(),
            Some("ray::Trainer.fit")
        );
        assert_eq!(
            report.deaths[0].work.actor_class.as_deref(),
            Some("Trainer")
        );
        let gcs = report.deaths[0].work.gcs.as_ref().expect("the GCS's words");
        assert_eq!(gcs.actor_name.as_deref(), Some("keeper"));
        assert_eq!(report.deaths[0].memory.top[0].title, "ray::TaskRunner.run");
        assert_eq!(report.deaths[3].process.title.as_deref(), Some("python3 …"));
        let sender = report.deaths[0].sender.as_ref().expect("sender");
        assert_eq!(sender.exe.as_deref(), Some("bash"));
    }

    #[test]
    fn equal_values_get_equal_pseudonyms() {
        let report = redact(&staged());
        let oom = report.deaths[0].memory.oom.as_ref().expect("oom");
        let cgroup = oom.cgroup.as_deref().expect("cgroup");
        assert!(cgroup.starts_with("path-"), "{cgroup}");
        assert!(
            report.deaths[0].verdict.evidence[0]
                .what
                .contains(&format!("oom_memcg={cgroup},"))
        );
        assert!(
            report.deaths[0]
                .activity
                .stack_at_death
                .as_deref()
                .expect("a stack")
                .contains("@host-1")
        );
        assert_eq!(report.recordings[0].host.name, "host-1");
        assert_eq!(redact(&report), report);
    }
}
