//! A gigabyte each way, byte for byte, without a memory of it.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::server::Stage;

/// Bytes to carry; `HELIOS_COPY_MIB` makes it less.
fn size() -> u64 {
    let mib = std::env::var("HELIOS_COPY_MIB")
        .ok()
        .and_then(|mib| mib.parse().ok());
    mib.unwrap_or(1024_u64) << 20
}

/// A checksum over words of eight bytes, whatever the pieces it is fed in.
#[derive(Default)]
struct Sum {
    hash: u64,
    /// Bytes that make no word yet.
    rest: Vec<u8>,
    length: u64,
}

impl Sum {
    fn add(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        while !self.rest.is_empty() && self.rest.len() < 8 && !bytes.is_empty() {
            self.rest.push(bytes[0]);
            bytes = &bytes[1..];
        }
        if let Ok(word) = self.rest[..].try_into() {
            self.rest.clear();
            self.word(word);
        }
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.word(word.try_into().expect("eight bytes"));
        }
        self.rest.extend_from_slice(words.remainder());
    }

    fn word(&mut self, word: [u8; 8]) {
        let mixed = (self.hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
        self.hash = mixed.rotate_left(17);
    }

    fn end(&self) -> (u64, &[u8], u64) {
        (self.hash, &self.rest, self.length)
    }
}

/// About 128 KiB of rows, each with its number and a thousand letters from somewhere in `letters`.
fn rows(first: u64, letters: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(140_000);
    for i in first..first + 128 {
        let from = random.usize(..letters.len() - 1000);
        text.extend_from_slice(i.to_string().as_bytes());
        text.push(b'\t');
        text.extend_from_slice(&letters[from..from + 1000]);
        text.push(b'\n');
    }
    text
}

/// psql on the other end of a pipe: what it reads and writes is COPY's data alone.
fn copying(stage: &Stage, sql: &str) -> Command {
    let mut command = stage.psql(&[], sql);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_copied_in_and_out_is_the_same_and_costs_no_memory() {
    let Some(stage) = Stage::led("copy").await else {
        return;
    };
    tokio::task::spawn_blocking(move || {
        stage.straight("CREATE UNLOGGED TABLE t (i int8, word text)");
        let before = warm(&stage);
        let (sent, most_in, took_in) = copy_in(&stage);
        let (received, most_out, took_out) = copy_out(&stage);

        assert_eq!(received.end(), sent.end());
        let most = most_in.max(most_out);
        println!(
            "{} MiB in {took_in:?} in, {took_out:?} out; {before} KiB before, {most_in} in, {most_out} out",
            sent.length >> 20
        );
        assert!(most < before + 1024, "{most} KiB, {before} before");
    })
    .await
    .unwrap();
}

/// The proxy's memory once it has served a session.
fn warm(stage: &Stage) -> u64 {
    let mut command = copying(
        stage,
        "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 10000)) TO STDOUT",
    );
    let output = command.output().unwrap();
    assert_eq!(output.stdout.len(), 10_010_000);
    stage.proxy.memory()
}

fn copy_in(stage: &Stage) -> (Sum, u64, Duration) {
    let began = Instant::now();
    let mut psql = copying(stage, "COPY t FROM STDIN").spawn().unwrap();
    let mut pipe = psql.stdin.take().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let letters: Vec<u8> = (0..1 << 20).map(|_| random.u8(b'a'..=b'z')).collect();
    let (mut sum, mut most) = (Sum::default(), 0);
    for block in 0.. {
        if sum.length >= size() {
            break;
        }
        let part = rows(block * 128, &letters, &mut random);
        sum.add(&part);
        pipe.write_all(&part).unwrap();
        if block % 64 == 0 {
            most = most.max(stage.proxy.memory());
        }
    }
    drop(pipe);
    assert!(psql.wait().unwrap().success());
    (sum, most, began.elapsed())
}

/// The first tenth is read slowly, so that everything between has filled up.
fn copy_out(stage: &Stage) -> (Sum, u64, Duration) {
    let began = Instant::now();
    let mut psql = copying(stage, "COPY t TO STDOUT").spawn().unwrap();
    let mut pipe = psql.stdout.take().unwrap();
    let (mut sum, mut most) = (Sum::default(), 0);
    let mut buffer = vec![0; 1 << 20];
    for round in 0_u64.. {
        let count = pipe.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        sum.add(&buffer[..count]);
        if round % 256 == 0 {
            most = most.max(stage.proxy.memory());
            if sum.length < size() / 10 {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
    assert!(psql.wait().unwrap().success());
    (sum, most, began.elapsed())
}
