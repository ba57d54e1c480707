//! Who is at a scripted PostgreSQL server, and who was.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Notify;

use super::{locked, wire};

const KEPT: usize = 65_536;

/// One accepted connection, kept after its end.
#[derive(Clone, Debug)]
pub struct Visit {
    pub at: Instant,
    pub from: SocketAddr,
    /// The first bytes that came, up to 64 KiB.
    pub received: Vec<u8>,
    /// The startup message's parameters, once read.
    pub parameters: HashMap<String, String>,
    /// When ReadyForQuery was first sent.
    pub ready: Option<Instant>,
    pub ended: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) visits: Vec<Visit>,
    /// Connections without their first ReadyForQuery: at this moment, and the most there ever were.
    unready: usize,
    pub(super) most_unready: usize,
    pub(super) queries: usize,
    /// Whole cancel packets, length word included.
    pub(super) cancels: Vec<Vec<u8>>,
    /// Who can be cancelled: process → key and bell.
    running: HashMap<u32, (Vec<u8>, Arc<Notify>)>,
}

/// One connection in the record, as long as it lives.
pub(super) struct Guest {
    record: Arc<Mutex<Record>>,
    index: usize,
    pub(super) process: u32,
    ready: bool,
}

impl Guest {
    pub(super) fn enter(record: &Arc<Mutex<Record>>, from: SocketAddr) -> Self {
        let mut inner = locked(record);
        inner.visits.push(Visit {
            at: Instant::now(),
            from,
            received: Vec::new(),
            parameters: HashMap::new(),
            ready: None,
            ended: None,
        });
        inner.unready += 1;
        inner.most_unready = inner.most_unready.max(inner.unready);
        let index = inner.visits.len() - 1;
        drop(inner);
        Self {
            record: Arc::clone(record),
            index,
            process: 1000 + u32::try_from(index).expect("few connections"),
            ready: false,
        }
    }

    pub(super) fn heard(&self, bytes: &[u8]) {
        let mut record = locked(&self.record);
        let kept = &mut record.visits[self.index].received;
        let room = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(super) fn says(&self, startup: &[u8]) {
        let mut words = startup[4..]
            .split(|byte| *byte == 0)
            .map(String::from_utf8_lossy);
        let mut parameters = HashMap::new();
        while let (Some(key), Some(value)) = (words.next(), words.next()) {
            if !key.is_empty() {
                parameters.insert(key.into_owned(), value.into_owned());
            }
        }
        locked(&self.record).visits[self.index].parameters = parameters;
    }

    /// The bell that a cancel request with `key` rings.
    pub(super) fn is_ready(&mut self, key: Vec<u8>) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        let mut record = locked(&self.record);
        record.unready -= 1;
        record.visits[self.index].ready = Some(Instant::now());
        record
            .running
            .insert(self.process, (key, Arc::clone(&bell)));
        drop(record);
        self.ready = true;
        bell
    }

    pub(super) fn asks(&self) {
        locked(&self.record).queries += 1;
    }

    pub(super) fn others(&self) -> usize {
        locked(&self.record).running.len()
    }

    pub(super) fn cancels(&self, packet: &[u8]) {
        let mut record = locked(&self.record);
        record.cancels.push(wire::framed(packet));
        let process = packet
            .get(4..8)
            .map(|p| u32::from_be_bytes(p.try_into().expect("four bytes")));
        if let Some((key, bell)) = process.and_then(|p| record.running.get(&p))
            && key[..] == packet[8..]
        {
            bell.notify_one();
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut record = locked(&self.record);
        record.visits[self.index].ended = Some(Instant::now());
        record.running.remove(&self.process);
        if !self.ready {
            record.unready -= 1;
        }
    }
}
