//! What two processes know of each other's sessions: cancels, and sums.

use tokio::sync::oneshot;

use super::pair::*;
use super::stand::*;
use crate::net::Address;
use crate::session::stream::Peer;
use crate::session::{Cancel, Census, Command, Errand};

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
