//! Any number of sessions, moved at random between two workers while both sides talk: no byte is lost or doubled.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::pair::{Carrier, Fate, Pair, by_hand_at};

const BYTES: usize = 3_000_000;
const SESSIONS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_neither_lost_nor_doubled_however_sessions_move() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let pair = Pair::start().await;
    let leader = TcpListener::bind("127.0.0.1:0").await.unwrap();
    pair.leads(leader.local_addr().unwrap());
    let mut talk = JoinSet::new();
    for session in 0..SESSIONS {
        let (client, server) = by_hand_at(&pair, &leader).await;
        let (cr, cw) = client.stream.into_split();
        let (sr, sw) = server.into_split();
        let (up, down) = (seed ^ (2 * session), seed ^ (2 * session + 1));
        talk.spawn(random_writes(cw, up));
        talk.spawn(random_reads(sr, up));
        talk.spawn(random_writes(sw, down));
        talk.spawn(random_reads(cr, down));
    }

    let mut random = fastrand::Rng::with_seed(seed);
    let (mut moves, mut backs) = (0, 0);
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
        (moves, backs) = (moves + carrier.taken(), backs + carrier.back());
        drop(carrier);
        pair.old.script.proves();
        pair.new.script.proves();
        while let Some(done) = talk.try_join_next() {
            done.unwrap();
        }
    }
    println!("{moves} moves, {backs} given back");
    assert!(moves > 20 && backs > 2, "seed {seed}: {moves} {backs}");
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
