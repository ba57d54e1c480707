//! The scripted neighbours themselves: a test that leans on them must know that they do as they say.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::{self, Client};
use crate::fakes::cluster::Cluster;
use crate::fakes::door::Mode;
use crate::fakes::patroni::Patroni;
use crate::fakes::postgres::Greeting;
use crate::fakes::{eventually, ms, wire};

async fn get(node: &Patroni, path: &str) -> String {
    let mut stream = TcpStream::connect(node.addr()).await.unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_scripted_leader_answers_as_patroni_does_and_remembers_who_asked() {
    let mut cluster = Cluster::start(2);
    let since = Instant::now();
    cluster.lead(1, 7);

    let follower = get(&cluster.nodes[0].rest, "/primary").await;
    let leader = get(&cluster.nodes[1].rest, "/primary").await;

    assert!(
        follower.starts_with("HTTP/1.0 503 Service Unavailable\r\n"),
        "{follower}"
    );
    assert!(leader.starts_with("HTTP/1.0 200 OK\r\n"), "{leader}");
    let body: serde_json::Value =
        serde_json::from_str(leader.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        (&body["role"], &body["timeline"]),
        (&"primary".into(), &7.into())
    );
    assert_eq!(cluster.nodes[1].rest.asked("/primary", since), 1);
    assert_eq!(cluster.nodes[1].rest.cut_short(), 0);
}

#[tokio::test]
async fn an_asker_that_leaves_early_is_noticed() {
    let cluster = Cluster::start(1);
    let rest = &cluster.nodes[0].rest;
    rest.says(Answer::new(200, Body::primary("n1", 1)).drip(ms(5)));

    let mut stream = TcpStream::connect(rest.addr()).await.unwrap();
    stream
        .write_all(b"GET /primary HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    stream.read_u8().await.unwrap();
    drop(stream);

    assert!(eventually(Duration::from_secs(5), || rest.cut_short() == 1).await);
}

#[tokio::test]
async fn a_scripted_server_speaks_to_a_real_driver() {
    let cluster = Cluster::start(1);
    let server = &cluster.nodes[0].postgres;
    let text = format!(
        "host={} port={} user=app sslmode=prefer",
        server.addr().ip(),
        server.addr().port()
    );

    let (driver, connection) = tokio_postgres::connect(&text, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let rows = driver.simple_query("where am I").await.unwrap();
    let node = rows.iter().find_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });

    assert_eq!(node.as_deref(), Some("n1"));
    assert_eq!((server.sessions(), server.open()), (1, 1));
    drop(driver);
    connection.await.unwrap().unwrap();
    assert!(eventually(Duration::from_secs(5), || server.open() == 0).await);
}

#[tokio::test]
async fn a_cancel_with_a_long_key_ends_a_hanging_query_and_a_wrong_key_does_not() {
    let cluster = Cluster::start(1);
    let server = &cluster.nodes[0].postgres;
    server.script(|script| script.key_length = Some(256));
    let mut guest = Client::login(server.addr()).await.unwrap();
    guest.send(&wire::query("hang")).await.unwrap();
    let key = guest.key.clone().unwrap();

    client::cancel(server.addr(), guest.process, &[0; 4])
        .await
        .unwrap();
    assert!(
        tokio::time::timeout(ms(50), guest.stream.peek(&mut [0]))
            .await
            .is_err()
    );
    client::cancel(server.addr(), guest.process, &key)
        .await
        .unwrap();

    assert_eq!(guest.result().await.unwrap_err().code(), "57014");
    assert_eq!(server.cancels()[1].len(), 268);
}

#[tokio::test]
async fn a_door_refuses_swallows_and_accepts_again() {
    let cluster = Cluster::start(1);
    let server = &cluster.nodes[0].postgres;

    server.mode(Mode::Refuse).await;
    let refused = TcpStream::connect(server.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    server.mode(Mode::Swallow).await;
    assert!(
        tokio::time::timeout(ms(200), TcpStream::connect(server.addr()))
            .await
            .is_err()
    );

    server.mode(Mode::Accept).await;
    assert_eq!(
        Client::login(server.addr())
            .await
            .unwrap()
            .node()
            .await
            .unwrap(),
        "n1"
    );
}

#[tokio::test]
async fn an_unwell_server_says_what_it_is_told_to_say() {
    let cluster = Cluster::start(1);
    let server = &cluster.nodes[0].postgres;

    server.script(|script| script.greeting = Greeting::Fatal("57P03", "starting up"));
    assert_eq!(
        Client::login(server.addr()).await.unwrap_err().code(),
        "57P03"
    );
    server.script(|script| script.greeting = Greeting::Close);
    assert_eq!(Client::login(server.addr()).await.unwrap_err().code(), "-");
    server.script(|script| {
        script.greeting = Greeting::Welcome;
        script.max_connections = 1;
    });
    let _first = Client::login(server.addr()).await.unwrap();
    assert_eq!(
        Client::login(server.addr()).await.unwrap_err().code(),
        "53300"
    );
}
