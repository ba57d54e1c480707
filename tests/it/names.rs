//! Nodes behind names and on IPv6.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Instant;

use super::scene::{PATIENCE, Scene, config, tcp};
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::{Door, Mode};
use crate::fakes::{ms, ports, within};

#[tokio::test]
async fn a_cluster_on_ipv6_only_is_followed() {
    let mut cluster = Cluster::start_v6().expect("::1 is there");
    cluster.lead(0, 1);
    let scene = Scene::start(cluster, &Tempo::default()).await;
    let mut client = scene.login().await;
    assert_eq!(client.node().await.unwrap(), "n1");

    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 2)));

    assert_eq!(client.last_words().await.code(), "57P01");
    assert_eq!(scene.node_at_last().await.0, "n1");
}

#[tokio::test]
async fn a_listener_on_ipv6_serves() {
    let mut cluster = Cluster::start(1);
    cluster.lead(0, 1);
    let text = cluster.toml().replace("127.0.0.1:0", "[::1]:0");
    let scene = Scene::with_text(cluster, &text).await;
    assert!(scene.addr.is_ipv6());
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn a_name_with_a_dead_first_address_is_reached_by_its_other_one() {
    let (postgres, rest) = (ports::free(), ports::free());
    let node = crate::fakes::patroni::Patroni::start(rest).unwrap();
    node.says(Answer::new(200, Body::primary("n1", 1)));
    let _server = crate::fakes::postgres::Postgres::start(postgres, "n1").unwrap();
    for dead in [Mode::Refuse, Mode::Swallow] {
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, rest.port()));
        let shadow = Door::open(v6, |_, _| async {}).expect("::1 is there");
        shadow.set(dead).await;
        let tempo = Tempo {
            check_timeout_ms: 8000,
            ..Tempo::default()
        };
        let text = tempo.toml()
            + &format!(
                "[[nodes]]\nname = \"n1\"\nhost = \"localhost\"\nport = {}\nrest_port = {}\n",
                postgres.port(),
                rest.port(),
            );
        let since = Instant::now();
        let house = heliosdb_proxy::House::start(config(&text)).await.unwrap();
        let login = within(PATIENCE, "a login", Client::login(tcp(&house, 0)));
        assert_eq!(login.await.unwrap().node().await.unwrap(), "n1", "{dead:?}");
        // Two answers make a node up; each may wait 300 ms for the dead address, and none for its time to run out.
        let took = since.elapsed();
        assert!(took < ms(5000), "{dead:?}: {took:?}");
        house.stop().await;
    }
}
