//! PostgreSQL messages as bytes, written down once more so that a fault in the proxy's own room is not repeated here.

pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
pub const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];
const CANCEL_CODE: u32 = 80_877_102;
pub const PROTOCOL_3_0: u32 = 196_608;
pub const PROTOCOL_3_2: u32 = 196_610;

/// Begins as a TLS ClientHello does; whoever passes bytes through need not know more.
pub const CLIENT_HELLO: [u8; 16] = [
    0x16, 0x03, 0x01, 0x00, 0x0b, 0x01, 0x00, 0x00, 0x07, 0x03, 0x03, b'h', b'e', b'l', b'l', b'o',
];

/// A startup message with these parameters.
pub fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (key, value) in parameters {
        body.extend_from_slice(key.as_bytes());
        body.push(0);
        body.extend_from_slice(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    framed(&body)
}

/// What clients usually send.
pub fn usual_startup() -> Vec<u8> {
    startup(PROTOCOL_3_0, &[("user", "app"), ("database", "app")])
}

/// A cancel request for a process and a key of any length.
pub fn cancel(process: u32, key: &[u8]) -> Vec<u8> {
    let mut body = CANCEL_CODE.to_be_bytes().to_vec();
    body.extend_from_slice(&process.to_be_bytes());
    body.extend_from_slice(key);
    framed(&body)
}

/// A length word and the body, without a tag.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short message");
    let mut all = length.to_be_bytes().to_vec();
    all.extend_from_slice(body);
    all
}

/// A tagged message.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut all = vec![tag];
    all.extend_from_slice(&framed(body));
    all
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &zero_ended(sql))
}

pub fn terminate() -> Vec<u8> {
    message(b'X', b"")
}

/// The newest minor version is 3.0, and one option is unknown.
pub fn negotiate_protocol_version() -> Vec<u8> {
    let mut body = PROTOCOL_3_0.to_be_bytes().to_vec();
    body.extend_from_slice(&1_u32.to_be_bytes());
    body.extend_from_slice(&zero_ended("_pq_.x"));
    message(b'v', &body)
}

pub fn authentication_ok() -> Vec<u8> {
    message(b'R', &0_u32.to_be_bytes())
}

pub fn parameter_status(key: &str, value: &str) -> Vec<u8> {
    let mut body = zero_ended(key);
    body.extend_from_slice(&zero_ended(value));
    message(b'S', &body)
}

pub fn backend_key_data(process: u32, key: &[u8]) -> Vec<u8> {
    let mut body = process.to_be_bytes().to_vec();
    body.extend_from_slice(key);
    message(b'K', &body)
}

/// `status` is `I`, `T` or `E`.
pub fn ready_for_query(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

/// An ErrorResponse with the fields that every server sends.
pub fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, value) in [
        (b'S', severity),
        (b'V', severity),
        (b'C', code),
        (b'M', text),
    ] {
        body.push(field);
        body.extend_from_slice(&zero_ended(value));
    }
    body.push(0);
    message(b'E', &body)
}

/// One row of one text column, complete with its description and `CommandComplete`.
pub fn one_row(value: &[u8]) -> Vec<u8> {
    let mut all = row_description();
    all.extend_from_slice(&data_row(value));
    all.extend_from_slice(&message(b'C', &zero_ended("SELECT 1")));
    all
}

pub fn row_description() -> Vec<u8> {
    let mut description = 1_u16.to_be_bytes().to_vec();
    description.extend_from_slice(&zero_ended("node"));
    description.extend_from_slice(&0_u32.to_be_bytes());
    description.extend_from_slice(&0_u16.to_be_bytes());
    description.extend_from_slice(&25_u32.to_be_bytes());
    description.extend_from_slice(&(-1_i16).to_be_bytes());
    description.extend_from_slice(&(-1_i32).to_be_bytes());
    description.extend_from_slice(&0_u16.to_be_bytes());
    message(b'T', &description)
}

pub fn data_row(value: &[u8]) -> Vec<u8> {
    let mut row = 1_u16.to_be_bytes().to_vec();
    row.extend_from_slice(
        &u32::try_from(value.len())
            .expect("a short value")
            .to_be_bytes(),
    );
    row.extend_from_slice(value);
    message(b'D', &row)
}

pub fn zero_ended(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// The value of one field of an ErrorResponse's body.
pub fn field(body: &[u8], which: u8) -> Option<String> {
    body.split(|byte| *byte == 0)
        .find(|part| part.first() == Some(&which))
        .map(|part| String::from_utf8_lossy(&part[1..]).into_owned())
}
