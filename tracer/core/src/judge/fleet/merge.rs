//! Merges many reports into one.
//!
//! Recordings, clusters and deaths get new numbers, and all times are wall times.

use crate::{
    ids::{BootTime, EventId},
    judge::report::{Death, Job, Machine, Peak, Report},
};

/// Returns the reports as one. The number of each recording is its place in the list.
pub(super) fn all(reports: Vec<Report>) -> Report {
    let mut reports = (0..).zip(reports);
    let Some((first, mut all)) = reports.next() else {
        return Report::default();
    };
    renumber(&mut all, first, 0);
    for (number, mut report) in reports {
        let clusters = u32::try_from(all.clusters.len()).unwrap_or(u32::MAX);
        renumber(&mut report, number, clusters);
        add(&mut all, report);
    }
    // These are figures of one machine. They stand with the nodes.
    (all.in_use, all.shared_memory) = (None, None);
    all.deaths
        .sort_by_key(|death| (death.when.act_time, death.id));
    all
}

fn add(all: &mut Report, report: Report) {
    all.recordings.extend(report.recordings);
    all.clusters.extend(report.clusters);
    all.jobs.extend(report.jobs);
    all.deaths.extend(report.deaths);
    all.pending.extend(report.pending);
    all.owners.extend(report.owners);
    all.gpus.extend(report.gpus);
    all.gpu_errors.extend(report.gpu_errors);
    all.growth.extend(report.growth);
    all.unread_stacks.extend(report.unread_stacks);
    all.settings.extend(report.settings);
    all.findings.extend(report.findings);
    all.limits.extend(report.limits);
    all.peak = all.peak.into_iter().chain(report.peak).reduce(Peak::nearer);
    all.mentions.extend(report.mentions);
    all.message_times.extend(report.message_times);
    for note in report.notes {
        if !all.notes.contains(&note) {
            all.notes.push(note);
        }
    }
    all.texts.extend(report.texts);
    all.machines.extend(report.machines);
}

/// Writes the number of the recording and that of its first cluster into everything that refers to
/// them.
fn renumber(report: &mut Report, number: u32, clusters: u32) {
    for limit in &mut report.limits {
        for cluster in &mut limit.clusters {
            *cluster += clusters;
        }
    }
    for setting in &mut report.settings {
        setting.cluster = setting.cluster.map(|cluster| cluster + clusters);
    }
    let machine = Machine {
        recording_id: number,
        peak: report.peak,
        limits: report.limits.clone(),
        in_use: report.in_use.clone(),
    };
    report.machines = vec![machine];
    for recording in &mut report.recordings {
        recording.id = number;
    }
    for cluster in &mut report.clusters {
        cluster.id += clusters;
        cluster.recording_id = number;
    }
    for job in &mut report.jobs {
        renumber_job(job, number, clusters);
    }
    for death in report.deaths.iter_mut().chain(&mut report.pending) {
        renumber_death(death, number, clusters);
    }
    for owner in &mut report.owners {
        owner.recording_id = Some(number);
    }
    for growth in &mut report.growth {
        growth.recording_id = Some(number);
    }
    for finding in &mut report.findings {
        finding.recording_id = Some(number);
        for death in &mut finding.deaths {
            *death = death.in_recording(number);
        }
    }
    for message in &mut report.message_times {
        message.cluster += clusters;
    }
    for mention in &mut report.mentions {
        mention.cluster = mention.cluster.map(|cluster| cluster + clusters);
    }
}

fn renumber_job(job: &mut Job, number: u32, clusters: u32) {
    job.cluster = job.cluster.map(|cluster| cluster + clusters);
    job.recording_id = Some(number);
    let of = |id: EventId| id.in_recording(number);
    job.ended_by_death_id = job.ended_by_death_id.map(of);
    for survived in &mut job.survived {
        survived.death_id = of(survived.death_id);
    }
}

fn renumber_death(death: &mut Death, number: u32, clusters: u32) {
    death.id = death.id.in_recording(number);
    death.recording_id = Some(number);
    death.cluster = death.cluster.map(|cluster| cluster + clusters);
    let cause = &mut death.verdict.cause_death_id;
    *cause = cause.map(|cause| cause.in_recording(number));
    if let Some(act) = &mut death.verdict.act {
        act.death_id = act.death_id.in_recording(number);
    }
    // Boot times of several machines have no common order.
    if let Some(time) = death.when.time.or(death.when.exit_time) {
        death.when.act_time = BootTime(time.0.0.max(0).cast_unsigned());
    }
}
