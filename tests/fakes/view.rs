//! What Patroni says of its cluster: the body of `GET /cluster`.

use serde_json::{Value, json};

use super::answer::Answer;
use super::body::SCOPE;
use super::cluster::{Cluster, Node};

/// A view of a cluster, in the order and with the types of the recorded ones.
#[derive(Clone, Debug)]
pub struct View {
    members: Vec<Value>,
    scope: Option<String>,
}

impl View {
    /// Node `leader` (from 0) leads the others on `timeline`; `None` = nobody does.
    pub fn of(cluster: &Cluster, leader: Option<usize>, timeline: u32) -> Self {
        let member = |(i, node): (usize, &Node)| {
            let leads = leader == Some(i);
            let mut member = json!({
                "name": node.name,
                "role": if leads { "leader" } else { "replica" },
                "state": if leads { "running" } else { "streaming" },
                "api_url": format!("http://{}/patroni", node.rest.addr()),
                "host": node.ip.to_string(),
                "port": node.postgres.addr().port(),
                "timeline": timeline,
            });
            if !leads {
                member["lag"] = json!(0);
            }
            member
        };
        Self {
            members: cluster.nodes.iter().enumerate().map(member).collect(),
            scope: Some(SCOPE.to_owned()),
        }
    }

    /// Sets a field of member `i`.
    pub fn with(mut self, i: usize, key: &str, value: Value) -> Self {
        self.members[i][key] = value;
        self
    }

    /// Lists only the first so many.
    pub fn only(mut self, count: usize) -> Self {
        self.members.truncate(count);
        self
    }

    pub fn answer(&self) -> Answer {
        let mut body = json!({ "members": self.members });
        if let Some(scope) = &self.scope {
            body["scope"] = json!(scope);
        }
        Answer::bytes(200, body.to_string())
    }
}

impl Cluster {
    /// Every node shows this view.
    pub fn shows(&self, view: &View) {
        for i in 0..self.nodes.len() {
            self.shows_at(i, view);
        }
    }

    /// Node `i` shows this view.
    pub fn shows_at(&self, i: usize, view: &View) {
        self.nodes[i].rest.answers("/cluster", view.answer());
    }

    /// Node `i` leads on `timeline`, by its own word and in every view.
    pub fn lead_openly(&mut self, i: usize, timeline: u32) {
        self.lead(i, timeline);
        self.shows(&View::of(self, Some(i), timeline));
    }
}
