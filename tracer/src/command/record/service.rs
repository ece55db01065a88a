//! Notifies systemd (`Type=notify`) that the recorder is ready, alive or ending.

use sd_notify::NotifyState;

/// Reports that everything is attached and the file is open.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports that the loop still runs, for `WatchdogSec=`.
pub(super) fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// Reports that the recording is being ended.
pub(super) fn ending() {
    notify(&[NotifyState::Stopping]);
}

/// Sends a state to systemd. Does nothing without `NOTIFY_SOCKET`.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}
