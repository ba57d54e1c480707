//! From the client's first packet to the server's first words: everything that can still be tried again elsewhere.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::client::{Client, Next};
use super::error::{DialError, End, Setback};
use crate::metrics;
use crate::protocol::{
    Code, Found, NO, READY, Refusal, Request, error_code, find, is_authentication_ok,
};
use crate::routing::{Router, Target, Ticket};

/// First words longer than this are no refusal.
const HEARD: usize = 16 * 1024;
/// Read at once of them.
const READ: usize = 4096;

/// One attempt to introduce a client to a server.
pub(super) struct Prologue<'a> {
    pub(super) router: &'a Router,
    pub(super) target: &'a Target,
    pub(super) client: &'a mut Client,
    pub(super) server: &'a mut TcpStream,
    /// Its deadline is for the server's answers: the client's own time does not count.
    pub(super) ticket: &'a mut Ticket,
    /// For the client's packets.
    pub(super) startup_timeout: Duration,
}

/// The server has taken the client.
pub(super) struct Introduced {
    /// The server's first words, not passed on yet.
    pub(super) heard: Vec<u8>,
    /// How much of the client's inbox the server has.
    pub(super) sent: usize,
    pub(super) road: Road,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Road {
    Clear,
    /// TLS or GSS encryption; `hello` when the server has answered it already.
    Opaque {
        hello: bool,
    },
}

/// What the server's first words mean.
enum Verdict {
    Wait,
    Pass,
    Full,
    Refused(String),
}

impl Prologue<'_> {
    pub(super) async fn run(&mut self) -> Result<Introduced, Setback> {
        self.repeat().await?;
        loop {
            let next = self.next().await?;
            // The client may have taken its time.
            if !self.router.still_valid(self.target) {
                return Err(Setback::Moved);
            }
            match next {
                Next::Request(request) => {
                    let answer = self.ask(request).await?;
                    self.client.answer(request, answer).await?;
                    if answer != NO {
                        return Ok(Introduced {
                            heard: Vec::new(),
                            sent: 0,
                            road: Road::Opaque { hello: false },
                        });
                    }
                }
                Next::Startup { length } => return self.start(length).await,
                Next::Hello => return self.hello().await,
                Next::Broken => return Err(End::broken().into()),
                Next::Cancel { length } => return Err(End::Cancel { length }.into()),
            }
        }
    }

    /// Asks this server what an earlier one has answered already.
    async fn repeat(&mut self) -> Result<(), Setback> {
        for request in self.client.told.clone() {
            if self.ask(request).await? != NO {
                let node = &self.target.name;
                let refusal = Refusal::new(
                    Code::CannotConnectNow,
                    format!(
                        "{node} answers {} otherwise than the server before it",
                        request.name()
                    ),
                )
                .hint("Connect again: the server changed while this connection was made.");
                return Err(End::Refused {
                    refusal: Box::new(refusal),
                    reason: Some(metrics::Refusal::dial),
                }
                .into());
            }
        }
        Ok(())
    }

    /// The client's next packet; meanwhile the server must stay.
    async fn next(&mut self) -> Result<Next, Setback> {
        let mut byte = [0; 1];
        let start = Instant::now();
        tokio::select! {
            biased;
            next = self.client.next(self.startup_timeout) => {
                self.ticket.extend(start.elapsed());
                Ok(next?)
            }
            peeked = self.server.peek(&mut byte) => match peeked {
                Ok(0) => Err(self.closed().into()),
                Ok(_) => Err(DialError::Nonsense {
                    node: self.node(),
                    request: "nothing",
                    answer: byte[0],
                }
                .into()),
                Err(source) => Err(self.broke(source).into()),
            },
        }
    }

    async fn ask(&mut self, request: Request) -> Result<u8, Setback> {
        let (node, deadline) = (self.node(), self.ticket.deadline());
        let (client, server) = (&mut *self.client, &mut *self.server);
        let ask = async {
            server.write_all(request.bytes()).await?;
            server.read_u8().await
        };
        let answer = tokio::select! {
            biased;
            answer = tokio::time::timeout_at(deadline, ask) => answer,
            end = client.left() => return Err(end.into()),
        };
        match answer {
            Ok(Ok(answer)) if answer == NO || answer == request.yes() => Ok(answer),
            Ok(Ok(answer)) => Err(DialError::Nonsense {
                node,
                request: request.name(),
                answer,
            }
            .into()),
            Ok(Err(source)) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.closed().into())
            }
            Ok(Err(source)) => Err(self.broke(source).into()),
            Err(_late) => Err(Setback::Late(DialError::Mute { node })),
        }
    }

    /// A startup message in clear text: the server's first words show whether it takes the client.
    async fn start(&mut self, startup: usize) -> Result<Introduced, Setback> {
        let node = self.node();
        let (mut heard, mut sent) = (Vec::new(), 0);
        loop {
            if self.exchange(&mut heard, &mut sent).await? == 0 {
                return Err(self.closed().into());
            }
            match judge(&heard, sent <= startup) {
                Verdict::Wait => {}
                Verdict::Pass => {
                    return Ok(Introduced {
                        heard,
                        sent,
                        road: Road::Clear,
                    });
                }
                Verdict::Full => return Err(Setback::Full { node, heard }),
                Verdict::Refused(code) => return Err(DialError::Refused { node, code }.into()),
            }
        }
    }

    /// TLS from the first byte: what the server does with it is all there is to see.
    async fn hello(&mut self) -> Result<Introduced, Setback> {
        let (mut heard, mut sent) = (Vec::new(), 0);
        match self.exchange(&mut heard, &mut sent).await {
            Ok(1..) => {
                return Ok(Introduced {
                    heard,
                    sent,
                    road: Road::Opaque { hello: true },
                });
            }
            // Closed, or reset because it left bytes unread.
            Ok(0) | Err(Setback::Failed(DialError::Broke { .. })) => {}
            Err(setback) => return Err(setback),
        }
        self.client.shied += 1;
        match self.client.shied {
            1 => Err(Setback::Shy { node: self.node() }),
            _ => Err(End::NoDirectTls.into()),
        }
    }

    /// Passes on what the client says and keeps it, until the server says something or closes (0).
    async fn exchange(&mut self, heard: &mut Vec<u8>, sent: &mut usize) -> Result<usize, Setback> {
        heard.reserve(READ);
        loop {
            let deadline = self.ticket.deadline();
            let step = self.step(heard, *sent);
            match tokio::time::timeout_at(deadline, step).await {
                Ok(Ok(Step::Heard(read))) => return Ok(read),
                Ok(Ok(Step::Wrote(wrote))) => *sent += wrote,
                Ok(Ok(Step::Spoke(spoke))) => spoke?,
                Ok(Err(source)) => return Err(self.broke(source).into()),
                Err(_late) => return Err(Setback::Late(DialError::Mute { node: self.node() })),
            }
        }
    }

    async fn step(&mut self, heard: &mut Vec<u8>, sent: usize) -> std::io::Result<Step> {
        let (mut reader, mut writer) = self.server.split();
        let rest = &self.client.inbox[sent..];
        if rest.is_empty() {
            tokio::select! {
                biased;
                read = reader.read_buf(heard) => Ok(Step::Heard(read?)),
                spoke = self.client.more() => Ok(Step::Spoke(spoke)),
            }
        } else {
            tokio::select! {
                biased;
                read = reader.read_buf(heard) => Ok(Step::Heard(read?)),
                wrote = writer.write(rest) => Ok(Step::Wrote(wrote?)),
            }
        }
    }

    fn node(&self) -> SocketAddr {
        self.target.addr
    }

    fn closed(&self) -> DialError {
        DialError::Closed { node: self.node() }
    }

    fn broke(&self, source: std::io::Error) -> DialError {
        DialError::Broke {
            node: self.node(),
            source,
        }
    }
}

enum Step {
    Heard(usize),
    Wrote(usize),
    /// The client has said more, or left.
    Spoke(Result<(), End>),
}

/// NegotiateProtocolVersion and AuthenticationOk decide nothing: what follows them does, and comes with them. A server
/// that is shut down just then may even say that it is ready, and in the same breath that it is not: as long as the
/// client knows nothing of that and has asked for nothing, another server can have it.
fn judge(heard: &[u8], has_asked_nothing: bool) -> Verdict {
    let mut rest = heard;
    let mut so_far = Verdict::Wait;
    loop {
        match find(rest) {
            Found::Message {
                tag: b'v', length, ..
            } => rest = &rest[length..],
            Found::Message {
                tag: b'R',
                body,
                length,
            } if is_authentication_ok(body) => rest = &rest[length..],
            // ParameterStatus and BackendKeyData.
            Found::Message {
                tag: b'S' | b'K',
                length,
                ..
            } => {
                so_far = Verdict::Pass;
                rest = &rest[length..];
            }
            Found::Message {
                tag: READY, length, ..
            } if has_asked_nothing => {
                so_far = Verdict::Pass;
                rest = &rest[length..];
            }
            Found::Message {
                tag: b'E', body, ..
            } => {
                return match error_code(body) {
                    Some(b"53300") => Verdict::Full,
                    Some(code @ (b"57P01" | b"57P02" | b"57P03")) => {
                        Verdict::Refused(String::from_utf8_lossy(code).into_owned())
                    }
                    _ => Verdict::Pass,
                };
            }
            Found::Part { tag: b'E', length } if length < HEARD => return Verdict::Wait,
            Found::Nothing if heard.len() < HEARD => return so_far,
            Found::Part { tag, length } if matches!(tag, b'v' | b'R') && length < HEARD => {
                return Verdict::Wait;
            }
            Found::Nothing | Found::Part { .. } | Found::Message { .. } | Found::Broken => {
                return Verdict::Pass;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> Vec<u8> {
        let body = format!("SFATAL\0C{code}\0Mwords\0\0");
        let mut message = vec![b'E'];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body.as_bytes());
        message
    }

    const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";
    const ASKS_FOR_PASSWORD: &[u8] = b"R\0\0\0\x0c\0\0\0\x05salt";
    const SAYS: &[u8] = b"S\0\0\0\x08a\0b\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02";
    const READY_IDLE: &[u8] = b"Z\0\0\0\x05I";
    const NEGOTIATES: &[u8] = b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0";

    #[test]
    fn a_server_that_starts_or_stops_refuses_also_after_it_has_negotiated() {
        for code in ["57P01", "57P02", "57P03"] {
            for before in [&b""[..], NEGOTIATES, OK] {
                let heard = [before, &error(code)].concat();
                assert!(matches!(judge(&heard, true), Verdict::Refused(said) if said == code));
                for end in 0..heard.len() {
                    assert!(matches!(judge(&heard[..end], true), Verdict::Wait), "{end}");
                }
            }
        }
        assert!(matches!(judge(&error("53300"), true), Verdict::Full));
    }

    #[test]
    fn a_server_that_is_ready_and_stops_in_one_breath_refuses_a_client_that_has_asked_nothing() {
        let stops = error("57P01");
        for before in [[OK, SAYS].concat(), [OK, SAYS, READY_IDLE].concat()] {
            let heard = [&before[..], &stops].concat();
            assert!(matches!(judge(&before, true), Verdict::Pass));
            assert!(matches!(judge(&heard, true), Verdict::Refused(said) if said == "57P01"));
        }
        let heard = [OK, SAYS, READY_IDLE, &stops].concat();
        assert!(matches!(judge(&heard, false), Verdict::Pass));
    }

    #[test]
    fn whatever_concerns_only_the_client_is_passed_on() {
        for heard in [
            error("28P01"),
            error("3D000"),
            ASKS_FOR_PASSWORD.to_vec(),
            [OK, SAYS].concat(),
            [OK, b"S\0\0\0\x0ea\0"].concat(),
            [OK, SAYS, READY_IDLE].concat(),
            [OK, SAYS, &error("28000")].concat(),
            b"HTTP/1.1 400 Bad Request".to_vec(),
        ] {
            assert!(matches!(judge(&heard, true), Verdict::Pass), "{heard:?}");
        }
    }
}
