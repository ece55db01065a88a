//! Notifies systemd (`Type=notify`) that the recorder records, lives and ends.

use sd_notify::NotifyState;

/// Everything is attached, and the file is open.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The loop goes round: for `WatchdogSec=`.
pub(super) fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// The end is being written.
pub(super) fn ending() {
    notify(&[NotifyState::Stopping]);
}

/// Without `NOTIFY_SOCKET` nobody is told.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot notify systemd: {error}");
    }
}
