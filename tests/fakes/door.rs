//! A listening address that accepts, refuses or swallows connections, and can change its mind.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

/// What happens to a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Accept,
    /// Nobody listens: the kernel resets.
    Refuse,
    /// The queue is full: the kernel drops each SYN, as a dead machine would.
    Swallow,
}

/// One address and whoever stands behind it. Dropping it closes all.
#[derive(Debug)]
pub struct Door {
    pub addr: SocketAddr,
    orders: mpsc::UnboundedSender<(Order, oneshot::Sender<()>)>,
    task: AbortHandle,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Mode(Mode),
    /// Ends every connection that is open, without a word.
    Hangup,
}

impl Door {
    /// Listens at `addr` and gives each connection to `serve`.
    pub fn open<F, Fut>(addr: SocketAddr, serve: F) -> io::Result<Self>
    where
        F: Fn(TcpStream, SocketAddr) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = listen(addr)?;
        let addr = listener.local_addr()?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let task = tokio::spawn(keep(listener, addr, serve, inbox)).abort_handle();
        Ok(Self { addr, orders, task })
    }

    /// In effect when this returns. Open connections stay.
    pub async fn set(&self, mode: Mode) {
        self.order(Order::Mode(mode)).await;
    }

    /// Closes every open connection, as a killed process does.
    pub async fn hang_up(&self) {
        self.order(Order::Hangup).await;
    }

    async fn order(&self, order: Order) {
        let (done, is_done) = oneshot::channel();
        self.orders.send((order, done)).expect("the door's task");
        is_done.await.expect("the door's task");
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What holds the address in each mode.
enum Holder {
    Listener(TcpListener),
    Nobody,
    /// A listener that never accepts, and the connections that fill its queue.
    Full {
        _listener: TcpListener,
        _fillers: Vec<std::net::TcpStream>,
    },
}

async fn keep<F, Fut>(
    listener: TcpListener,
    addr: SocketAddr,
    serve: F,
    mut orders: mpsc::UnboundedReceiver<(Order, oneshot::Sender<()>)>,
) where
    F: Fn(TcpStream, SocketAddr) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut open = JoinSet::new();
    let mut holder = Holder::Listener(listener);
    loop {
        let accepted = async {
            match &holder {
                Holder::Listener(listener) => listener.accept().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            order = orders.recv() => {
                let Some((order, done)) = order else { return };
                match order {
                    Order::Hangup => open.shutdown().await,
                    Order::Mode(mode) => {
                        drop(std::mem::replace(&mut holder, Holder::Nobody));
                        holder = hold(mode, addr).unwrap_or_else(|e| panic!("{addr} as {mode:?}: {e}"));
                    }
                }
                let _ = done.send(());
            }
            Ok((stream, from)) = accepted => {
                let _ = stream.set_nodelay(true);
                open.spawn(serve(stream, from));
            }
            Some(_) = open.join_next() => {}
        }
    }
}

fn hold(mode: Mode, addr: SocketAddr) -> io::Result<Holder> {
    Ok(match mode {
        Mode::Accept => Holder::Listener(listen(addr)?),
        Mode::Refuse => Holder::Nobody,
        Mode::Swallow => {
            let listener = bound(addr)?.listen(0)?;
            let fillers = fill(addr)?;
            Holder::Full {
                _listener: listener,
                _fillers: fillers,
            }
        }
    })
}

/// Connections until one no longer gets through.
fn fill(addr: SocketAddr) -> io::Result<Vec<std::net::TcpStream>> {
    let mut fillers = Vec::new();
    for _ in 0..8 {
        match std::net::TcpStream::connect_timeout(&addr, std::time::Duration::from_millis(30)) {
            Ok(stream) => fillers.push(stream),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
                ) =>
            {
                return Ok(fillers);
            }
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other("the queue does not fill"))
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    bound(addr)?.listen(4096)
}

fn bound(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// A connection that answers with a reset instead of a close.
pub fn reset(stream: TcpStream) {
    let socket = socket2::SockRef::from(&stream);
    let _ = socket.set_linger(Some(std::time::Duration::ZERO));
    drop(stream);
}
