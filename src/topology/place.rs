//! Where a node is asked: which of its addresses, and for how long.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::NoAnswer;
use crate::net::{Asker, connect_any};

/// Where one question goes, whatever is asked there. One node is one machine: the answer's address is told with it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The host as it is written: what its certificate must name.
    pub(crate) name: Arc<str>,
    pub(crate) host: Asker,
    pub(crate) port: u16,
    /// Asked first: the address that answered last, so that a name with several does not flap between them.
    pub(crate) prefer: Option<SocketAddr>,
    /// Asks no other than `prefer`, as long as the name still has it: a leader's proof is that address's, and
    /// another one of the same machine would be another leader.
    pub(crate) only: bool,
    /// For the total: name, connection, every byte.
    pub(crate) limit: Duration,
}

impl Place {
    /// The addresses to try, in their order; waits until any are known.
    pub(crate) async fn addresses(&mut self) -> Vec<SocketAddr> {
        let mut addresses = self.host.addresses().await.to_vec();
        addresses.sort_by_key(|addr| Some(*addr) != self.prefer);
        if self.only && addresses.first().copied() == self.prefer {
            addresses.truncate(1);
        }
        for addr in &mut addresses {
            addr.set_port(self.port);
        }
        addresses
    }

    /// A connection, and the address it goes to. Brings no time limit of its own.
    pub(crate) async fn connect(&mut self) -> Result<(TcpStream, SocketAddr), NoAnswer> {
        let addresses = self.addresses().await;
        let failed = |source| NoAnswer::Connect { source };
        let stream = connect_any(&addresses).await.map_err(failed)?;
        let peer = stream.peer_addr().map_err(failed)?;
        Ok((stream, peer))
    }
}
