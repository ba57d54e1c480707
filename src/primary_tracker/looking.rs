//! Looking at the cluster through its members' eyes: what a view changes about whom we ask.

use std::sync::Arc;

use super::Tracker;
use super::discovered::Discovered;
use super::record::Record;
use crate::clock::BootTime;
use crate::net::canonical;
use crate::topology::{Member, NoView, NodeRole, NodeSettings, Sources, ViewSeen};

/// More nodes than this are not taken in: a view may list whatever somebody has written into the DCS.
const MOST_DISCOVERED: usize = 32;

impl Tracker {
    /// Where views are asked for from now on.
    pub(super) fn set_views(&mut self, sources: &Sources) {
        let views = sources.views();
        self.discover = views.is_some_and(|views| views.discover);
        self.poller.set_views(views);
        self.decider.expect_views(views.is_some());
    }

    /// Takes in a view. True when something has changed.
    pub(super) fn look(&mut self, seen: Result<ViewSeen, NoView>, now: BootTime) -> bool {
        let heeded = match seen {
            Ok(seen) => self.decider.hear_view(&seen, now),
            Err(NoView) => return self.decider.hear_no_view(now),
        };
        if !heeded.counts {
            return self.ask_the_next_endpoint(now);
        }
        self.poller.close_view();
        for id in heeded.wanted {
            self.poller.want(id, now);
        }
        for member in &heeded.strangers {
            match self.as_node(member) {
                Ok(node) => self.discover(node, now),
                Err(why) => self.say_stranger(member, why),
            }
        }
        self.forget_those_who_left(now);
        heeded.fact
    }

    /// The view that counted may have become an old one by what was heard since.
    pub(super) fn look_again(&mut self, now: BootTime) -> bool {
        self.decider.drop_old_view(now) && self.ask_the_next_endpoint(now)
    }

    fn ask_the_next_endpoint(&mut self, now: BootTime) -> bool {
        match self.poller.refuse_view() {
            Some(NoView) => self.decider.hear_no_view(now),
            None => false,
        }
    }

    /// What is needed to ask a member, or why it is not asked.
    fn as_node(&self, member: &Member) -> Result<NodeSettings, &'static str> {
        if !self.discover {
            return Err("it is not used (topology.discover = true uses such members)");
        }
        let (Some(host), Some(api)) = (&member.host, &member.api) else {
            return Err("it does not say where it can be reached, and is not used");
        };
        let records = || self.decider.records.iter();
        if records().any(|r| r.discovered.is_none() && r.settings.name == member.name) {
            return Err("it has the name of one at another address, and is not used");
        }
        let known = |r: &&Record| r.discovered.is_some() && r.settings.name != member.name;
        if records().filter(known).count() >= MOST_DISCOVERED {
            return Err("there are too many such members, and it is not used");
        }
        Ok(NodeSettings {
            name: Arc::clone(&member.name),
            host: Arc::clone(host),
            port: member.port,
            rest_host: (canonical(host) != canonical(&api.host)).then(|| Arc::clone(&api.host)),
            rest_port: api.port,
            role: NodeRole::Auto,
            enabled: true,
            weight: 100,
        })
    }

    fn discover(&mut self, node: NodeSettings, now: BootTime) {
        // It has moved: the machine at its old address is another one. While that leads, this is hearsay.
        let records = &self.decider.records;
        let moved = records.iter().find(|r| r.settings.name == node.name);
        if let Some(id) = moved.map(|r| r.id) {
            if self.decider.reigns(id) {
                return;
            }
            self.remove(id);
        }
        tracing::info!(
            node = &*node.name,
            address = %node.address(),
            "the cluster lists a member that is not configured: it is asked who it is"
        );
        self.add(node);
        if let Some(record) = self.decider.records.last_mut() {
            record.discovered = Some(Discovered::new(now));
        }
    }

    fn say_stranger(&mut self, member: &Member, why: &'static str) {
        let address = match &member.host {
            Some(host) => format!("{host}:{}", member.port),
            None => "an unknown address".to_owned(),
        };
        let key = (Arc::clone(&member.name), address.clone());
        if self.strangers_said.len() < MOST_DISCOVERED && self.strangers_said.insert(key) {
            tracing::warn!(
                member = &*member.name,
                address,
                "the cluster lists a member that is no configured node, by address or by name; {why}"
            );
        }
    }

    fn forget_those_who_left(&mut self, now: BootTime) {
        for id in self.decider.left_for_good(now) {
            if let Some(record) = self.decider.record(id) {
                tracing::info!(
                    node = &*record.settings.name,
                    "the discovered node has left the cluster and is forgotten"
                );
            }
            self.remove(id);
        }
    }
}
