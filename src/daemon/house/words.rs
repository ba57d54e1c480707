//! Who leads, as one line for people.

use super::House;

impl House {
    /// The leader in words.
    pub(crate) fn status_line(&self) -> String {
        let picture = self.picture.borrow();
        match (picture.valid_lease(self.clock.now()), picture.why) {
            (Some(lease), _) => format!(
                "leader of {}: {} ({})",
                picture.cluster(),
                lease.leader.name,
                lease.leader.addr
            ),
            (None, Some(why)) => format!("no leader of {}: {}", picture.cluster(), why.in_words()),
            (None, None) => format!("no leader of {}", picture.cluster()),
        }
    }

    /// Ends when [`Self::status_line`] says something else than `told`, with what it says.
    pub(crate) async fn status_changed(&self, told: &str) -> String {
        let mut picture = self.picture.clone();
        loop {
            let line = self.status_line();
            if line != told {
                return line;
            }
            if picture.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
