//! Who may: a person with the token may; without it, somebody on this host may look, and a page of elsewhere may not.

use hyper::Uri;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};

use super::AdminSettings;
use super::token::{Token, TokenError};

/// What a request is for, as far as it matters who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Is it alive, is it ready: for load balancers, which have no token.
    Health,
    Look,
    Change,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// A name that somebody made point here (DNS rebinding) comes with the request of the page that uses it.
    Host,
    /// A page from elsewhere asks.
    Origin,
    /// A token is needed, and none came.
    TokenMissing,
    TokenWrong,
    /// A token is needed, and there is none that could be right.
    NoTokenConfigured,
    /// The same, because of the file.
    TokenFileUnusable,
}

impl Denied {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Host => "the Host must be a literal address or a loopback name",
            Self::Origin => "a page of another origin may not ask",
            Self::TokenMissing => "this needs the header Authorization: Bearer TOKEN",
            Self::TokenWrong => "the token is not the one of admin_token_file",
            Self::NoTokenConfigured => {
                "changes need a token: set admin_token_file (or admin_allow_insecure = true)"
            }
            Self::TokenFileUnusable => {
                "a token is needed, and admin_token_file is empty or cannot be read: see the log"
            }
        }
    }

    /// Would a token help? Then 401, else 403.
    pub(super) fn wants_token(self) -> bool {
        matches!(self, Self::TokenMissing | Self::TokenWrong)
    }
}

/// The token that is configured: `None` without a file.
pub(super) type Configured = Option<Result<Token, TokenError>>;

/// Does anybody have to look into the token's file for this request?
pub(super) fn asks_for_token(
    purpose: Purpose,
    settings: &AdminSettings,
    headers: &HeaderMap,
) -> bool {
    settings.token_file.is_some()
        && (needs_token(purpose, settings) || headers.contains_key(AUTHORIZATION))
}

/// The whole of "who may". `configured` is the token as it is now.
pub(super) fn admit(
    purpose: Purpose,
    settings: &AdminSettings,
    configured: &Configured,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Denied> {
    let said = bearer(headers);
    let right = match (configured, said) {
        (Some(Ok(token)), Said::Token(said)) => token.is(said),
        _ => false,
    };
    if right {
        return Ok(());
    }
    if needs_token(purpose, settings) {
        return Err(match (configured, said) {
            (None, _) => Denied::NoTokenConfigured,
            (Some(Err(_)), _) => Denied::TokenFileUnusable,
            (Some(Ok(_)), Said::Nothing) => Denied::TokenMissing,
            (Some(Ok(_)), _) => Denied::TokenWrong,
        });
    }
    let is_wrong = said != Said::Nothing && matches!(configured, Some(Ok(_)));
    if is_wrong && purpose != Purpose::Health && !settings.allow_insecure {
        return Err(Denied::TokenWrong);
    }
    from_here(uri, headers)
}

fn needs_token(purpose: Purpose, settings: &AdminSettings) -> bool {
    let secret = match purpose {
        Purpose::Health => false,
        Purpose::Look => settings.is_off_loopback(),
        Purpose::Change => true,
    };
    secret && !settings.allow_insecure
}

/// What a request brings to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said<'a> {
    Nothing,
    Token(&'a [u8]),
    /// Another scheme, or two of them.
    Unreadable,
}

fn bearer(headers: &HeaderMap) -> Said<'_> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(one), None) = (all.next(), all.next()) else {
        return if headers.contains_key(AUTHORIZATION) {
            Said::Unreadable
        } else {
            Said::Nothing
        };
    };
    match one.as_bytes().split_first_chunk::<7>() {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
            Said::Token(token.trim_ascii())
        }
        _ => Said::Unreadable,
    }
}

/// For requests without the token. Browsers always send `Host`, so its absence (HTTP/1.0 checks of load balancers) is
/// harmless.
fn from_here(uri: &Uri, headers: &HeaderMap) -> Result<(), Denied> {
    let named = uri.authority().map(|authority| authority.as_str());
    let hosts = headers.get_all(HOST).iter().map(|v| v.to_str().ok());
    if !hosts.chain(named.map(Some)).all(|h| h.is_some_and(is_ours)) {
        return Err(Denied::Host);
    }
    let host = headers.get(HOST).and_then(|v| v.to_str().ok());
    let same = |origin: &str| {
        let host_of = origin.strip_prefix("http://");
        host_of.is_some() && host_of == host
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    if !origins.all(|v| v.to_str().is_ok_and(same)) {
        return Err(Denied::Origin);
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

    const LOOPBACK: &str = "127.0.0.1:9090";
    const ELSEWHERE: &str = "10.0.0.5:9090";

    fn settings(address: &str) -> AdminSettings {
        AdminSettings {
            address: address.parse().unwrap(),
            token_file: Some("/token".into()),
            allow_insecure: false,
            enable_chaos: false,
        }
    }

    fn configured(text: &str) -> Configured {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Some(Token::read(file.path()))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    /// Asks `settings` whose token is "secret".
    fn ask(
        purpose: Purpose,
        settings: &AdminSettings,
        pairs: &[(&'static str, &str)],
    ) -> Result<(), Denied> {
        let (uri, headers) = (Uri::from_static("/topology"), headers(pairs));
        admit(purpose, settings, &configured("secret\n"), &uri, &headers)
    }

    fn asked(host: Option<&str>, origin: Option<&str>) -> Result<(), Denied> {
        let host = host.map(|host| ("host", host));
        let pairs: Vec<_> = host
            .into_iter()
            .chain(origin.map(|o| ("origin", o)))
            .collect();
        ask(Purpose::Look, &settings(LOOPBACK), &pairs)
    }

    const RIGHT: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn a_change_needs_the_token_also_on_loopback() {
        for address in [LOOPBACK, "[::1]:9090", ELSEWHERE] {
            let settings = settings(address);
            let change = |pairs: &[_]| ask(Purpose::Change, &settings, pairs);
            assert_eq!(change(&[]), Err(Denied::TokenMissing));
            assert_eq!(change(&[RIGHT]), Ok(()));
            for wrong in [
                "Bearer Secret",
                "Bearer ",
                "Bearer",
                "secret",
                "Basic c2VjcmV0",
                "",
                "Bearer secret secret",
            ] {
                assert_eq!(
                    change(&[("authorization", wrong)]),
                    Err(Denied::TokenWrong),
                    "{wrong}"
                );
            }
            assert_eq!(change(&[RIGHT, RIGHT]), Err(Denied::TokenWrong));
        }
        assert!(Denied::TokenMissing.wants_token() && Denied::TokenWrong.wants_token());
    }

    #[test]
    fn the_word_bearer_may_be_written_in_any_case() {
        let pair = ("authorization", "bEARER  secret");
        assert_eq!(ask(Purpose::Change, &settings(LOOPBACK), &[pair]), Ok(()));
    }

    #[test]
    fn reading_is_open_on_loopback_and_needs_the_token_elsewhere() {
        assert_eq!(ask(Purpose::Look, &settings(LOOPBACK), &[]), Ok(()));
        for address in [ELSEWHERE, "0.0.0.0:9090", "[::]:9090", "[fd00::5]:9090"] {
            let settings = settings(address);
            assert_eq!(
                ask(Purpose::Look, &settings, &[]),
                Err(Denied::TokenMissing),
                "{address}"
            );
            assert_eq!(ask(Purpose::Look, &settings, &[RIGHT]), Ok(()));
        }
        let mapped = settings("[::ffff:127.0.0.1]:9090");
        assert_eq!(ask(Purpose::Look, &mapped, &[]), Ok(()));
    }

    #[test]
    fn health_needs_no_token_anywhere() {
        let wrong = ("authorization", "Bearer of another service");
        for address in [LOOPBACK, ELSEWHERE] {
            let settings = settings(address);
            assert_eq!(ask(Purpose::Health, &settings, &[]), Ok(()));
            assert_eq!(ask(Purpose::Health, &settings, &[wrong]), Ok(()));
        }
    }

    #[test]
    fn without_a_token_configured_a_change_is_forbidden() {
        let settings = AdminSettings {
            token_file: None,
            ..settings(LOOPBACK)
        };
        let uri = Uri::from_static("/topology/unpin");
        for pairs in [&[][..], &[RIGHT]] {
            let change = admit(Purpose::Change, &settings, &None, &uri, &headers(pairs));
            assert_eq!(change, Err(Denied::NoTokenConfigured));
            let look = admit(Purpose::Look, &settings, &None, &uri, &headers(pairs));
            assert_eq!(look, Ok(()));
        }
        assert!(!Denied::NoTokenConfigured.wants_token());
    }

    #[test]
    fn an_empty_token_file_lets_nobody_in() {
        let (uri, empty) = (Uri::from_static("/"), configured("\n"));
        for said in ["Bearer ", "Bearer", "Bearer secret"] {
            let headers = headers(&[("authorization", said)]);
            for (purpose, address) in [(Purpose::Change, LOOPBACK), (Purpose::Look, ELSEWHERE)] {
                assert_eq!(
                    admit(purpose, &settings(address), &empty, &uri, &headers),
                    Err(Denied::TokenFileUnusable)
                );
            }
        }
    }

    #[test]
    fn admin_allow_insecure_lifts_both_token_rules_and_no_other() {
        for address in [LOOPBACK, ELSEWHERE] {
            let open = AdminSettings {
                allow_insecure: true,
                ..settings(address)
            };
            for purpose in [Purpose::Look, Purpose::Change] {
                assert_eq!(ask(purpose, &open, &[]), Ok(()));
                let wrong = ("authorization", "Bearer of another service");
                assert_eq!(ask(purpose, &open, &[wrong]), Ok(()));
                let foreign = [("host", "evil.example"), wrong];
                assert_eq!(ask(purpose, &open, &foreign), Err(Denied::Host));
                let page = [("host", "10.0.0.5"), ("origin", "http://evil.example")];
                assert_eq!(ask(purpose, &open, &page), Err(Denied::Origin));
            }
        }
    }

    #[test]
    fn with_the_token_any_host_and_origin_may_ask() {
        let foreign = [
            RIGHT,
            ("host", "proxy.example"),
            ("origin", "https://console.example"),
        ];
        for purpose in [Purpose::Look, Purpose::Change] {
            assert_eq!(ask(purpose, &settings(LOOPBACK), &foreign), Ok(()));
        }
        let wrong = [("authorization", "Bearer x"), ("host", "evil.example")];
        assert_eq!(
            ask(Purpose::Look, &settings(LOOPBACK), &wrong),
            Err(Denied::TokenWrong),
            "a wrong token does not open what no token would"
        );
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
            assert_eq!(asked(Some(host), None), Err(Denied::Host), "{host}");
        }
    }

    #[test]
    fn one_bad_name_among_several_is_enough() {
        let two = headers(&[("host", "127.0.0.1"), ("host", "evil.example")]);
        assert_eq!(from_here(&Uri::from_static("/"), &two), Err(Denied::Host));

        let proxied = Uri::from_static("http://evil.example/topology");
        assert_eq!(from_here(&proxied, &HeaderMap::new()), Err(Denied::Host));
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
            assert_eq!(asked(host, Some(origin)), Err(Denied::Origin), "{origin}");
        }
        assert_eq!(
            asked(None, Some("http://localhost:9090")),
            Err(Denied::Origin)
        );
    }
}
