//! What the cluster says about itself: Patroni's dynamic configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part of `GET /config` that concerns a proxy. What is absent has Patroni's default.
///
/// Source: Patroni documentation, "Dynamic configuration settings".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dynamic {
    /// How long the leader key lives without being renewed.
    pub(crate) ttl: Duration,
    pub(crate) loop_wait: Duration,
    pub(crate) failsafe: bool,
    pub(crate) paused: bool,
}

impl Default for Dynamic {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            loop_wait: Duration::from_secs(10),
            failsafe: false,
            paused: false,
        }
    }
}

impl Dynamic {
    /// `None` when the body is no JSON object.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let Ok(Value::Object(said)) = serde_json::from_slice(body) else {
            return None;
        };
        let or = Self::default();
        let seconds = |key, default| {
            said.get(key)
                .and_then(Value::as_u64)
                .filter(|s| (1..=86_400).contains(s))
                .map_or(default, Duration::from_secs)
        };
        let flag = |key| said.get(key).and_then(Value::as_bool).unwrap_or(false);
        Some(Self {
            ttl: seconds("ttl", or.ttl),
            loop_wait: seconds("loop_wait", or.loop_wait),
            failsafe: flag("failsafe_mode"),
            paused: flag("pause"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_configuration_is_read() {
        let body = include_bytes!("../../tests/fixtures/patroni/4.1.5/healthy/n1_config.json");
        let said = Dynamic::read(body).unwrap();

        assert_eq!(
            (said.ttl, said.loop_wait),
            (Duration::from_secs(20), Duration::from_secs(1))
        );
        assert!(!said.failsafe && !said.paused);
    }

    #[test]
    fn what_is_absent_or_odd_has_patronis_default() {
        let said = Dynamic::read(br#"{"ttl": "x", "loop_wait": 0, "pause": true}"#).unwrap();

        assert_eq!(
            said,
            Dynamic {
                paused: true,
                ..Dynamic::default()
            }
        );
        assert_eq!(Dynamic::read(b"[]"), None);
    }
}
