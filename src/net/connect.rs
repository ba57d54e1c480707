//! Connecting to a host with several addresses, without waiting for a dead one.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long one address may be silent before the next is tried beside it.
///
/// Source: RFC 8305 (happy eyeballs), section 8, "Connection Attempt Delay".
const HEAD_START: Duration = Duration::from_millis(250);

/// The first connection that succeeds, trying the addresses in their order, each with a head start. Brings no
/// time limit of its own.
///
/// # Errors
/// The last address's error, when all have failed.
pub(crate) async fn connect_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect(only).await;
    }
    let mut attempts = JoinSet::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address is known");
    let mut rest = addresses.iter().copied();
    loop {
        if let Some(addr) = rest.next() {
            attempts.spawn(TcpStream::connect(addr));
        }
        let waiting = rest.len() > 0;
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => last = error,
                Some(Err(panic)) => last = io::Error::other(panic),
                None => return Err(last),
            },
            () = tokio::time::sleep(HEAD_START), if waiting => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refusing_address_costs_no_time_and_the_error_of_the_last_is_told() {
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = {
            let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            gone.local_addr().unwrap()
        };

        let stream = connect_any(&[closed, open.local_addr().unwrap()])
            .await
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open.local_addr().unwrap());

        let error = connect_any(&[closed, closed]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(
            connect_any(&[]).await.unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[tokio::test]
    async fn a_dead_address_gives_way_after_its_head_start() {
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let full = full_backlog().await;

        let started = std::time::Instant::now();
        let stream = connect_any(&[full.address, open.local_addr().unwrap()])
            .await
            .unwrap();

        assert_eq!(stream.peer_addr().unwrap(), open.local_addr().unwrap());
        assert!(started.elapsed() >= HEAD_START);
    }

    /// An address that neither answers nor refuses.
    struct Full {
        address: SocketAddr,
        _listener: socket2::Socket,
        _queue: Vec<tokio::task::JoinHandle<io::Result<TcpStream>>>,
    }

    async fn full_backlog() -> Full {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket
            .bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into())
            .unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let queue = (0..4)
            .map(|_| tokio::spawn(TcpStream::connect(address)))
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        Full {
            address,
            _listener: socket,
            _queue: queue,
        }
    }
}
