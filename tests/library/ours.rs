//! The crate's own providers without any cluster: nobody started, nobody answers, the end.

use std::sync::Arc;
use std::time::Duration;

use heliosdb_proxy::primary_tracker::{
    PatroniNode, PatroniTopologyProvider, PostgresNode, PostgresTopologyProvider, PrimaryTracker,
    TopologyProvider, TrackerStatus,
};
use tokio::net::TcpListener;
use tokio::time::timeout;
use uuid::Uuid;

/// Accepts, and says nothing.
async fn mute() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn postgres(at: &TcpListener) -> PostgresTopologyProvider {
    let node = PostgresNode {
        node_id: Uuid::from_u128(1),
        host: "127.0.0.1".to_owned(),
        port: at.local_addr().unwrap().port(),
        user: "probe".to_owned(),
        password: None,
        database: "postgres".to_owned(),
    };
    PostgresTopologyProvider::new(vec![node]).with_poll_interval(Duration::from_millis(50))
}

async fn is_asked(server: &TcpListener) -> bool {
    let asked = timeout(Duration::from_secs(5), server.accept()).await;
    asked.is_ok()
}

#[tokio::test]
async fn a_provider_asks_from_its_first_use_on_and_not_before() {
    let server = mute().await;
    let provider = postgres(&server);
    let early = timeout(Duration::from_millis(300), server.accept()).await;
    assert!(early.is_err(), "nobody has used it yet");

    assert!(provider.get_primary().is_none());
    assert!(is_asked(&server).await);
}

#[tokio::test]
async fn before_the_first_round_a_tracker_is_starting_and_after_it_nobody_leads() {
    let server = mute().await;
    let provider = Arc::new(postgres(&server));
    provider.start().unwrap();
    let tracker = Arc::new(PrimaryTracker::with_observing_provider(
        Arc::clone(&provider) as _,
    ));
    let running = Arc::clone(&tracker);
    tokio::spawn(async move { running.run().await });
    tokio::task::yield_now().await;
    assert_eq!(tracker.status(), TrackerStatus::Starting);

    provider.first_round().await;
    let looked = async {
        while tracker.status() == TrackerStatus::Starting {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(5), looked).await.unwrap();

    assert_eq!(tracker.status(), TrackerStatus::Running);
    assert!(tracker.get_primary().is_none());
}

#[tokio::test]
async fn a_provider_that_cannot_start_is_gone_and_no_cluster_without_a_leader() {
    let provider = PatroniTopologyProvider::new(Vec::<PatroniNode>::new());
    let tracker = PrimaryTracker::with_observing_provider(Arc::new(provider));

    timeout(Duration::from_secs(5), tracker.run())
        .await
        .unwrap();

    assert_eq!(tracker.status(), TrackerStatus::ProviderGone);
}

#[tokio::test]
async fn a_provider_that_is_dropped_asks_no_more() {
    let server = mute().await;
    let provider = postgres(&server);
    provider.start().unwrap();
    assert!(is_asked(&server).await);
    let mut events = provider.subscribe();

    drop(provider);

    let ended = timeout(Duration::from_secs(5), async {
        while events.recv().await.is_ok() {}
    });
    ended.await.unwrap();
}
