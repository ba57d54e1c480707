//! Where a REST API is, as a URL says it.

use std::fmt;
use std::sync::Arc;

/// Scheme, host and port: Patroni's paths are the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestUrl {
    pub(crate) https: bool,
    /// A name or an IP address, without brackets.
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl RestUrl {
    /// `http://HOST:PORT` or `https://HOST:PORT`; a path is left aside. `None` for all else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let url: hyper::Uri = text.parse().ok()?;
        let https = match url.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = url.authority()?;
        if authority.as_str().contains('@') {
            return None;
        }
        let host = Some(authority.host()).filter(|host| !host.is_empty())?;
        Some(Self {
            https,
            host: host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host)
                .into(),
            port: authority.port_u16().filter(|port| *port > 0)?,
        })
    }
}

impl fmt::Display for RestUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port_are_read_and_written_again() {
        for (text, again) in [
            ("http://pg-a:8008", "http://pg-a:8008"),
            ("https://10.0.0.1:443/", "https://10.0.0.1:443"),
            (
                "HTTP://[2001:db8::1]:8008/patroni",
                "http://[2001:db8::1]:8008",
            ),
        ] {
            assert_eq!(RestUrl::parse(text).unwrap().to_string(), again);
        }
    }

    #[test]
    fn all_else_is_none() {
        for text in [
            "",
            "pg-a",
            "pg-a:8008",
            "http://pg-a",
            "http://pg-a:0",
            "http://pg-a:70000",
            "ftp://pg-a:8008",
            "http://user:secret@pg-a:8008",
            "http://:8008",
            "http:///patroni",
        ] {
            assert_eq!(RestUrl::parse(text), None, "{text}");
        }
    }
}
