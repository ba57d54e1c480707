//! The smallest HTTP client that Patroni's REST API, etcd's gateway and the proxy's admin API need.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{
    ClientConnection, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::Value;

use super::https::{Caller, LOGIN};

/// What was answered; the body is read to the end.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    /// The body as JSON, `null` when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// One connection, one question, within `limit` altogether. HTTP/1.0, so that nobody answers in chunks.
pub fn ask(
    at: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
    limit: Duration,
) -> io::Result<Answer> {
    ask_over(None, at, method, path, body, limit)
}

/// The same, in TLS and with a login where there is a caller.
pub fn ask_over(
    caller: Option<&Caller>,
    at: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
    limit: Duration,
) -> io::Result<Answer> {
    let end = Instant::now() + limit;
    let stream = TcpStream::connect_timeout(&at, limit)?;
    stream.set_nodelay(true)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let login = caller.map(|_| format!("Authorization: Basic {}\r\n", base64(LOGIN)));
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {at}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        login.unwrap_or_default(),
        body.len()
    );
    stream.set_write_timeout(Some(limit))?;
    stream.set_read_timeout(Some(limit))?;
    let socket = stream.try_clone()?;
    match caller {
        None => talk(stream, &socket, &request, end),
        Some(caller) => {
            let mut stream = secured(caller, stream, at)?;
            let answer = talk(&mut stream, &socket, &request, end);
            // Patroni waits for it.
            stream.conn.send_close_notify();
            let _ = stream.flush();
            answer
        }
    }
}

fn talk(
    mut stream: impl Read + Write,
    socket: &TcpStream,
    request: &str,
    end: Instant,
) -> io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    parse(&read_to_end(&mut stream, socket, end)?)
}

fn secured(
    caller: &Caller,
    stream: TcpStream,
    at: SocketAddr,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::IpAddress(at.ip().into());
    let connection = ClientConnection::new(Arc::clone(caller), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// What a server shows in a handshake.
pub fn certificate_of(caller: &Caller, at: SocketAddr) -> io::Result<CertificateDer<'static>> {
    let limit = Duration::from_secs(3);
    let stream = TcpStream::connect_timeout(&at, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut stream = secured(caller, stream, at)?;
    stream.write_all(b"OPTIONS / HTTP/1.0\r\n\r\n")?;
    let _ = stream.read_to_end(&mut Vec::new());
    let shown = stream.conn.peer_certificates().and_then(<[_]>::first);
    shown
        .map(|shown| shown.clone().into_owned())
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// `GET`, for the many places that need no more.
pub fn get(at: SocketAddr, path: &str, limit: Duration) -> io::Result<Answer> {
    ask(at, "GET", path, None, limit)
}

fn read_to_end(stream: &mut impl Read, socket: &TcpStream, end: Instant) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match stream.read(&mut some)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&some[..n]),
        }
    }
}

fn parse(raw: &[u8]) -> io::Result<Answer> {
    let text = String::from_utf8_lossy(raw);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer {
        status,
        body: body.to_owned(),
    })
}

/// `text` as base64, which etcd's JSON gateway wants for keys.
pub fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk
            .iter()
            .chain(&[0; 2])
            .take(3)
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        for digit in 0..4 {
            let shown = digit <= chunk.len();
            let at = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if shown { char::from(DIGITS[at]) } else { '=' });
        }
    }
    out
}

/// The other way; what is not base64 is left out.
pub fn from_base64(text: &str) -> String {
    let mut out = Vec::new();
    let (mut bits, mut have) = (0u32, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(digit);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
