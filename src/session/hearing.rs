//! What a relay hears of its server's bytes: the beginning by its ear, then only where messages end.

use super::cancel::CancelKey;
use super::ear::Ear;
use super::forward::{Pass, Scan};
use super::registry::Place;
use super::shared::Shared;

/// What is heard of the server's bytes.
pub(super) struct Hearing {
    /// Until the first ReadyForQuery.
    pub(super) ear: Option<Box<Ear>>,
    pub(super) key: Option<CancelKey>,
    /// The server is a standby, and nothing more of it may pass.
    pub(super) in_recovery: bool,
}

impl Hearing {
    pub(super) fn hear(
        &mut self,
        mut chunk: &[u8],
        scan: &mut Option<Scan>,
        place: &Place,
        shared: &Shared,
    ) -> Pass {
        let mut pass = Pass::All;
        if let Some(ear) = &mut self.ear {
            let heard = ear.hear(chunk, place, shared);
            if heard.key.is_some() {
                self.key = heard.key;
            }
            if heard.ready {
                self.ear = None;
            }
            if let Some(end) = heard.in_recovery {
                self.in_recovery = true;
                chunk = &chunk[..end];
                pass = Pass::Cut(end);
            }
        }
        shared.metrics.bytes_to_client.inc_by(chunk.len() as u64);
        if let Some(scan) = scan {
            scan.pass_down(chunk);
        }
        pass
    }
}
