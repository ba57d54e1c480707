//! What is said at most once a second, summed: refusals, and a shortage of descriptors.

use std::cell::RefCell;
use std::io;

use crate::metrics::Refusal;
use crate::net::Address;

/// A worker's own; its tick empties it into the log.
#[derive(Debug, Default)]
pub(super) struct Tally {
    refused: RefCell<Vec<Sum>>,
    shortage: RefCell<Option<String>>,
}

#[derive(Debug)]
struct Sum {
    reason: Refusal,
    clients: u64,
    /// The last client's, as an example.
    words: String,
}

impl Tally {
    pub(super) fn refused(&self, reason: Refusal, words: &str) {
        let mut sums = self.refused.borrow_mut();
        match sums.iter_mut().find(|sum| sum.reason == reason) {
            Some(sum) => {
                sum.clients += 1;
                words.clone_into(&mut sum.words);
            }
            None => sums.push(Sum {
                reason,
                clients: 1,
                words: words.to_owned(),
            }),
        }
    }

    pub(super) fn accept_failed(&self, listener: &Address, error: &io::Error) {
        *self.shortage.borrow_mut() = Some(format!("{listener}: {error}"));
    }

    /// All descriptors that may be lent are.
    pub(super) fn accept_waits(&self, listener: &Address) {
        let words = format!("{listener}: no file descriptor is left (RLIMIT_NOFILE)");
        *self.shortage.borrow_mut() = Some(words);
    }

    /// Once a second.
    pub(super) fn flush(&self) {
        for sum in self.refused.take() {
            let reason = format!("{:?}", sum.reason);
            tracing::info!(clients = sum.clients, reason, "refused: {}", sum.words);
        }
        if let Some(shortage) = self.shortage.take() {
            tracing::warn!("no connection can be accepted for now: {shortage}");
        }
    }
}
