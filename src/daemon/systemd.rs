//! What the service manager is told: ready, reloading, stopping, a status line, and that we live.

use std::time::Duration;

use sd_notify::NotifyState;

/// A poller that gave no sign of life for so long is hung, however short systemd's own patience is. Its loop turns
/// at least every second, also when every node is dead.
const PATIENCE: Duration = Duration::from_secs(3);

/// The other end of `NOTIFY_SOCKET`; without one everything here does nothing.
pub(super) struct Manager {
    /// systemd kills a service that is silent for so long.
    watchdog: Option<Duration>,
    /// The status line it knows, so that it is not told the same again.
    said: String,
    /// Another process of ours is the one that it listens to.
    is_over: bool,
    /// Beats left out in a row. After a suspend the first may be: the poller has not had its turn yet.
    missed: u32,
}

impl Manager {
    pub(super) fn from_environment() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled(),
            said: String::new(),
            is_over: false,
            missed: 0,
        }
    }

    /// Started, or done with a reload, well or badly: systemd waits for this after both.
    pub(super) fn ready(&mut self, status: &str) {
        self.said = status.to_owned();
        self.tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    pub(super) fn status(&mut self, status: &str) {
        if self.said != status {
            self.said = status.to_owned();
            self.tell(&[NotifyState::Status(status)]);
        }
    }

    /// The time lets systemd tell this reload's READY from an earlier one (`Type=notify-reload`).
    pub(super) fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!("no clock for systemd: {error}"),
        }
    }

    pub(super) fn stopping(&mut self, status: &str) {
        self.said = status.to_owned();
        self.tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Another process is the main one from now on: it speaks, and this one is silent.
    pub(super) fn hand_over(&mut self, process: u32) {
        self.tell(&[NotifyState::MainPid(process)]);
        self.is_over = true;
    }

    /// How often to call [`Self::alive`].
    pub(super) fn beat(&self) -> Option<Duration> {
        let third = self.watchdog? / 3;
        Some(third.max(Duration::from_millis(1)))
    }

    /// Feeds the watchdog if the poller's last sign of life is young enough: our own life alone is worth nothing.
    pub(super) fn alive(&mut self, poller: Duration) {
        let Some(watchdog) = self.watchdog else {
            return;
        };
        if poller < PATIENCE.max(watchdog / 2) {
            self.missed = 0;
            self.tell(&[NotifyState::Watchdog]);
            return;
        }
        self.missed += 1;
        if self.missed == 2 {
            tracing::error!("the poller hangs for {poller:.1?}: the watchdog is not fed");
        }
    }

    /// A manager that does not listen must not end the service.
    fn tell(&self, states: &[NotifyState<'_>]) {
        if !self.is_over
            && let Err(error) = sd_notify::notify(states)
        {
            tracing::warn!("systemd cannot be told: {error}");
        }
    }
}
