//! Who leads, for those outside of the house.

use std::time::Instant;

use tokio::sync::watch;
use uuid::Uuid;

use super::{Picture, WhyNobody};

/// The node that leads.
#[derive(Clone, Debug)]
pub struct PrimaryInfo {
    /// The version-5 UUID of the node's configured name.
    pub node_id: Uuid,
    /// PostgreSQL's address, `ip:port` or `[v6]:port`.
    pub address: String,
    /// When its leadership was observed here.
    pub became_primary_at: Instant,
    /// The node's own word was heard.
    pub is_confirmed: bool,
    /// Counts up with each observed change of leader.
    pub epoch: u64,
}

/// Watches who leads.
#[derive(Clone, Debug)]
pub struct PrimaryWatch {
    picture: watch::Receiver<Picture>,
    last: Option<PrimaryInfo>,
}

impl PrimaryWatch {
    pub(crate) fn new(picture: watch::Receiver<Picture>) -> Self {
        let mut new = Self {
            picture,
            last: None,
        };
        new.last = new.read();
        new
    }

    /// Who leads now: the node of the current epoch, also when it is silent for a moment.
    pub fn get_primary(&mut self) -> Option<PrimaryInfo> {
        self.last = self.read();
        self.last.clone()
    }

    /// Waits for the next change of epoch, or for the loss of the leader. `None` from `Result::ok` never means a
    /// change: an error says that the house has ended.
    ///
    /// # Errors
    /// The house has been stopped.
    pub async fn changed(&mut self) -> Result<Option<PrimaryInfo>, watch::error::RecvError> {
        let before = self.last.as_ref().map(|info| info.epoch);
        loop {
            let now = self.read();
            if now.as_ref().map(|info| info.epoch) != before {
                self.last = now;
                return Ok(self.last.clone());
            }
            self.picture.changed().await?;
        }
    }

    fn read(&mut self) -> Option<PrimaryInfo> {
        let picture = self.picture.borrow_and_update();
        let lease = picture.lease.as_ref()?;
        let since = self
            .last
            .as_ref()
            .filter(|last| last.epoch == lease.epoch)
            .map_or_else(Instant::now, |last| last.became_primary_at);
        Some(PrimaryInfo {
            node_id: lease.leader.node_id,
            address: lease.leader.addr.to_string(),
            became_primary_at: since,
            is_confirmed: picture.why != Some(WhyNobody::Unconfirmed),
            epoch: lease.epoch,
        })
    }
}
