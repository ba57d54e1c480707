//! Any number of sessions, moved at random between two workers while both sides talk: no byte is lost or doubled.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::pair::{Carrier, Fate, Pair, greeted};
use super::stand::{Client, Stand, listener_settings};
use crate::net::{Address, BindOptions, Socket, bind};
use crate::session::Command;

const BYTES: usize = 3_000_000;
const SESSIONS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_neither_lost_nor_doubled_however_sessions_move() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let pair = Pair::start().await;
    let leader = TcpListener::bind("127.0.0.1:0").await.unwrap();
    pair.leads(leader.local_addr().unwrap());
    let narrow = narrow(&pair.old).await;
    let mut talk = JoinSet::new();
    for session in 0..SESSIONS {
        let stream = TcpStream::connect(narrow).await.unwrap();
        let (client, server) = greeted(Client { stream }, &leader).await;
        let (cr, cw) = client.stream.into_split();
        let (sr, sw) = server.into_split();
        let (up, down) = (seed ^ (2 * session), seed ^ (2 * session + 1));
        talk.spawn(random_writes(cw, up));
        talk.spawn(random_reads(sr, up));
        talk.spawn(random_writes(sw, down));
        talk.spawn(random_reads(cr, down));
    }

    let mut random = fastrand::Rng::with_seed(seed);
    let (mut moves, mut laden, mut backs) = (0, 0, 0);
    while !talk.is_empty() {
        let (from, to) = match random.bool() {
            true => (&pair.old, &pair.new),
            false => (&pair.new, &pair.old),
        };
        let mut fates = random.fork();
        let fate = move || match fates.u8(..8) {
            0 => Fate::Back,
            1 => Fate::Dies,
            _ => Fate::Goes,
        };
        let carrier = Carrier::with(from, to, fate).await;
        tokio::time::sleep(Duration::from_micros(random.u64(..8_000))).await;
        moves += carrier.taken();
        laden += carrier.laden();
        backs += carrier.back();
        drop(carrier);
        pair.old.script.proves();
        pair.new.script.proves();
        while let Some(done) = talk.try_join_next() {
            done.unwrap();
        }
    }
    println!("{moves} moves, {laden} with bytes on their way, {backs} given back");
    assert!(moves > 20 && laden > 2 && backs > 2, "seed {seed}");
}

/// Where the kernel keeps little of what a client has not read: the rest is on its way in the proxy.
async fn narrow(stand: &Stand) -> SocketAddr {
    let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let bound = bind(&any, &BindOptions::default()).unwrap();
    let Address::Tcp(at) = bound.address else {
        unreachable!("a TCP address was bound")
    };
    for socket in &bound.sockets {
        if let Socket::Tcp(socket) = socket {
            let socket = SockRef::from(socket);
            socket.set_send_buffer_size(16 * 1024).unwrap();
            socket.set_recv_buffer_size(16 * 1024).unwrap();
        }
    }
    let settings = listener_settings(at);
    let sockets = bound.sockets;
    let listen = Command::Listen { settings, sockets };
    stand.commands.send(listen).await.unwrap();
    at
}

/// Random bytes in random pieces, with pauses.
async fn random_writes(mut to: impl AsyncWrite + Unpin, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pace = fastrand::Rng::with_seed(!seed);
    let mut left = BYTES;
    while left > 0 {
        let length = pace.usize(1..60_000).min(left);
        let chunk: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        to.write_all(&chunk).await.unwrap();
        left -= length;
        pause(&mut pace).await;
    }
    to.shutdown().await.unwrap();
}

/// The same bytes, at a pace of its own, and then the end.
async fn random_reads(mut from: impl AsyncRead + Unpin, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pace = fastrand::Rng::with_seed(seed.rotate_left(7));
    let mut chunk = vec![0; 70_000];
    let mut left = BYTES;
    while left > 0 {
        let length = pace.usize(1..chunk.len());
        let read = from.read(&mut chunk[..length]).await.unwrap();
        assert!(read > 0, "seed {seed}: {left} bytes are missing");
        for byte in &chunk[..read] {
            assert_eq!(*byte, random.u8(..), "seed {seed}: {left} to come");
        }
        left -= read;
        pause(&mut pace).await;
    }
    assert_eq!(from.read(&mut chunk).await.unwrap(), 0, "seed {seed}");
}

async fn pause(pace: &mut fastrand::Rng) {
    if pace.u8(..4) == 0 {
        tokio::time::sleep(Duration::from_micros(pace.u64(..6_000))).await;
    }
}
