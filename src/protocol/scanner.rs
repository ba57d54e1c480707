//! Watches messages pass without touching a byte: where they begin and end, and what the last one was.

use serde::{Deserialize, Serialize};

use super::message::{READY, Tag};

/// The position in a stream of messages: a plain value that survives any split of the bytes, and a hand-over to
/// another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scanner {
    header: [u8; 5],
    /// Bytes of `header` seen.
    seen: u8,
    /// Bytes of the body still to come.
    left: u32,
    /// The tag of the last message that ended, 0 before the first.
    last: Tag,
    /// ReadyForQuery's transaction status, while it is the last message.
    status: u8,
    /// A length that no message can have was met: nothing is known any more.
    lost: bool,
}

impl Scanner {
    /// Passes over `bytes`, calling `ended` with the tag of each message that ends in them. Bodies are skipped, not
    /// looked at.
    pub(crate) fn pass(&mut self, mut bytes: &[u8], mut ended: impl FnMut(Tag)) {
        while !bytes.is_empty() && !self.lost {
            if self.seen < 5 {
                bytes = self.read_header(bytes);
            } else {
                bytes = self.skip_body(bytes);
            }
            if self.seen == 5 && self.left == 0 && !self.lost {
                self.last = self.header[0];
                self.seen = 0;
                ended(self.last);
            }
        }
    }

    /// Is what comes next the first byte of a message?
    pub(crate) fn at_boundary(&self) -> bool {
        self.seen == 0 && !self.lost
    }

    fn read_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let at = usize::from(self.seen);
        let take = bytes.len().min(5 - at);
        self.header[at..at + take].copy_from_slice(&bytes[..take]);
        self.seen += take as u8;
        if self.seen == 5 {
            let [_, a, b, c, d] = self.header;
            match u32::from_be_bytes([a, b, c, d]).checked_sub(4) {
                Some(body) if body < 0x8000_0000 => self.left = body,
                _ => self.lost = true,
            }
            self.status = 0;
        }
        &bytes[take..]
    }

    fn skip_body<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.status == 0 && self.header[0] == READY {
            self.status = bytes[0];
        }
        let take = bytes.len().min(self.left as usize);
        self.left -= take as u32;
        &bytes[take..]
    }

    /// A server's: the last message was ReadyForQuery, outside of a transaction, and nothing came since.
    pub(crate) fn is_ready_idle(&self) -> bool {
        self.at_boundary() && self.last == READY && self.status == b'I'
    }

    /// A server's: the last message was an ErrorResponse. The server has said itself why it closes.
    pub(crate) fn has_said_why(&self) -> bool {
        self.last == b'E'
    }

    /// A client's: it has said goodbye.
    pub(crate) fn is_terminated(&self) -> bool {
        self.last == b'X'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn any_split_of_any_stream_is_followed_to_the_same_place() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..300 {
            let tags: Vec<u8> = (0..random.usize(1..30))
                .map(|_| *random.choice(b"RSKZTDCEAN").unwrap_or(&b'Z'))
                .collect();
            let mut stream = Vec::new();
            let mut ends = Vec::new();
            for tag in &tags {
                let size = if *tag == b'Z' { 1 } else { random.usize(..600) };
                stream.extend(message(*tag, &vec![b'I'; size]));
                ends.push(stream.len());
            }

            let mut scanner = Scanner::default();
            let (mut heard, mut at) = (Vec::new(), 0);
            while at < stream.len() {
                let end = (at + random.usize(1..40)).min(stream.len());
                scanner.pass(&stream[at..end], |tag| heard.push(tag));
                at = end;
                assert_eq!(scanner.at_boundary(), ends.contains(&at), "seed {seed}");
            }

            assert_eq!(heard, tags, "seed {seed}");
            assert_eq!(
                scanner.is_ready_idle(),
                tags.last() == Some(&b'Z'),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn ready_inside_of_a_transaction_is_not_idle() {
        let mut scanner = Scanner::default();
        for (status, idle) in [(b'I', true), (b'T', false), (b'E', false), (b'I', true)] {
            for byte in message(b'Z', &[status]) {
                scanner.pass(&[byte], |_| {});
            }
            assert_eq!(scanner.is_ready_idle(), idle);
        }
    }

    #[test]
    fn whatever_follows_ready_ends_the_idleness() {
        let mut scanner = Scanner::default();
        scanner.pass(&message(b'Z', b"I"), |_| {});
        scanner.pass(b"A", |_| {});
        assert!(!scanner.is_ready_idle());

        scanner.pass(&message(b'A', b"1234")[1..], |_| {});
        assert!(!scanner.is_ready_idle());
    }

    #[test]
    fn a_client_that_says_goodbye_is_heard() {
        let mut scanner = Scanner::default();
        scanner.pass(&message(b'Q', b"select 1\0"), |_| {});
        assert!(!scanner.is_terminated());

        scanner.pass(&message(b'X', b""), |_| {});
        assert!(scanner.is_terminated());
    }

    #[test]
    fn an_impossible_length_loses_the_place_for_good_and_panics_nowhere() {
        let mut scanner = Scanner::default();
        scanner.pass(b"D\0\0\0\x01more bytes", |_| {
            panic!("no message ended");
        });
        assert!(!scanner.at_boundary());
        assert!(!scanner.is_ready_idle());
    }

    #[test]
    fn noise_makes_it_panic_never() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let mut scanner = Scanner::default();
            for _ in 0..random.usize(1..6) {
                let noise: Vec<u8> = (0..random.usize(..64)).map(|_| random.u8(..) & 7).collect();
                scanner.pass(&noise, |_| {});
            }
        }
    }
}
