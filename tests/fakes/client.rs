//! A client that sends what it is told, byte by byte if need be, and reads what comes back.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire;

/// One tagged message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

/// Why there is no session or no answer.
#[derive(Debug)]
pub enum Refused {
    /// An ErrorResponse.
    Words {
        code: String,
        text: String,
        detail: Option<String>,
        hint: Option<String>,
    },
    /// The connection ended without one.
    Ended(io::Error),
}

impl Refused {
    /// The SQLSTATE, or `-` where nothing was said.
    pub fn code(&self) -> &str {
        match self {
            Self::Words { code, .. } => code,
            Self::Ended(_) => "-",
        }
    }
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Self {
        Self::Ended(e)
    }
}

#[derive(Debug)]
pub struct Client {
    pub stream: TcpStream,
    pub process: u32,
    pub key: Option<Vec<u8>>,
    pub parameters: HashMap<String, String>,
}

impl Client {
    /// Connects and says nothing yet.
    pub async fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            process: 0,
            key: None,
            parameters: HashMap::new(),
        })
    }

    /// A session in clear text, ready for its first query.
    pub async fn login(to: SocketAddr) -> Result<Self, Refused> {
        let mut client = Self::connect(to).await?;
        client.send(&wire::usual_startup()).await?;
        client.until_ready().await?;
        Ok(client)
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// One byte at a time.
    pub async fn drip(&mut self, bytes: &[u8], gap: Duration) -> io::Result<()> {
        for byte in bytes {
            self.stream.write_all(&[*byte]).await?;
            tokio::time::sleep(gap).await;
        }
        Ok(())
    }

    /// Sends an SSL or GSS request and reads the one byte that answers it.
    pub async fn ask(&mut self, request: &[u8; 8]) -> io::Result<u8> {
        self.send(request).await?;
        self.stream.read_u8().await
    }

    /// Reads up to the first ReadyForQuery, and keeps the key and the parameters on the way.
    pub async fn until_ready(&mut self) -> Result<(), Refused> {
        loop {
            let message = self.message().await?;
            match message.tag {
                b'Z' => return Ok(()),
                b'E' => return Err(words(&message.body)),
                b'K' => {
                    self.process =
                        u32::from_be_bytes(message.body[..4].try_into().expect("four bytes"));
                    self.key = Some(message.body[4..].to_vec());
                }
                b'S' => {
                    let mut parts = message
                        .body
                        .split(|byte| *byte == 0)
                        .map(String::from_utf8_lossy);
                    if let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                        self.parameters.insert(key.into_owned(), value.into_owned());
                    }
                }
                _ => {}
            }
        }
    }

    pub async fn message(&mut self) -> io::Result<Message> {
        let tag = self.stream.read_u8().await?;
        let length = self.stream.read_u32().await? as usize;
        if !(4..=1 << 30).contains(&length) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("tag {tag}, length {length}"),
            ));
        }
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).await?;
        Ok(Message { tag, body })
    }

    /// The value of the last row that the query returns; from a scripted server, the node's name.
    pub async fn query(&mut self, sql: &str) -> Result<String, Refused> {
        self.send(&wire::query(sql)).await?;
        self.result().await
    }

    /// Reads the answer to a query sent before.
    pub async fn result(&mut self) -> Result<String, Refused> {
        let mut value = String::new();
        let mut error = None;
        loop {
            let message = self.message().await?;
            match message.tag {
                b'D' => value = String::from_utf8_lossy(&message.body[6..]).into_owned(),
                b'E' => {
                    let words = words(&message.body);
                    if message.body.windows(6).any(|part| part == b"SFATAL") {
                        return Err(words);
                    }
                    error = Some(words);
                }
                b'Z' => return error.map_or(Ok(value), Err),
                _ => {}
            }
        }
    }

    /// Which node this session is on.
    pub async fn node(&mut self) -> Result<String, Refused> {
        self.query("where am I").await
    }

    /// What comes until the connection ends, an error response in words if there is one.
    pub async fn last_words(&mut self) -> Refused {
        loop {
            match self.message().await {
                Ok(message) if message.tag == b'E' => return words(&message.body),
                Ok(_) => {}
                Err(e) => return Refused::Ended(e),
            }
        }
    }

    /// Every byte until the other side closes or resets; true for a close in order.
    pub async fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let in_order = self.stream.read_to_end(&mut bytes).await.is_ok();
        (bytes, in_order)
    }

    pub async fn terminate(mut self) {
        let _ = self.send(&wire::terminate()).await;
        let _ = self.rest().await;
    }

    /// Vanishes as a killed process with unread data does: the kernel resets.
    pub fn vanish(self) {
        super::door::reset(self.stream);
    }
}

/// Sends a cancel request and waits until the other side has closed; the bytes it said before.
pub async fn cancel(to: SocketAddr, process: u32, key: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(&wire::cancel(process, key)).await?;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    Ok(said)
}

fn words(body: &[u8]) -> Refused {
    Refused::Words {
        code: wire::field(body, b'C').unwrap_or_default(),
        text: wire::field(body, b'M').unwrap_or_default(),
        detail: wire::field(body, b'D'),
        hint: wire::field(body, b'H'),
    }
}
