//! Addresses as people write them, and when two of them are the same.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::net::Address;

pub(super) const LISTEN: &str = "allowed is IP:PORT, [IPv6]:PORT, localhost:PORT or an absolute path such as /run/helios-proxy/.s.PGSQL.5432 (at most 107 bytes)";
pub(super) const TCP: &str = "allowed is IP:PORT, [IPv6]:PORT or localhost:PORT, or \"\" for none";
pub(super) const HOST: &str =
    "allowed is a name or an IP address, without a port (it has its own key)";

/// `sockaddr_un` has room for 108 bytes, the last of them zero.
const LONGEST_PATH: usize = 107;

/// Where to listen.
pub(super) fn listen(text: &str) -> Option<Address> {
    if text.starts_with('/') {
        let fits = text.len() <= LONGEST_PATH && !text.ends_with('/') && !text.contains('\0');
        return fits.then(|| Address::Unix(PathBuf::from(text)));
    }
    tcp(text).map(Address::Tcp)
}

/// A literal address and port. Names are not asked for: what is bound must not depend on a resolver.
pub(super) fn tcp(text: &str) -> Option<SocketAddr> {
    if let Some((name, port)) = text.rsplit_once(':')
        && name.eq_ignore_ascii_case("localhost")
    {
        return Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)));
    }
    text.parse().ok()
}

/// A node's host: a name or an address, without brackets.
pub(super) fn host(text: &str) -> Option<&str> {
    let bare = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(text);
    if bare.contains(':') {
        let (ip, zone) = bare.split_once('%').unwrap_or((bare, "1"));
        return (ip.parse::<Ipv6Addr>().is_ok() && !zone.is_empty()).then_some(bare);
    }
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/@[]{}$\"'\\?#,;".contains(c);
    let is_name = bare == text && !bare.is_empty() && bare.len() <= 253 && !bare.contains(odd);
    is_name.then_some(bare)
}

/// The form in which two spellings of one listener's address are equal. `None` for port 0, which is never taken.
pub(super) fn canonical_listen(address: &Address) -> Option<Address> {
    match address {
        Address::Tcp(at) if at.port() == 0 => None,
        Address::Tcp(at) => Some(Address::Tcp(SocketAddr::new(
            at.ip().to_canonical(),
            at.port(),
        ))),
        Address::Unix(path) => Some(Address::Unix(path.components().collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_a_literal_address_localhost_or_a_path() {
        for good in [
            "127.0.0.1:5432",
            "[::1]:5432",
            "0.0.0.0:0",
            "LocalHost:5432",
            "/run/p/.s.PGSQL.5432",
        ] {
            assert!(listen(good).is_some(), "{good}");
        }
        let long = format!("/{}", "x".repeat(107));
        for bad in [
            "",
            "5432",
            ":5432",
            "*:5432",
            "db:5432",
            "127.0.0.1",
            "::1:5432",
            "1.2.3.4:70000",
            "localhost",
            "localhost:x",
            "run/sock",
            "/",
            "/run/",
            &long,
        ] {
            assert_eq!(listen(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_without_a_port() {
        for good in [
            "pg1",
            "pg-1.example.com.",
            "10.0.0.1",
            "::1",
            "fe80::1%eth0",
            "pg_1",
            "böse.de",
        ] {
            assert_eq!(host(good), Some(good));
        }
        assert_eq!(host("[2001:db8::1]"), Some("2001:db8::1"));
        for bad in [
            "",
            "pg1:5432",
            "[::1]:5432",
            "[pg1]",
            "http://pg1",
            "a b",
            "${X}",
            "u@h",
            "fe80::1%",
        ] {
            assert_eq!(host(bad), None, "{bad}");
        }
    }

    #[test]
    fn two_spellings_of_one_listener_are_equal_and_port_0_is_always_free() {
        let same =
            |a, b| canonical_listen(&listen(a).unwrap()) == canonical_listen(&listen(b).unwrap());
        assert!(same("localhost:5432", "[::ffff:127.0.0.1]:5432"));
        assert!(same("/run//x/./s", "/run/x/s"));
        assert!(!same("127.0.0.1:5432", "0.0.0.0:5432"));
        assert_eq!(canonical_listen(&listen("127.0.0.1:0").unwrap()), None);
    }
}
