//! What a client's first bytes are: TLS, a request to negotiate, a cancel, a startup message, or not PostgreSQL.

use serde::{Deserialize, Serialize};

/// The whole SSLRequest.
const SSL_REQUEST: [u8; 8] = packet(80_877_103);
/// The whole GSSENCRequest.
const GSSENC_REQUEST: [u8; 8] = packet(80_877_104);
/// "Not here": the answer to either request.
pub(crate) const NO: u8 = b'N';

const CANCEL_CODE: u32 = 80_877_102;
/// The first byte of a TLS record that carries a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Source: PostgreSQL, `MAX_STARTUP_PACKET_LENGTH`.
const MAX_LENGTH: u32 = 10_000;
/// Length, code, process id; what follows is the key.
const CANCEL_HEADER: usize = 8;
const KEY_BYTES: std::ops::RangeInclusive<usize> = 4..=256;
const PROCESS_ID: usize = 4;

/// A request that is answered with one byte before the conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    Ssl,
    Gss,
}

impl Request {
    pub(crate) fn bytes(self) -> &'static [u8; 8] {
        match self {
            Self::Ssl => &SSL_REQUEST,
            Self::Gss => &GSSENC_REQUEST,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ssl => "SSLRequest",
            Self::Gss => "GSSENCRequest",
        }
    }

    /// The answer after which nothing can be read any more.
    pub(crate) fn yes(self) -> u8 {
        match self {
            Self::Ssl => b'S',
            Self::Gss => b'G',
        }
    }
}

/// The verdict on the bytes read so far. The lengths count from the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Nothing can be said yet.
    Incomplete,
    /// A TLS record without an SSLRequest before it (PostgreSQL 17 and later).
    Tls,
    Request(Request),
    Cancel {
        length: usize,
    },
    /// Complete; see [`is_well_formed`].
    Startup {
        length: usize,
    },
    NotPostgres,
}

/// Judges as early as the bytes allow, so that an HTTP request is not waited for.
///
/// Source: PostgreSQL documentation, "Message Formats" (StartupMessage, SSLRequest, GSSENCRequest, CancelRequest);
/// `ProcessStartupPacket` for the limits.
pub(crate) fn classify(bytes: &[u8]) -> Opening {
    match bytes {
        [] => return Opening::Incomplete,
        [TLS_HANDSHAKE, ..] => return Opening::Tls,
        // A legal length fits into its last two bytes.
        [first, ..] if *first != 0 => return Opening::NotPostgres,
        [_, second, ..] if *second != 0 => return Opening::NotPostgres,
        _ => {}
    }
    let Some(length) = word(bytes, 0) else {
        return Opening::Incomplete;
    };
    if !(8..=MAX_LENGTH).contains(&length) {
        return Opening::NotPostgres;
    }
    let Some(code) = word(bytes, 4) else {
        return Opening::Incomplete;
    };
    let length = length as usize;
    for request in [Request::Ssl, Request::Gss] {
        if word(request.bytes(), 4) == Some(code) {
            return match length {
                8 => Opening::Request(request),
                _ => Opening::NotPostgres,
            };
        }
    }
    let is_cancel = code == CANCEL_CODE;
    if is_cancel && !KEY_BYTES.contains(&length.saturating_sub(CANCEL_HEADER + PROCESS_ID)) {
        return Opening::NotPostgres;
    }
    if bytes.len() < length {
        return Opening::Incomplete;
    }
    if is_cancel {
        return Opening::Cancel { length };
    }
    Opening::Startup { length }
}

/// The process id and the secret of a whole CancelRequest, as BackendKeyData carries them.
pub(crate) fn key_of_cancel(packet: &[u8]) -> &[u8] {
    packet.get(CANCEL_HEADER..).unwrap_or_default()
}

/// Is the parameter list of a whole startup message one that can be read? Other versions than 3 have other lists:
/// they are the server's business.
pub(crate) fn is_well_formed(packet: &[u8]) -> bool {
    if packet.get(4..6) != Some(&[0, 3]) {
        return true;
    }
    let mut rest = packet.get(8..).unwrap_or_default();
    loop {
        match rest {
            // The list's own terminator must be the last byte.
            [0] => return true,
            [] | [0, ..] => return false,
            _ => {}
        }
        for _ in ["name", "value"] {
            let Some(end) = rest.iter().position(|byte| *byte == 0) else {
                return false;
            };
            rest = &rest[end + 1..];
        }
    }
}

const fn packet(code: u32) -> [u8; 8] {
    let c = code.to_be_bytes();
    [0, 0, 0, 8, c[0], c[1], c[2], c[3]]
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup(parameters: &[u8]) -> Vec<u8> {
        let mut packet = vec![0, 0, 0, 0, 0, 3, 0, 0];
        packet.extend_from_slice(parameters);
        let length = packet.len() as u32;
        packet[..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    fn cancel(length: u32) -> Vec<u8> {
        let mut packet = length.to_be_bytes().to_vec();
        packet.extend_from_slice(&CANCEL_CODE.to_be_bytes());
        packet.resize(length as usize, 7);
        packet
    }

    #[test]
    fn every_opening_is_told_only_by_its_last_byte_when_it_drips() {
        let whole = startup(b"user\0anna\0\0");
        for (bytes, verdict) in [
            (SSL_REQUEST.to_vec(), Opening::Request(Request::Ssl)),
            (GSSENC_REQUEST.to_vec(), Opening::Request(Request::Gss)),
            (cancel(16), Opening::Cancel { length: 16 }),
            (
                whole.clone(),
                Opening::Startup {
                    length: whole.len(),
                },
            ),
        ] {
            for end in 0..bytes.len() {
                assert_eq!(classify(&bytes[..end]), Opening::Incomplete, "{bytes:?}");
            }
            assert_eq!(classify(&bytes), verdict);
        }
    }

    #[test]
    fn a_tls_record_is_known_by_its_first_byte() {
        assert_eq!(classify(&[0x16]), Opening::Tls);
        assert_eq!(classify(&[0x16, 3, 1, 2, 0]), Opening::Tls);
    }

    #[test]
    fn a_web_browser_is_turned_away_at_its_first_byte() {
        assert_eq!(classify(b"G"), Opening::NotPostgres);
        assert_eq!(classify(b"GET / HTTP/1.1\r\n\r\n"), Opening::NotPostgres);
    }

    #[test]
    fn lengths_outside_of_8_to_10_000_are_not_postgres() {
        for length in [0u32, 1, 7, 10_001, 65_536, 0x7fff_ffff, 0xffff_ffff] {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend_from_slice(&[0, 3, 0, 0]);
            assert_eq!(classify(&bytes), Opening::NotPostgres, "{length}");
        }
        let mut longest = startup(b"");
        longest[..4].copy_from_slice(&10_000u32.to_be_bytes());
        longest.resize(10_000, 0);
        assert_eq!(classify(&longest), Opening::Startup { length: 10_000 });
    }

    #[test]
    fn a_cancel_key_has_4_to_256_bytes() {
        for good in [16, 44, 268] {
            assert_eq!(
                classify(&cancel(good)),
                Opening::Cancel {
                    length: good as usize
                }
            );
            assert_eq!(key_of_cancel(&cancel(good)).len(), good as usize - 8);
        }
        for bad in [8, 12, 15, 269, 272, 9_999] {
            assert_eq!(classify(&cancel(bad)), Opening::NotPostgres, "{bad}");
        }
    }

    #[test]
    fn a_request_of_another_length_is_not_postgres() {
        let mut long = SSL_REQUEST.to_vec();
        long[3] = 9;
        long.push(0);
        assert_eq!(classify(&long), Opening::NotPostgres);
    }

    #[test]
    fn parameters_come_in_pairs_and_end_with_a_zero_in_the_last_byte() {
        assert!(is_well_formed(&startup(b"user\0anna\0\0")));
        assert!(is_well_formed(&startup(b"user\0anna\0database\0\0\0")));
        assert!(is_well_formed(&startup(b"\0")));
        for broken in [
            &b""[..],
            b"user",
            b"user\0",
            b"user\0anna",
            b"user\0anna\0",
            b"user\0anna\0\0x",
            b"user\0anna\0\0\0",
        ] {
            assert!(!is_well_formed(&startup(broken)), "{broken:?}");
        }
    }

    #[test]
    fn the_parameters_of_another_version_are_the_servers_business() {
        let mut version_2 = startup(b"user");
        version_2[5] = 2;
        assert!(is_well_formed(&version_2));
    }

    #[test]
    fn no_first_bytes_whatever_make_it_panic() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let mut small = bytes.clone();
            for byte in small.iter_mut().take(2) {
                *byte = 0;
            }
            for bytes in [bytes, small] {
                if let Opening::Startup { length } | Opening::Cancel { length } = classify(&bytes) {
                    assert!(length <= bytes.len(), "seed {seed}");
                }
                let _ = is_well_formed(&bytes);
                let _ = key_of_cancel(&bytes);
            }
        }
    }
}
