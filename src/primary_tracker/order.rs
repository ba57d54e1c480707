//! What an operator may tell the tracker, and whether it was done.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

/// One thing an operator wants done. Nodes are named by their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The node may get sessions, whatever the configuration says.
    Enable { node: Arc<str> },
    /// No new sessions; with `close` the open ones end.
    Disable { node: Arc<str>, close: bool },
    /// Forgets which cluster this is: scope, system identifier, highest timeline.
    Unpin,
    /// Plays a silent node, or stops doing so.
    Chaos(Fault),
    /// Names the leader and confirms it, or names nobody: only where no provider does.
    SetPrimary { node: Option<Arc<str>> },
    /// Names a leader that is still to be confirmed.
    ProposePrimary { node: Arc<str> },
    /// The named leader is ready.
    ConfirmPrimary,
}

/// A fault that is played, to see what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All that the node says is taken for silence.
    ForceUnhealthy {
        node: Arc<str>,
    },
    Restore {
        node: Arc<str>,
    },
    /// Restores every node.
    Reset,
}

/// Why an order was not followed. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// None is called so.
    #[error("there is no node {0}")]
    UnknownNode(Arc<str>),

    /// Whatever it says would be overruled at once.
    #[error(
        "the provider of the topology names the leader itself: only provider \"manual\" is told"
    )]
    NotByThisProvider,

    /// Nobody can be sent to a host whose name was not found yet.
    #[error("the host of node {0} has no known address yet")]
    NoAddress(Arc<str>),

    /// Nobody is pending.
    #[error("no primary was named that could be confirmed")]
    NobodyToConfirm,

    /// The house is ending.
    #[error("nobody takes orders any more")]
    Ending,
}

/// An order, and whom to tell once the picture shows it.
pub(crate) type Told = (Order, oneshot::Sender<Result<(), Refused>>);

/// The operator's voice: the only way in which the rooms above the tracker tell it anything.
#[derive(Clone, Debug)]
pub(crate) struct Operator(mpsc::Sender<Told>);

/// Orders are few and each is waited for.
const ORDERS: usize = 16;

impl Operator {
    /// The voice, and what the tracker listens to.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Told>) {
        let (voice, ear) = mpsc::channel(ORDERS);
        (Self(voice), ear)
    }

    /// Ends when the picture shows what was ordered, or that it was refused.
    ///
    /// # Errors
    /// See [`Refused`]: then nothing has changed.
    pub(crate) async fn tell(&self, order: Order) -> Result<(), Refused> {
        let (done, heard) = oneshot::channel();
        self.0
            .send((order, done))
            .await
            .map_err(|_closed| Refused::Ending)?;
        heard.await.unwrap_or(Err(Refused::Ending))
    }
}
