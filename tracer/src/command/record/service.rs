//! What systemd is told, where it started the recorder (`Type=notify`): that it records, that it lives, that it ends.

use sd_notify::NotifyState;

/// Everything is attached, and the file is open.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The loop goes round: for `WatchdogSec=`.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// The end is being written.
pub(super) fn ending() {
    tell(&[NotifyState::Stopping]);
}

/// Without `NOTIFY_SOCKET` nobody is told.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("systemd is not told: {error}");
    }
}
