//! A client's or a server's connection, whatever it runs over.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A peer that has said too much is looked at so often.
const LOOK: Duration = Duration::from_millis(500);

/// Where a client sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Peer {
    Tcp(SocketAddr),
    /// On this host, through a unix socket.
    Local,
}

impl Peer {
    /// Do both come from the same address?
    pub(super) fn is_neighbour(&self, other: &Self) -> bool {
        let ip = |peer: &Self| -> Option<IpAddr> {
            match peer {
                Self::Tcp(addr) => Some(addr.ip().to_canonical()),
                Self::Local => None,
            }
        };
        ip(self) == ip(other)
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Local => f.write_str("local"),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Still open, and no runtime's any more: nobody reads or writes it.
    pub(super) fn into_descriptor(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Tcp(s) => s.into_std()?.into(),
            Self::Unix(s) => s.into_std()?.into(),
        })
    }

    /// The reverse of [`Self::into_descriptor`], on this thread's runtime. `peer` tells the kind.
    pub(super) fn from_descriptor(descriptor: OwnedFd, peer: Peer) -> io::Result<Self> {
        Ok(match peer {
            Peer::Tcp(_) => Self::Tcp(TcpStream::from_std(descriptor.into())?),
            Peer::Local => Self::Unix(UnixStream::from_std(descriptor.into())?),
        })
    }

    /// Writes what fits at once, without waiting. The kernel is asked itself: of a connection that has just come, the
    /// runtime knows nothing yet.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        SockRef::from(self).send(bytes)
    }

    /// Appends what the peer has sent to `inbox`, at most until that holds `limit` bytes; then it only waits for the
    /// peer to leave. `Ok(0)` is the end of the stream. Cancel-safe.
    pub(super) async fn read_into(
        &mut self,
        inbox: &mut Vec<u8>,
        limit: usize,
    ) -> io::Result<usize> {
        let room = limit.saturating_sub(inbox.len());
        if room == 0 {
            return self.left().await.map(|()| 0);
        }
        std::future::poll_fn(|cx| {
            // On the stack of this call, so that whoever waits here owns no buffer.
            let mut chunk = [0; 4096];
            let room = room.min(chunk.len());
            let mut buf = ReadBuf::new(&mut chunk[..room]);
            ready!(Pin::new(&mut *self).poll_read(cx, &mut buf))?;
            inbox.extend_from_slice(buf.filled());
            Poll::Ready(Ok(buf.filled().len()))
        })
        .await
    }
}

impl Stream {
    /// Waits for the end of a stream whose bytes are not read, which alone wakes nobody.
    async fn left(&self) -> io::Result<()> {
        loop {
            let ready = match self {
                Self::Tcp(s) => s.ready(Interest::READABLE).await?,
                Self::Unix(s) => s.ready(Interest::READABLE).await?,
            };
            if ready.is_read_closed() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            Self::Unix(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Self::Unix(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the writing direction only.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            Self::Unix(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
