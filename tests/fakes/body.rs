//! What Patroni says of a node, as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// The system identifier of every scripted cluster that is not told otherwise.
pub const SYSTEM_IDENTIFIER: &str = "7713812041936989168";
pub const SCOPE: &str = "demo";

/// One node's word of itself, in the order and with the types of the recorded answers.
#[derive(Clone, Debug)]
pub struct Body {
    pub name: String,
    pub role: &'static str,
    pub state: &'static str,
    pub timeline: Option<u32>,
    pub scope: String,
    pub system_identifier: String,
    /// Seconds since 1970; `None` says the present second whenever it is asked.
    pub dcs_last_seen: Option<u64>,
    /// Fields beside the usual ones, or in their place.
    pub extra: Map<String, Value>,
}

impl Body {
    pub fn primary(name: &str, timeline: u32) -> Self {
        Self {
            name: name.to_owned(),
            role: "primary",
            state: "running",
            timeline: Some(timeline),
            scope: SCOPE.to_owned(),
            system_identifier: SYSTEM_IDENTIFIER.to_owned(),
            dcs_last_seen: None,
            extra: Map::new(),
        }
    }

    pub fn replica(name: &str, timeline: u32) -> Self {
        Self::primary(name, timeline)
            .role("replica")
            .with("replication_state", json!("streaming"))
    }

    pub fn role(mut self, role: &'static str) -> Self {
        self.role = role;
        self
    }

    pub fn state(mut self, state: &'static str) -> Self {
        self.state = state;
        self
    }

    pub fn timeline(mut self, timeline: Option<u32>) -> Self {
        self.timeline = timeline;
        self
    }

    pub fn scope(mut self, scope: &str) -> Self {
        scope.clone_into(&mut self.scope);
        self
    }

    pub fn system_identifier(mut self, id: &str) -> Self {
        id.clone_into(&mut self.system_identifier);
        self
    }

    /// Sets any field, also one that Patroni does not know.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.extra.insert(key.to_owned(), value);
        self
    }

    /// The bytes at this moment.
    pub fn render(&self) -> Vec<u8> {
        let location = if self.role == "replica" {
            json!({"received_location": 83_886_176, "replayed_location": 83_886_176, "paused": false})
        } else {
            json!({"location": 83_886_176})
        };
        let mut all = json!({
            "state": self.state,
            "postmaster_start_time": "2026-11-30 04:10:25.669987+00:00",
            "role": self.role,
            "server_version": 150_018,
            "xlog": location,
            "dcs_last_seen": self.dcs_last_seen.unwrap_or_else(unix_now),
            "database_system_identifier": self.system_identifier,
            "patroni": {"version": "4.1.5", "scope": self.scope, "name": self.name},
        });
        if let Some(timeline) = self.timeline {
            all["timeline"] = json!(timeline);
        }
        for (key, value) in &self.extra {
            all[key.as_str()] = value.clone();
        }
        all.to_string().into_bytes()
    }
}

pub fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
