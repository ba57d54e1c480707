//! A provider as somebody else would write it, in the shape of Patroni: a view of members, from which it draws events.

use std::sync::Arc;
use std::time::Duration;

use heliosdb_proxy::clock::Clock;
use heliosdb_proxy::primary_tracker::{
    NODE_NAMESPACE, PrimaryTracker, TopologyEvent, TopologyNodeInfo, TopologyProvider,
};
use parking_lot::RwLock;
use tokio::sync::broadcast;
use uuid::Uuid;

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Leader,
    Replica,
}

#[derive(Clone)]
struct Member {
    name: &'static str,
    host: &'static str,
    role: Role,
    running: bool,
}

/// Takes in views as `GET /cluster` would give them.
struct PatroniProvider {
    events: broadcast::Sender<TopologyEvent>,
    members: RwLock<Vec<Member>>,
}

impl Member {
    fn id(&self) -> Uuid {
        Uuid::new_v5(&NODE_NAMESPACE, self.name.as_bytes())
    }

    fn info(&self) -> TopologyNodeInfo {
        TopologyNodeInfo {
            node_id: self.id(),
            client_addr: format!("{}:5432", self.host),
            is_healthy: self.running,
        }
    }
}

fn leader_of(members: &[Member]) -> Option<&Member> {
    let mut leaders = members
        .iter()
        .filter(|member| member.role == Role::Leader && member.running);
    leaders.next().filter(|_| leaders.next().is_none())
}

impl PatroniProvider {
    fn take_in(&self, view: Vec<Member>) {
        let before = std::mem::replace(&mut *self.members.write(), view.clone());
        for gone in before
            .iter()
            .filter(|old| view.iter().all(|new| new.name != old.name))
        {
            let node_id = gone.id();
            let _ = self.events.send(TopologyEvent::NodeLeft { node_id });
        }
        let (old, new) = (leader_of(&before), leader_of(&view));
        if let Some(new) = new.filter(|new| old.is_none_or(|old| old.name != new.name)) {
            let _ = self.events.send(TopologyEvent::PrimaryChanged {
                old_primary: old.map(Member::id),
                new_primary: new.id(),
            });
        }
    }
}

impl TopologyProvider for PatroniProvider {
    fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
        self.events.subscribe()
    }

    fn get_primary(&self) -> Option<TopologyNodeInfo> {
        leader_of(&self.members.read()).map(Member::info)
    }

    fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo> {
        let members = self.members.read();
        members.iter().find(|m| m.id() == id).map(Member::info)
    }
}

fn member(name: &'static str, host: &'static str, role: Role) -> Member {
    Member {
        name,
        host,
        role,
        running: true,
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_provider_is_followed_through_a_switchover_and_a_leaving_node() {
    let view = |first, second| {
        vec![
            member("pg1", "10.0.0.11", first),
            member("pg2", "10.0.0.12", second),
        ]
    };
    let provider = Arc::new(PatroniProvider {
        events: broadcast::channel(16).0,
        members: RwLock::default(),
    });
    let tracker = Arc::new(
        PrimaryTracker::with_provider(Arc::clone(&provider) as Arc<dyn TopologyProvider>)
            .with_clock(Clock::tokio()),
    );
    let running = Arc::clone(&tracker);
    tokio::spawn(async move { running.run().await });
    let settle = || tokio::time::sleep(Duration::from_millis(1));
    let leads = || tracker.get_primary().map(|info| (info.address, info.epoch));
    settle().await;

    provider.take_in(view(Role::Leader, Role::Replica));
    settle().await;
    assert_eq!(leads(), Some(("10.0.0.11:5432".to_owned(), 1)));

    provider.take_in(view(Role::Replica, Role::Leader));
    settle().await;
    assert_eq!(leads(), Some(("10.0.0.12:5432".to_owned(), 2)));

    provider.take_in(view(Role::Replica, Role::Leader)[..1].to_vec());
    settle().await;
    assert_eq!(leads(), None);
}
