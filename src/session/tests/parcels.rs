//! Sessions that move from one worker to another, as between two processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::stand::*;
use crate::metrics::{RevokeReason, SessionLabel};
use crate::net::Address;
use crate::session::stream::Peer;
use crate::session::{Adoption, Cancel, Census, Command, Errand, Packed, Parcel, Verdict};

const SOON: Duration = Duration::from_secs(3);
/// For a server's first session.
const CANCEL: &[u8] = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\0\x01\x02\x03\x04";

/// Two workers that know the same leader.
struct Pair {
    old: Stand,
    new: Stand,
}

impl Pair {
    async fn start() -> Self {
        let (old, new) = tokio::join!(Stand::start(), Stand::start());
        Self { old, new }
    }

    fn leads(&self, server: std::net::SocketAddr) {
        self.old.script.leads(server);
        self.new.script.leads(server);
    }

    fn connections(&self) -> (usize, usize) {
        let count = |stand: &Stand| stand.shared.connections();
        (count(&self.old), count(&self.new))
    }

    fn open(&self) -> (usize, usize) {
        (self.old.open(), self.new.open())
    }

    /// The new one asks the old one for what it does not know, as long as this lives.
    fn knows_its_elder(&self) -> tokio_util::task::AbortOnDropHandle<()> {
        let (errands, mut asked) = mpsc::channel(8);
        self.new.shared.set_elder(Some(errands));
        let old = self.old.commands.clone();
        tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(Errand { cancel, done }) = asked.recv().await {
                let json = serde_json::to_string(&cancel).unwrap();
                let cancel = serde_json::from_str(&json).unwrap();
                let errand = Errand { cancel, done };
                old.send(Command::Run(errand)).await.unwrap();
            }
        }))
    }

    async fn moved(&self) -> bool {
        eventually(SOON, || self.connections() == (0, 1)).await
    }
}

/// Carries parcels as the two processes do: through frames, and the answer is out before the new one begins.
struct Carrier {
    taken: Arc<AtomicUsize>,
    back: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Carrier {
    async fn between(from: &Stand, to: &Stand) -> Self {
        let (packs, mut packed) = mpsc::channel(8);
        from.commands.send(Command::Pack(packs)).await.unwrap();
        let (taken, back): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let counts = (Arc::clone(&taken), Arc::clone(&back));
        let to = to.commands.clone();
        let task = tokio::spawn(async move {
            while let Some(Packed { parcel, verdict }) = packed.recv().await {
                match adopt(&to, parcel).await {
                    Ok(start) => {
                        counts.0.fetch_add(1, Ordering::SeqCst);
                        verdict.send(Verdict::Taken).unwrap();
                        start.go();
                    }
                    Err(error) => {
                        counts.1.fetch_add(1, Ordering::SeqCst);
                        let words = error.to_string();
                        verdict.send(Verdict::GivenBack(words)).unwrap();
                    }
                }
            }
        });
        Self { taken, back, task }
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    fn back(&self) -> usize {
        self.back.load(Ordering::SeqCst)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn adopt(
    to: &mpsc::Sender<Command>,
    parcel: Parcel,
) -> Result<crate::session::adopt::Start, crate::session::adopt::NotTaken> {
    let (frame, descriptors) = parcel.into_frame().unwrap();
    let parcel = Parcel::from_frame(&frame, descriptors).unwrap();
    let (reply, answer) = oneshot::channel();
    let adoption = Adoption { parcel, reply };
    to.send(Command::Adopt(adoption)).await.unwrap();
    answer.await.unwrap()
}

/// Someone who takes parcels and lets them lie.
async fn packs(from: &Stand) -> mpsc::Receiver<Packed> {
    let (packs, packed) = mpsc::channel(8);
    from.commands.send(Command::Pack(packs)).await.unwrap();
    packed
}

/// A session whose server is the test.
async fn by_hand(pair: &Pair) -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    pair.leads(listener.local_addr().unwrap());
    let mut client = pair.old.client().await;
    client.send(STARTUP).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let mut startup = [0; STARTUP.len()];
    server.read_exact(&mut startup).await.unwrap();
    let mut greeting = message(b'R', &[0; 4]);
    greeting.extend(message(b'K', &[9, 9, 9, 9, 1, 2, 3, 4]));
    greeting.extend(message(b'Z', b"I"));
    server.write_all(&greeting).await.unwrap();
    client.until_ready().await;
    (client, server)
}

fn sessions(stand: &Stand) -> i64 {
    let label = SessionLabel {
        node: "node1".into(),
        route: "primary",
    };
    stand.script.metrics.sessions.get_or_create(&label).get()
}

#[tokio::test]
async fn an_idle_session_goes_on_in_the_other_process_and_is_counted_there() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut client = pair.old.session().await;
    assert_eq!((sessions(&pair.old), sessions(&pair.new)), (1, 0));

    let carrier = Carrier::between(&pair.old, &pair.new).await;

    assert!(pair.moved().await);
    assert_eq!(pair.open(), (0, 1));
    assert_eq!((sessions(&pair.old), sessions(&pair.new)), (0, 1));
    assert_eq!(client.asks().await, "a");
    assert_eq!((carrier.taken(), carrier.back()), (1, 0));
    assert_eq!(server.dials(), 1);
    client.send(&message(b'X', b"")).await;
    client.ends().await;
    assert!(eventually(SOON, || pair.connections() == (0, 0) && server.open() == 0).await);
    assert_eq!(sessions(&pair.new), 0);
}

#[tokio::test]
async fn a_session_that_begins_while_others_move_moves_after_them() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _carrier = Carrier::between(&pair.old, &pair.new).await;

    let mut client = pair.old.session().await;

    assert_eq!(client.asks().await, "a");
    assert!(pair.moved().await);
    assert_eq!(client.asks().await, "a");
}

#[tokio::test]
async fn a_quiet_worker_that_has_handed_out_everybody_ends() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(pair.old.session().await);
    }

    let carrier = Carrier::between(&pair.old, &pair.new).await;
    pair.old.commands.send(Command::Quiet).await.unwrap();

    assert!(pair.old.ended(SOON).await);
    assert_eq!(carrier.taken(), 100);
    assert_eq!(pair.connections(), (0, 100));
    for client in &mut clients {
        assert_eq!(client.asks().await, "a");
    }
    assert_eq!(server.dials(), 100);
}

#[tokio::test]
async fn a_writer_is_given_back_where_the_epoch_is_another_and_stays_served() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    pair.new.script.leads(server.addr);
    let mut client = pair.old.session().await;

    let carrier = Carrier::between(&pair.old, &pair.new).await;

    assert!(eventually(SOON, || carrier.back() == 1).await);
    assert_eq!(client.asks().await, "a");
    assert_eq!(pair.connections(), (1, 0));
    pair.old.script.follows();
    assert_eq!(
        client.refusal().await.0,
        "57P01",
        "the old one still revokes"
    );
}

#[tokio::test]
async fn who_was_given_back_is_tried_again_and_moves_once_its_node_is_proved() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.old.script.leads(server.addr);
    let mut client = pair.old.session().await;
    let carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || carrier.back() == 1).await);

    pair.new.script.leads(server.addr);

    assert!(pair.moved().await);
    assert_eq!(client.asks().await, "a");
}

#[tokio::test]
async fn nothing_is_read_by_either_until_the_verdict_is_out() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    let start = adopt(&pair.new.commands, parcel).await.unwrap();

    client.send(QUERY).await;
    let mut query = [0; QUERY.len()];
    let read = tokio::time::timeout(Duration::from_millis(200), server.read(&mut query));
    assert!(read.await.is_err(), "nobody has the right to read yet");

    verdict.send(Verdict::Taken).unwrap();
    start.go();
    server.read_exact(&mut query).await.unwrap();
    assert_eq!(query, QUERY);
}

#[tokio::test]
async fn a_taker_that_dies_before_its_answer_costs_nothing() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut client = pair.old.session().await;
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    let start = adopt(&pair.new.commands, parcel).await.unwrap();
    client.send(QUERY).await;

    drop((start, verdict, packed));

    assert_eq!(client.until_ready().await[0].1, b"a");
    assert!(eventually(SOON, || pair.connections() == (1, 0)).await);
    assert_eq!(pair.new.shared.cancels.len(), 0);
}

#[tokio::test]
async fn at_most_64_parcels_are_on_their_way() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut clients = Vec::new();
    for _ in 0..70 {
        clients.push(pair.old.session().await);
    }
    let mut packed = packs(&pair.old).await;
    let mut verdicts = Vec::new();
    for _ in 0..64 {
        verdicts.push(packed.recv().await.unwrap());
    }
    let more = tokio::time::timeout(Duration::from_millis(200), packed.recv());
    assert!(more.await.is_err());

    drop(verdicts.pop());
    assert!(packed.recv().await.is_some());
    drop((verdicts, packed));
    for client in &mut clients {
        assert_eq!(client.asks().await, "a");
    }
}

#[tokio::test]
async fn an_epoch_that_ends_while_a_session_is_on_its_way_ends_the_session_wherever_it_is() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    let start = adopt(&pair.new.commands, parcel).await.unwrap();

    pair.old.script.follows();

    let mut rest = Vec::new();
    server.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"", "the connection to the node is gone at once");
    verdict.send(Verdict::Taken).unwrap();
    start.go();
    assert_eq!(client.refusal().await.0, "08006");
    drop(client);
    assert!(eventually(SOON, || pair.connections() == (0, 0)).await);
}

#[tokio::test]
async fn a_session_that_is_revoked_on_its_way_and_comes_back_is_told_so() {
    let pair = Pair::start().await;
    let (mut client, _server) = by_hand(&pair).await;
    let mut packed = packs(&pair.old).await;
    let parcel = packed.recv().await.unwrap();

    pair.old.script.follows();
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(parcel);

    assert_eq!(client.refusal().await.0, "57P01");
}

#[tokio::test]
async fn an_adopted_session_is_ended_with_its_epoch() {
    let pair = Pair::start().await;
    let (mut client, _server) = by_hand(&pair).await;
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    pair.new.script.follows();

    assert_eq!(client.refusal().await.0, "57P01");
    let revoked = &pair.new.script.metrics.revoked;
    let label = crate::metrics::RevokeLabel {
        reason: RevokeReason::follows,
    };
    assert_eq!(revoked.get_or_create(&label).get(), 1);
}

#[tokio::test]
async fn a_cancel_reaches_the_node_of_a_session_that_has_moved() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _session = pair.old.session().await;
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);
    assert_eq!(pair.old.shared.cancels.len(), 0);

    let mut cancel = pair.new.client().await;
    cancel.send(CANCEL).await;
    cancel.ends().await;

    assert_eq!(*server.cancels.lock().unwrap(), [&CANCEL[8..]]);
}

#[tokio::test]
async fn a_cancel_for_a_session_that_stayed_behind_is_passed_back() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _session = pair.old.session().await;
    let _elder = pair.knows_its_elder();

    let mut good = pair.new.client().await;
    good.send(CANCEL).await;
    good.ends().await;
    assert_eq!(*server.cancels.lock().unwrap(), [&CANCEL[8..]]);

    let mut unknown = pair.new.client().await;
    unknown.send(&[&CANCEL[..15], &[7]].concat()).await;
    unknown.ends().await;
    assert_eq!(server.cancels.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_from_inside_of_tls_is_no_known_one_and_reaches_the_sessions_that_stayed_behind() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::OffersTls).await;
    pair.leads(server.addr);
    let mut tls = pair.old.client().await;
    tls.send(SSL).await;
    assert_eq!(tls.byte().await, Some(b'S'));
    let cancel = Cancel {
        listener: Address::Tcp(pair.old.address),
        peer: Peer::Tcp("127.0.0.1:9".parse().unwrap()),
        packet: CANCEL.to_vec(),
    };

    let (done, is_known) = oneshot::channel();
    let errand = Command::Run(Errand { cancel, done });
    pair.old.commands.send(errand).await.unwrap();

    assert!(!is_known.await.unwrap(), "others may have neighbours, too");
    assert_eq!(*server.cancels.lock().unwrap(), [&CANCEL[8..]]);
}

#[tokio::test]
async fn a_cancel_that_comes_to_the_old_process_follows_its_session() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _session = pair.old.session().await;
    let _elder = pair.knows_its_elder();
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    let mut cancel = pair.old.client().await;
    cancel.send(CANCEL).await;
    cancel.ends().await;

    assert_eq!(*server.cancels.lock().unwrap(), [&CANCEL[8..]]);
}

#[tokio::test]
async fn sessions_that_stayed_behind_count_where_new_ones_come_until_they_are_there_themselves() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _two = (pair.old.session().await, pair.old.session().await);

    pair.new.shared.elsewhere(count(&pair.old).await);
    assert_eq!(pair.new.shared.connections(), 2);
    assert_eq!(sessions(&pair.new), 2);
    // Those before the one before count as well.
    assert_eq!(count(&pair.new).await, count(&pair.old).await);

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || pair.connections() == (0, 2)).await);
    assert_eq!(sessions(&pair.new), 2, "nobody is counted twice");

    pair.new.shared.elsewhere(count(&pair.old).await);
    assert_eq!((pair.connections(), sessions(&pair.new)), ((0, 2), 2));
}

#[tokio::test]
async fn a_session_on_its_way_is_refused_nobodys_place() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _session = pair.old.session().await;
    let mut packed = packs(&pair.old).await;
    let parcel = packed.recv().await.unwrap();

    pair.new.shared.elsewhere(count(&pair.old).await);
    assert_eq!(pair.new.shared.connections(), 0);

    drop((parcel, packed));
    while count(&pair.old).await == Census::default() {}
    pair.new.shared.elsewhere(count(&pair.old).await);
    assert_eq!(pair.new.shared.connections(), 1);
}

async fn count(stand: &Stand) -> Census {
    let (asked, census) = oneshot::channel();
    stand.commands.send(Command::Count(asked)).await.unwrap();
    let json = serde_json::to_string(&census.await.unwrap()).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[tokio::test]
async fn a_half_closed_session_moves_and_the_rest_still_comes() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    client.send(QUERY).await;
    client.stream.shutdown().await.unwrap();
    let mut query = Vec::new();
    server.read_to_end(&mut query).await.unwrap();
    assert_eq!(query, QUERY);

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);
    server.write_all(&message(b'C', b"late")).await.unwrap();
    drop(server);

    assert_eq!(client.message().await, Some((b'C', b"late".to_vec())));
    client.ends().await;
    assert!(eventually(SOON, || pair.connections() == (0, 0)).await);
}

#[tokio::test]
async fn a_session_in_the_middle_of_a_message_is_busy_and_idle_after_its_end_in_the_other_process()
{
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    client.send(&QUERY[..3]).await;
    let mut part = [0; 3];
    server.read_exact(&mut part).await.unwrap();
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    pair.new.commands.send(Command::Drain).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(pair.connections(), (0, 1), "busy");
    client.send(&QUERY[3..]).await;
    let mut answer = message(b'C', b"x");
    answer.extend(message(b'Z', b"I"));
    server.write_all(&answer).await.unwrap();
    client.until_ready().await;

    assert_eq!(client.refusal().await.0, "57P01");
}

#[tokio::test]
async fn an_unreadable_session_moves_too_and_its_cancels_find_it() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::OffersTls).await;
    pair.leads(server.addr);
    let mut tls = pair.old.client().await;
    tls.send(SSL).await;
    assert_eq!(tls.byte().await, Some(b'S'));
    tls.send(b"h").await;
    assert_eq!(tls.byte().await, Some(b'h'));
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    tls.send(b"i").await;
    assert_eq!(tls.byte().await, Some(b'i'));
}

#[tokio::test]
async fn a_held_client_waits_on_in_the_other_process_and_is_served_there() {
    let pair = Pair::start().await;
    let mut client = pair.old.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || pair.old.held() == 1).await);

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || pair.new.held() == 1 && pair.old.held() == 0).await);
    assert_eq!(pair.connections(), (0, 1));
    let server = Server::start("a", Manner::Serves).await;
    pair.new.script.leads(server.addr);

    client.until_ready().await;
    assert_eq!(client.asks().await, "a");
    let held = |stand: &Stand| stand.script.metrics.held_clients.get();
    assert_eq!((held(&pair.old), held(&pair.new)), (0, 0));
}

#[tokio::test]
async fn held_clients_move_in_the_order_of_their_arrival() {
    let pair = Pair::start().await;
    let mut clients = Vec::new();
    for place in 1..=20 {
        let mut client = pair.old.client().await;
        client.send(STARTUP).await;
        assert!(eventually(SOON, || pair.old.held() == place).await);
        clients.push(client.stream.local_addr().unwrap().port());
        std::mem::forget(client);
    }

    let mut packed = packs(&pair.old).await;

    for port in clients {
        let packed = packed.recv().await.unwrap();
        let words = packed.parcel.to_string();
        assert!(words.contains(&format!(":{port},")), "{words}: {port}");
        packed.verdict.send(Verdict::Taken).unwrap();
    }
}

#[tokio::test]
async fn a_client_whose_first_packet_is_not_whole_moves_with_what_it_has_said() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut client = pair.old.client().await;
    client.send(&STARTUP[..9]).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || carrier.taken() == 1).await);
    assert_eq!(pair.connections(), (0, 0), "it has not spoken");

    client.send(&STARTUP[9..]).await;

    client.until_ready().await;
    assert_eq!(pair.connections(), (0, 1));
}

#[tokio::test]
async fn what_a_client_was_told_is_asked_of_its_server_in_the_other_process() {
    let pair = Pair::start().await;
    let first = Server::start("a", Manner::Refuses("57P03")).await;
    pair.old.script.leads(first.addr);
    let mut client = pair.old.client().await;
    client.send(SSL).await;
    assert_eq!(client.byte().await, Some(b'N'));
    client.send(STARTUP).await;
    assert!(eventually(SOON, || pair.old.held() == 1).await);
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || pair.new.held() == 1).await);

    let tls = Server::start("b", Manner::OffersTls).await;
    pair.new.script.leads(tls.addr);

    let (code, words) = client.refusal().await;
    assert_eq!(code, "57P03");
    assert!(words.contains("SSLRequest otherwise"), "{words}");
}

#[tokio::test]
async fn a_client_that_comes_back_waits_on_where_it_was() {
    let pair = Pair::start().await;
    let mut client = pair.old.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || pair.old.held() == 1).await);
    let mut packed = packs(&pair.old).await;

    drop(packed.recv().await.unwrap());
    drop(packed);
    let server = Server::start("a", Manner::Serves).await;
    pair.old.script.leads(server.addr);

    client.until_ready().await;
    assert_eq!(client.asks().await, "a");
}

#[tokio::test]
async fn bytes_are_neither_lost_nor_doubled_however_often_a_session_moves() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let pair = Pair::start().await;
    let (client, server) = by_hand(&pair).await;
    let (cr, cw) = client.stream.into_split();
    let (sr, sw) = server.into_split();
    let mut talk = tokio::task::JoinSet::new();
    talk.spawn(random_writes(cw, seed, 4_000_000));
    talk.spawn(random_writes(sw, seed ^ 1, 4_000_000));
    talk.spawn(random_reads(sr, seed, 4_000_000));
    talk.spawn(random_reads(cr, seed ^ 1, 4_000_000));

    let mut moves = 0;
    while !talk.is_empty() {
        let (from, to) = match moves % 2 {
            0 => (&pair.old, &pair.new),
            _ => (&pair.new, &pair.old),
        };
        let carrier = Carrier::between(from, to).await;
        let taken = eventually(SOON, || {
            carrier.taken() == 1 || from.shared.connections() == 0
        });
        assert!(taken.await, "seed {seed}");
        moves += 1;
        pair.old.script.proves();
        pair.new.script.proves();
        while let Some(done) = talk.try_join_next() {
            done.unwrap();
        }
    }
    println!("{moves} moves");
    assert!(moves > 10, "seed {seed}: {moves}");
}

/// Random bytes in random pieces, with pauses.
async fn random_writes(mut to: impl AsyncWriteExt + Unpin, seed: u64, mut left: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pace = fastrand::Rng::with_seed(!seed);
    while left > 0 {
        let length = pace.usize(1..60_000).min(left);
        let chunk: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        to.write_all(&chunk).await.unwrap();
        left -= length;
        if pace.u8(..4) == 0 {
            tokio::time::sleep(Duration::from_micros(pace.u64(..4_000))).await;
        }
    }
    to.shutdown().await.unwrap();
}

/// The same bytes, at a pace of its own, and then the end.
async fn random_reads(mut from: impl AsyncReadExt + Unpin, seed: u64, mut left: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pace = fastrand::Rng::with_seed(seed.rotate_left(7));
    let mut chunk = vec![0; 70_000];
    while left > 0 {
        let length = pace.usize(1..chunk.len());
        let read = from.read(&mut chunk[..length]).await.unwrap();
        assert!(read > 0, "seed {seed}: {left} bytes are missing");
        for byte in &chunk[..read] {
            assert_eq!(*byte, random.u8(..), "seed {seed}: {left} to come");
        }
        left -= read;
        if pace.u8(..4) == 0 {
            tokio::time::sleep(Duration::from_micros(pace.u64(..4_000))).await;
        }
    }
    assert_eq!(from.read(&mut chunk).await.unwrap(), 0, "seed {seed}");
}
