//! The leader moves: at no step of its life may a session stay on the old one.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::stand::*;
use crate::routing::RoutingSettings;
use crate::routing::testing::Wish;
use crate::session::SessionSettings;

const SOON: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn an_open_session_is_ended_in_words_when_the_leader_moves() {
    let stand = Stand::start().await;
    let (a, b) = (
        Server::start("a", Manner::Serves).await,
        Server::start("b", Manner::Serves).await,
    );
    stand.script.leads(a.addr);
    let mut client = stand.session().await;
    assert_eq!((client.asks().await.as_str(), stand.open()), ("a", 1));

    stand.script.leads(b.addr);

    let (code, words) = client.refusal().await;
    assert_eq!(code, "57P01");
    assert_eq!(
        words,
        "terminating connection to node1 because the leader moved"
    );
    assert!(eventually(SOON, || a.open() == 0 && stand.open() == 0).await);
    assert_eq!(stand.session().await.asks().await, "b");
}

#[tokio::test]
async fn a_cancel_goes_to_the_node_that_issued_the_key_also_after_a_switch() {
    let stand = Stand::start().await;
    let (a, b) = (
        Server::start("a", Manner::Serves).await,
        Server::start("b", Manner::Serves).await,
    );
    stand.script.leads(a.addr);
    let mut client = stand.session().await;
    stand.script.leads(b.addr);
    assert_eq!(client.refusal().await.0, "57P01");

    let mut cancel = stand.client().await;
    cancel
        .send(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\0\x01\x02\x03\x04")
        .await;
    cancel.ends().await;

    assert_eq!(a.cancels.lock().unwrap().len(), 1);
    assert_eq!(b.dials(), 0);
}

#[tokio::test]
async fn no_words_are_put_into_the_middle_of_a_message() {
    let stand = Stand::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    stand.script.leads(listener.local_addr().unwrap());
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let mut half = message(b'R', &[0; 4]);
    half.extend(message(b'Z', b"I"));
    half.extend(b"D\0\0\0\x64only the beginning");
    tokio::io::AsyncWriteExt::write_all(&mut server, &half)
        .await
        .unwrap();
    client.until_ready().await;
    let mut beginning = [0; 23];
    tokio::io::AsyncReadExt::read_exact(&mut client.stream, &mut beginning)
        .await
        .unwrap();

    stand.script.follows();

    client.ends().await;
}

#[tokio::test]
async fn a_dial_under_way_is_dropped_when_the_leader_moves() {
    let stand = Stand::start().await;
    let (a, b) = (
        Server::start("a", Manner::Mute).await,
        Server::start("b", Manner::Serves).await,
    );
    stand.script.leads(a.addr);
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || a.open() == 1).await);

    stand.script.leads(b.addr);

    client.until_ready().await;
    assert_eq!(client.asks().await, "b");
    assert!(eventually(SOON, || a.open() == 0).await);
}

#[tokio::test]
async fn a_client_that_was_told_no_is_told_no_by_the_next_leader_as_well() {
    let stand = Stand::start().await;
    let (a, b) = (
        Server::start("a", Manner::Serves).await,
        Server::start("b", Manner::Serves).await,
    );
    stand.script.leads(a.addr);
    let mut client = stand.client().await;
    client.send(SSL).await;
    assert_eq!(client.byte().await, Some(b'N'));

    stand.script.leads(b.addr);
    assert!(eventually(SOON, || a.open() == 0).await);
    client.send(STARTUP).await;

    client.until_ready().await;
    assert_eq!(client.asks().await, "b");
}

#[tokio::test]
async fn a_leader_that_answers_otherwise_than_the_client_was_told_is_an_error_in_words() {
    let stand = Stand::start().await;
    let (a, b) = (
        Server::start("a", Manner::Serves).await,
        Server::start("b", Manner::OffersTls).await,
    );
    stand.script.leads(a.addr);
    let mut client = stand.client().await;
    client.send(SSL).await;
    assert_eq!(client.byte().await, Some(b'N'));

    stand.script.leads(b.addr);
    assert!(eventually(SOON, || b.dials() == 1).await);
    client.send(STARTUP).await;

    let (code, words) = client.refusal().await;
    assert_eq!(code, "57P03");
    assert!(words.contains("answers SSLRequest otherwise"), "{words}");
}

#[tokio::test]
async fn a_lease_that_ends_starts_no_session_and_closes_none() {
    let stand = Stand::holding(SHORT).await;
    let a = Server::start("a", Manner::Serves).await;
    stand.script.leads(a.addr);
    let mut open = stand.session().await;
    stand.script.amend(|lease| lease.until = Some(lease.proved));

    let mut late = stand.client().await;
    late.send(STARTUP).await;
    assert_eq!(late.refusal().await.0, "57P03");
    assert_eq!(open.asks().await, "a");
    assert_eq!(a.dials(), 1);
}

#[tokio::test]
async fn a_standby_that_was_proved_to_lead_is_refused_in_words_and_doubted() {
    let stand = Stand::start().await;
    let a = Server::start("a", Manner::Standby).await;
    stand.script.leads(a.addr);
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    assert_eq!(client.message().await.unwrap().0, b'R');
    assert_eq!(client.message().await.unwrap().0, b'S');
    let (code, words) = client.refusal().await;
    assert_eq!(code, "57P03");
    assert!(words.contains("is in recovery"), "{words}");
    let wishes = stand.script.demand.take_wishes();
    assert!(matches!(wishes[..], [Wish::DialFailed(addr, _)] if addr == a.addr));
    assert!(eventually(SOON, || a.open() == 0).await);
}

#[tokio::test]
async fn two_hundred_clients_and_five_hundred_flips_leave_nobody_behind() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let routing = RoutingSettings {
        write_timeout: Duration::from_secs(20),
        ..RoutingSettings::default()
    };
    let stand = Stand::with(routing, SessionSettings::default()).await;
    let servers = [
        Server::start("a", Manner::Serves).await,
        Server::start("b", Manner::Serves).await,
        Server::start("c", Manner::Serves).await,
    ];
    let address = stand.address;
    let clients: Vec<_> = (0..200)
        .map(|_| {
            tokio::spawn(async move {
                loop {
                    let Ok(stream) = tokio::net::TcpStream::connect(address).await else {
                        return;
                    };
                    let mut client = Client { stream };
                    client.send(STARTUP).await;
                    // Until the leader moves, or words come instead of a greeting.
                    while client.message().await.is_some() {}
                }
            })
        })
        .collect();

    for flip in 0..500 {
        let leader = random.usize(..3);
        if random.u8(..4) == 0 {
            stand.script.follows();
        }
        stand.script.leads(servers[leader].addr);
        tokio::time::sleep(Duration::from_millis(random.u64(..8))).await;
        if flip % 50 == 49 {
            let left = || {
                let others = servers.iter().enumerate().filter(|(n, _)| *n != leader);
                others.map(|(_, server)| server.open()).sum::<usize>()
            };
            assert!(
                eventually(SOON, || left() == 0).await,
                "seed {seed}, flip {flip}: {}",
                left()
            );
        }
    }
    for client in clients {
        client.abort();
    }
}

#[tokio::test]
async fn nothing_of_a_standby_passes_however_its_answer_is_cut() {
    let stand = Stand::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    stand.script.leads(listener.local_addr().unwrap());
    let accepted = message(b'R', &[0; 4]);
    let standby = message(b'S', b"in_hot_standby\0on\0");
    let rest = [message(b'K', &[0; 8]), message(b'Z', b"I")].concat();
    let answer = [accepted.clone(), standby.clone(), rest].concat();
    let told = accepted.len() + standby.len();
    let two = (1..answer.len()).map(|at| vec![at]);
    // The last: the relay itself reads the standby's word, and nothing behind it.
    for cuts in two.chain([vec![accepted.len() + 1, told]]) {
        stand.script.proves();
        let mut client = stand.client().await;
        client.send(STARTUP).await;
        let (mut server, _) = listener.accept().await.unwrap();
        let mut at = 0;
        for end in cuts.iter().copied().chain([answer.len()]) {
            // It may have been closed already.
            let _ = server.write_all(&answer[at..end]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            at = end;
        }
        assert_eq!(client.message().await.unwrap().0, b'R', "{cuts:?}");
        assert_eq!(client.message().await.unwrap().0, b'S', "{cuts:?}");
        assert_eq!(client.refusal().await.0, "57P03", "{cuts:?}");
    }
}
