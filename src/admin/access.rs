//! Who may look: a person on this host may, a page in a browser on this host may not.

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, ORIGIN};

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forbidden {
    /// A name that somebody made point here (DNS rebinding) comes with the request of the page that uses it.
    Host,
    /// A page from elsewhere asks.
    Origin,
}

impl Forbidden {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Host => "the Host must be a literal address or a loopback name",
            Self::Origin => "a page of another origin may not ask",
        }
    }
}

/// Browsers always send `Host`, so its absence (HTTP/1.0 checks of load balancers) is harmless.
pub(super) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Forbidden> {
    let named = uri.authority().map(|authority| authority.as_str());
    let hosts = headers.get_all(HOST).iter().map(|v| v.to_str().ok());
    if !hosts.chain(named.map(Some)).all(|h| h.is_some_and(is_ours)) {
        return Err(Forbidden::Host);
    }
    let host = headers.get(HOST).and_then(|v| v.to_str().ok());
    let same = |origin: &str| {
        let host_of = origin.strip_prefix("http://");
        host_of.is_some() && host_of == host
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    if !origins.all(|v| v.to_str().is_ok_and(same)) {
        return Err(Forbidden::Origin);
    }
    Ok(())
}

fn is_ours(authority: &str) -> bool {
    let host = without_port(authority);
    if let Some(v6) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return v6.parse::<std::net::Ipv6Addr>().is_ok();
    }
    if host.parse::<std::net::Ipv4Addr>().is_ok() {
        return true;
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    // The names that RFC 6761 and /etc/hosts keep on this host.
    name == "localhost"
        || name.ends_with(".localhost")
        || name == "localhost.localdomain"
        || name == "ip6-localhost"
        || name == "ip6-loopback"
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn asked(host: Option<&str>, origin: Option<&str>) -> Result<(), Forbidden> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        check(&Uri::from_static("/topology"), &headers)
    }

    #[test]
    fn literal_addresses_and_loopback_names_may_ask() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "10.1.2.3:9090",
            "[::1]",
            "[::1]:9090",
            "localhost:9090",
            "LOCALHOST.",
            "proxy.localhost",
        ] {
            assert_eq!(asked(Some(host), None), Ok(()), "{host}");
        }
        assert_eq!(asked(None, None), Ok(()), "an HTTP/1.0 check");
    }

    #[test]
    fn a_name_that_was_made_to_point_here_may_not() {
        for host in [
            "evil.example",
            "evil.example:9090",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "",
            ":9090",
            "[evil]:9090",
            "127.0.0.1@evil.example",
        ] {
            assert_eq!(asked(Some(host), None), Err(Forbidden::Host), "{host}");
        }
    }

    #[test]
    fn one_bad_name_among_several_is_enough() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("127.0.0.1"));
        headers.append(HOST, HeaderValue::from_static("evil.example"));
        assert_eq!(
            check(&Uri::from_static("/"), &headers),
            Err(Forbidden::Host)
        );

        let proxied = Uri::from_static("http://evil.example/topology");
        assert_eq!(check(&proxied, &HeaderMap::new()), Err(Forbidden::Host));
    }

    #[test]
    fn only_our_own_pages_may_ask_from_a_browser() {
        let host = Some("localhost:9090");
        assert_eq!(asked(host, Some("http://localhost:9090")), Ok(()));
        for origin in [
            "http://evil.example",
            "http://localhost:8080",
            "https://localhost:9090",
            "http://127.0.0.1:9090",
            "null",
            "",
        ] {
            assert_eq!(
                asked(host, Some(origin)),
                Err(Forbidden::Origin),
                "{origin}"
            );
        }
        assert_eq!(
            asked(None, Some("http://localhost:9090")),
            Err(Forbidden::Origin)
        );
    }
}
