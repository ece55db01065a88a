//! Each alert rule fires in a real Prometheus, and its Alertmanager calls a webhook.

use std::{collections::BTreeSet, fs, net::TcpListener, path::Path};

use raytrace_tests::{
    fake_raylet::FakeRaylet,
    publishing::{
        get, make_folders, next_webhook_request, query_rows, start_prometheus, start_publisher,
        start_recorder, wait_for,
    },
    staging,
};
use rustix::process::Signal;

fn fires(prometheus: &str, name: &str) {
    let query = format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}");
    let rows = wait_for(name, || query_rows(prometheus, &query));
    println!("{}", rows[0]["metric"]);
}

/// Returns whether a counter has moved.
fn counted(address: &str, counter: &str) -> Option<()> {
    let text = get(address, "/metrics")?;
    let line = text.lines().find(|line| line.starts_with(counter))?;
    (!line.ends_with(" 0.0")).then_some(())
}

#[test]
fn each_alert_fires_on_its_cause() {
    let held = tempfile::tempdir().expect("a folder");
    let (folder, own) = make_folders(held.path());
    let session = held.path().join("session_2026-11-23_00-00-00_000000_1");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let python = staging::ray("2.60.0").join("bin/python");
    let script = staging::root().join("tests/staging/alerts.py");
    let shell = format!(
        "{} {} {} & while :; do sleep 1; done",
        python.display(),
        script.display(),
        held.path().display()
    );
    let raylet = FakeRaylet::start_with_script(held.path(), &session, &shell).expect("a script");
    let recorder = start_recorder(&folder, &raylet.pid().to_string());
    let (_publisher, address) = start_publisher(&folder, &own, |_| ());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hook = listener.local_addr().expect("an address").port();
    let targets = [("raytrace", address.clone())];
    let (_prometheus, _manager, prometheus) = start_prometheus(&own, &targets, hook);
    // Prometheus counts an increase from its first scrape on.
    wait_for("a first look", || {
        query_rows(&prometheus, "raytrace_deaths_total")
    });
    let begin = |what: &str| fs::write(held.path().join(what), "").expect("a file");
    begin("near");
    begin("victim");
    fires(&prometheus, "RayMemoryKill");
    fires(&prometheus, "RayVictimWasNotTheBiggest");
    fires(&prometheus, "RayMemoryNearlyFull");
    begin("enough");
    // A stopped recorder does not empty the kernel's ring.
    recorder.signal(Signal::STOP).expect("a signal");
    begin("flood");
    let flooded = held.path().join("flooded");
    wait_for("a flood", || Path::new(&flooded).exists().then_some(()));
    recorder.signal(Signal::CONT).expect("a signal");
    wait_for("a loss", || counted(&address, "raytrace_lost_events_total"));
    fires(&prometheus, "RaytraceLostEvents");
    let mut wanted = BTreeSet::from([
        "RayMemoryKill",
        "RayVictimWasNotTheBiggest",
        "RayMemoryNearlyFull",
        "RaytraceLostEvents",
    ]);
    while !wanted.is_empty() {
        let told = next_webhook_request(&listener);
        wanted.retain(|name| !told.contains(name));
    }
}
