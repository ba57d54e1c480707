//! Why a server's certificate is not believed, in words that name it and what was expected.

use std::fmt;
use std::time::{Duration, SystemTime};

use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error};
use webpki::EndEntityCert;

/// A certificate that was not believed. The words stay the same each time it is shown.
#[derive(Debug)]
pub(crate) struct Refused {
    subject: String,
    issuer: String,
    expected: String,
    why: String,
}

impl Refused {
    pub(super) fn new(
        shown: &CertificateDer<'_>,
        name: &ServerName<'_>,
        trusted: &str,
        cause: &Error,
    ) -> Self {
        let parsed = EndEntityCert::try_from(shown);
        let common_name = |names: &[u8]| common_name(names).unwrap_or_else(|| "?".to_owned());
        let (subject, issuer) = match &parsed {
            Ok(cert) => (common_name(cert.subject()), common_name(cert.issuer())),
            Err(_) => ("?".to_owned(), "?".to_owned()),
        };
        Self {
            subject,
            issuer,
            expected: name.to_str().into_owned(),
            why: why(cause, trusted),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            issuer,
            expected,
            why,
        } = self;
        write!(
            f,
            "certificate {subject:?} of {issuer:?}, expected for {expected:?}, {why}"
        )
    }
}

impl std::error::Error for Refused {}

fn why(cause: &Error, trusted: &str) -> String {
    let Error::InvalidCertificate(error) = cause else {
        return format!("cannot be used: {cause}");
    };
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("expired on {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!(
                "is not valid before {}: is this host's clock right?",
                date(*not_before)
            )
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "has no subject alternative name".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            format!("is only for {}", names.join(", "))
        }
        CertificateError::UnknownIssuer => format!("is not signed by a CA of {trusted}"),
        other => format!("cannot be used: {other}"),
    }
}

/// `n1.example` from `DnsName("n1.example")`, `10.0.0.1` from `IpAddress(10.0.0.1)`.
fn bare(presented: &str) -> &str {
    let inner = presented
        .split_once('(')
        .and_then(|(_kind, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"')
}

fn date(time: UnixTime) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}

/// The common name in the DER of a distinguished name, for people only.
///
/// Source: RFC 5280, section 4.1.2.4 and appendix A.1 (`id-at-commonName`).
fn common_name(names: &[u8]) -> Option<String> {
    const OID: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let at = names.windows(OID.len()).position(|part| part == OID)?;
    let [_string_type, length, text @ ..] = names.get(at + OID.len()..)? else {
        return None;
    };
    // A longer name has another form of length; X.509 allows 64 characters.
    let text = text.get(..usize::from(*length)).filter(|_| *length < 128)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_name_is_found_in_der_and_nothing_is_made_of_broken_der() {
        // SET { SEQUENCE { commonName, UTF8String "n1" } }
        let der = b"\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02n1";
        assert_eq!(common_name(der).as_deref(), Some("n1"));

        for end in 0..der.len() {
            assert_eq!(common_name(&der[..end]), None, "{end}");
        }
        assert_eq!(common_name(b"\x06\x03\x55\x04\x03\x0c\xff"), None);
    }

    #[test]
    fn presented_names_are_shown_bare() {
        assert_eq!(bare("DnsName(\"n1.example\")"), "n1.example");
        assert_eq!(bare("IpAddress(10.0.0.1)"), "10.0.0.1");
        assert_eq!(bare("odd"), "odd");
    }
}
