//! An ErrorResponse of ours: the words with which a client is turned away or its session ends.

/// The codes that are said here.
///
/// Source: PostgreSQL documentation, appendix "PostgreSQL Error Codes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// 57P03: no leader, or not usable now.
    CannotConnectNow,
    /// 57P01: the session was ended on purpose.
    AdminShutdown,
    /// 08006: the server was lost.
    ConnectionFailure,
    /// 53300: full.
    TooManyConnections,
    /// 08P01: a packet that cannot be read.
    ProtocolViolation,
}

impl Code {
    pub(crate) fn sqlstate(self) -> &'static str {
        match self {
            Self::CannotConnectNow => "57P03",
            Self::AdminShutdown => "57P01",
            Self::ConnectionFailure => "08006",
            Self::TooManyConnections => "53300",
            Self::ProtocolViolation => "08P01",
        }
    }
}

/// A FATAL error, after which the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The bytes of the message.
    ///
    /// Source: PostgreSQL documentation, "Error and Notice Message Fields".
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut message = vec![b'E', 0, 0, 0, 0];
        let mut field = |name: u8, value: &str| {
            message.push(name);
            // A zero byte would end the field early.
            message.extend(value.bytes().filter(|byte| *byte != 0));
            message.push(0);
        };
        field(b'S', "FATAL");
        field(b'V', "FATAL");
        field(b'C', self.code.sqlstate());
        field(b'M', &self.message);
        if let Some(detail) = &self.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &self.hint {
            field(b'H', hint);
        }
        message.push(0);
        let length = u32::try_from(message.len() - 1).unwrap_or(u32::MAX);
        message[1..5].copy_from_slice(&length.to_be_bytes());
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Found, error_code, find};

    #[test]
    fn a_refusal_reads_like_one_of_postgresqls_own() {
        let bytes = Refusal::new(Code::CannotConnectNow, "no leader of main after 45 s")
            .detail("pg1: 503 running replica 5")
            .encode();

        assert_eq!(
            bytes,
            b"E\0\0\0\x54SFATAL\0VFATAL\0C57P03\0Mno leader of main after 45 s\0\
              Dpg1: 503 running replica 5\0\0"
        );
    }

    #[test]
    fn a_zero_in_the_words_does_not_break_the_message() {
        let bytes = Refusal::new(Code::TooManyConnections, "a\0b").encode();

        let Found::Message { body, length, .. } = find(&bytes) else {
            panic!("not one whole message");
        };
        assert_eq!(length, bytes.len());
        assert_eq!(error_code(body), Some(&b"53300"[..]));
        assert!(body.windows(4).any(|w| w == b"Mab\0"));
    }
}
