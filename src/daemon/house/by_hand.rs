//! Who leads, said by whoever embeds the house: provider `manual`.

use std::sync::Arc;

use super::House;
use crate::primary_tracker::{Order, Refused};

impl House {
    /// Names the leader, by its name or its id: pending, until [`Self::confirm_primary`]. Whoever led before loses its
    /// sessions; the node that leads already is named again without a change. Only with `topology.provider = "manual"`.
    ///
    /// # Errors
    /// See [`Refused`]: then nothing has changed.
    pub async fn set_primary(&self, node: &str) -> Result<(), Refused> {
        let name = {
            let picture = self.picture.borrow();
            let mut nodes = picture.nodes.iter();
            let found = nodes.find(|n| *n.name == *node || n.node_id.to_string() == node);
            found.map_or_else(|| node.into(), |found| Arc::clone(&found.name))
        };
        let order = Order::ProposePrimary { node: name };
        self.operator.tell(order).await
    }

    /// The leader that was named is ready: clients go there from now on. Only with `topology.provider = "manual"`.
    ///
    /// # Errors
    /// See [`Refused`]: then nothing has changed.
    pub async fn confirm_primary(&self) -> Result<(), Refused> {
        self.operator.tell(Order::ConfirmPrimary).await
    }

    /// Nobody leads: read-write sessions end, and clients wait. Only with `topology.provider = "manual"`.
    ///
    /// # Errors
    /// See [`Refused`]: then nothing has changed.
    pub async fn clear_primary(&self) -> Result<(), Refused> {
        let order = Order::SetPrimary { node: None };
        self.operator.tell(order).await
    }
}
