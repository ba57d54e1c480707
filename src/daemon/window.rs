//! What the admin API is told of the configuration, at the start and again at each reload.

use std::sync::Arc;

use tokio::sync::watch;

use crate::admin::{AdminSettings, Port, Shown};
use crate::config::Config;

/// The writing ends.
pub(super) struct Window {
    settings: watch::Sender<AdminSettings>,
    config: watch::Sender<Arc<Shown>>,
}

/// The reading ends.
pub(super) type WindowNow = (watch::Receiver<AdminSettings>, watch::Receiver<Arc<Shown>>);

impl Window {
    /// Nothing where there is no admin API.
    pub(super) fn new(config: &Config) -> (Option<Self>, Option<WindowNow>) {
        let Some(settings) = config.admin.clone() else {
            return (None, None);
        };
        let (settings, settings_now) = watch::channel(settings);
        let (config, config_now) = watch::channel(shown(config));
        let window = Self { settings, config };
        (Some(window), Some((settings_now, config_now)))
    }

    pub(super) fn show(&self, config: &Config) {
        if let Some(settings) = config.admin.clone() {
            self.settings.send_replace(settings);
        }
        self.config.send_replace(shown(config));
    }
}

fn shown(config: &Config) -> Arc<Shown> {
    let ports = config.listeners.iter().map(|listener| Port {
        address: listener.address.to_string(),
        intent: listener.intent,
    });
    Arc::new(Shown {
        file: serde_json::to_value(&config.shown).unwrap_or_default(),
        ports: ports.collect(),
    })
}
