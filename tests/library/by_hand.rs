//! Provider `manual` in a house of another process: an orchestrator names who leads, and clients follow.

use std::time::Duration;

use heliosdb_proxy::primary_tracker::{NODE_NAMESPACE, Refused};
use heliosdb_proxy::{Bound, Config, ConfigBuilder, House};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(10);

/// A startup packet of PostgreSQL 3.0 with `user=app`.
const STARTUP: [u8; 18] = *b"\0\0\0\x12\0\x03\0\0user\0app\0\0";

/// AuthenticationOk and ReadyForQuery: the session is established.
const WELCOME: &[u8; 15] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// Two servers that accept, and a house before them that is told which of them leads.
struct Stand {
    house: House,
    a: TcpListener,
    b: TcpListener,
}

impl Stand {
    async fn start() -> Self {
        let (a, b) = (bind().await, bind().await);
        let config = nodes(&a, &b)
            .set("topology.provider", "manual")
            .build()
            .unwrap();
        let house = House::start(config).await.unwrap();
        Self { house, a, b }
    }

    async fn client(&self) -> TcpStream {
        let [Bound::Tcp(address)] = self.house.listeners()[..] else {
            panic!("one listener");
        };
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&STARTUP).await.unwrap();
        client
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn nodes(a: &TcpListener, b: &TcpListener) -> ConfigBuilder {
    let port = |at: &TcpListener| i64::from(at.local_addr().unwrap().port());
    Config::builder()
        .node("a", "127.0.0.1")
        .set("nodes[0].port", port(a))
        .node("b", "127.0.0.1")
        .set("nodes[1].port", port(b))
        .listen("127.0.0.1:0")
        .without_admin()
}

/// The server's end of the client's session; connections that only see whether it accepts bring no byte.
async fn session(server: &TcpListener) -> TcpStream {
    let dialled = async {
        loop {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut first = [0; STARTUP.len()];
            if stream.read_exact(&mut first).await.is_ok() {
                assert_eq!(first, STARTUP);
                return stream;
            }
        }
    };
    timeout(SOON, dialled).await.unwrap()
}

#[tokio::test]
async fn clients_wait_for_the_named_leader_to_be_confirmed_and_lose_their_sessions_with_it() {
    let stand = Stand::start().await;
    let mut primary = stand.house.primary();
    assert_eq!(
        stand.house.confirm_primary().await,
        Err(Refused::NobodyToConfirm)
    );
    let mut client = stand.client().await;

    stand.house.set_primary("a").await.unwrap();
    let pending = primary.get_primary().unwrap();
    assert_eq!((pending.is_confirmed, pending.epoch), (false, 1));
    let early = timeout(Duration::from_millis(300), session(&stand.a)).await;
    assert!(early.is_err(), "nobody goes to a pending leader");

    stand.house.confirm_primary().await.unwrap();
    assert!(primary.get_primary().unwrap().is_confirmed);
    let mut server = session(&stand.a).await;
    server.write_all(WELCOME).await.unwrap();
    let mut welcome = [0; WELCOME.len()];
    timeout(SOON, client.read_exact(&mut welcome))
        .await
        .unwrap()
        .unwrap();
    // Named again, it is no change.
    stand.house.set_primary("a").await.unwrap();
    assert_eq!(primary.get_primary().unwrap().epoch, 1);

    let b = Uuid::new_v5(&NODE_NAMESPACE, b"b").to_string();
    stand.house.set_primary(&b).await.unwrap();
    stand.house.confirm_primary().await.unwrap();
    let mut end = Vec::new();
    let read = timeout(SOON, client.read_to_end(&mut end)).await.unwrap();
    read.unwrap();
    let words = String::from_utf8_lossy(&end);
    assert!(words.contains("the leader moved"), "{words:?}");
    let leader = primary.get_primary().unwrap();
    let address = stand.b.local_addr().unwrap().to_string();
    assert_eq!((leader.address, leader.epoch), (address, 2));
    let _next = stand.client().await;
    let _server = session(&stand.b).await;

    stand.house.clear_primary().await.unwrap();
    assert!(primary.get_primary().is_none());
    stand.house.stop().await;
}

#[tokio::test]
async fn a_node_that_is_not_there_and_another_provider_are_refused() {
    let stand = Stand::start().await;
    let unknown = stand.house.set_primary("c").await;
    assert_eq!(unknown, Err(Refused::UnknownNode("c".into())));
    stand.house.stop().await;

    let config = nodes(&stand.a, &stand.b).build().unwrap();
    let check = House::start(config).await.unwrap();
    for refused in [
        check.set_primary("a").await,
        check.confirm_primary().await,
        check.clear_primary().await,
    ] {
        assert_eq!(refused, Err(Refused::NotByThisProvider));
    }
    check.stop().await;
}

#[tokio::test]
async fn several_houses_live_in_one_process_and_do_not_know_each_other() {
    let (one, other) = (Stand::start().await, Stand::start().await);

    one.house.set_primary("a").await.unwrap();
    one.house.confirm_primary().await.unwrap();

    assert!(one.house.primary().get_primary().is_some());
    assert!(other.house.primary().get_primary().is_none());
    one.house.stop().await;
    other.house.set_primary("b").await.unwrap();
    other.house.stop().await;
}
