//! The few server messages that are read while a session starts.

/// The first byte of a message.
pub(crate) type Tag = u8;

/// ReadyForQuery.
pub(crate) const READY: Tag = b'Z';

/// What stands at the front of a server's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The header itself is not complete.
    Nothing,
    /// The header is there, the body is not.
    Part {
        tag: Tag,
        /// Of the whole message.
        length: usize,
    },
    Message {
        tag: Tag,
        body: &'a [u8],
        /// Of the whole message.
        length: usize,
    },
    /// A length that no message can have.
    Broken,
}

/// Looks at the first message of `bytes`.
pub(crate) fn find(bytes: &[u8]) -> Found<'_> {
    let [tag, a, b, c, d, rest @ ..] = bytes else {
        return Found::Nothing;
    };
    let length = u32::from_be_bytes([*a, *b, *c, *d]);
    if !(4..0x8000_0000).contains(&length) {
        return Found::Broken;
    }
    let (tag, body, length) = (*tag, length as usize - 4, length as usize + 1);
    match rest.get(..body) {
        Some(body) => Found::Message { tag, body, length },
        None => Found::Part { tag, length },
    }
}

/// The SQLSTATE of an ErrorResponse.
pub(crate) fn error_code(body: &[u8]) -> Option<&[u8]> {
    field(body, b'C')
}

/// Is this the body of AuthenticationOk, after which nothing more is asked of the client?
pub(crate) fn is_authentication_ok(body: &[u8]) -> bool {
    body == [0, 0, 0, 0]
}

/// Name and value of a ParameterStatus.
pub(crate) fn parameter(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = body.split(|byte| *byte == 0);
    Some((parts.next()?, parts.next()?))
}

/// The process id and the secret of a BackendKeyData, as a CancelRequest carries them. Secrets are 4 to 256 bytes
/// (four before protocol 3.2).
pub(crate) fn cancel_key(body: &[u8]) -> Option<&[u8]> {
    (8..=260).contains(&body.len()).then_some(body)
}

fn field(body: &[u8], name: u8) -> Option<&[u8]> {
    body.split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(&[name]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_once_its_last_byte_is_there() {
        let bytes = b"R\0\0\0\x08\0\0\0\0Z";
        assert_eq!(find(&bytes[..4]), Found::Nothing);
        assert_eq!(
            find(&bytes[..8]),
            Found::Part {
                tag: b'R',
                length: 9
            }
        );
        assert_eq!(
            find(bytes),
            Found::Message {
                tag: b'R',
                body: &[0; 4],
                length: 9
            }
        );
        assert!(is_authentication_ok(&[0; 4]));
    }

    #[test]
    fn a_length_below_its_own_four_bytes_is_broken() {
        assert_eq!(find(b"E\0\0\0\x03"), Found::Broken);
        assert_eq!(find(b"E\xff\xff\xff\xff"), Found::Broken);
    }

    #[test]
    fn the_code_is_read_from_among_the_fields() {
        assert_eq!(
            error_code(b"SFATAL\0VFATAL\0C57P03\0Mstarting up\0\0"),
            Some(&b"57P03"[..])
        );
        assert_eq!(error_code(b"Mno code\0\0"), None);
    }

    #[test]
    fn a_parameter_is_a_name_and_a_value() {
        assert_eq!(
            parameter(b"in_hot_standby\0on\0"),
            Some((&b"in_hot_standby"[..], &b"on"[..]))
        );
    }

    #[test]
    fn a_key_may_have_any_length_that_the_protocol_allows() {
        assert!(cancel_key(&[1; 7]).is_none());
        assert!(cancel_key(&[1; 8]).is_some());
        assert!(cancel_key(&[1; 36]).is_some());
        assert!(cancel_key(&[1; 260]).is_some());
        assert!(cancel_key(&[1; 261]).is_none());
    }
}
