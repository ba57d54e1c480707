//! Host names that may move: the last good addresses, refreshed in the background.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How often a name is looked up. A lookup never holds up a question: it asks for what is known.
const REFRESH: Duration = Duration::from_secs(5);
/// While nothing is known yet.
const RETRY: Duration = Duration::from_millis(500);

/// `addr` with another port. Addresses here have port 0 and keep the zone of a link-local one.
pub(crate) fn at_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

/// The form in which two spellings of one host are equal.
pub(crate) fn canonical(host: &str) -> String {
    host.parse::<IpAddr>().map_or_else(
        |_| host.trim_end_matches('.').to_lowercase(),
        |ip| ip.to_canonical().to_string(),
    )
}

/// A host as configured.
#[derive(Debug)]
pub(crate) enum Host {
    Literal(SocketAddr),
    Name {
        /// Empty until the first lookup succeeds. NXDOMAIN or a dead resolver keeps the last good addresses.
        known: watch::Receiver<Arc<[SocketAddr]>>,
        /// The lookups end with the host.
        _lookups: AbortOnDropHandle<()>,
    },
}

/// A host without the brackets of an IPv6 address.
pub(crate) fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

impl Host {
    /// A literal address (brackets allowed), or a name whose lookups begin now, on this runtime.
    pub(crate) fn new(host: &str) -> Self {
        if let Ok(ip) = bare(host).parse::<IpAddr>() {
            return Self::Literal(SocketAddr::new(ip, 0));
        }
        let (publish, known) = watch::channel(Arc::from([]));
        let name: Arc<str> = host.into();
        let lookups = tokio::spawn(look_up(name, publish));
        Self::Name {
            known,
            _lookups: AbortOnDropHandle::new(lookups),
        }
    }

    /// For tasks of their own: what a question needs, without the host itself.
    pub(crate) fn asker(&self) -> Asker {
        match self {
            Self::Literal(addr) => Asker::Literal(*addr),
            Self::Name { known, .. } => Asker::Name(known.clone()),
        }
    }

    /// What is known now.
    pub(crate) fn addresses(&self) -> Arc<[SocketAddr]> {
        match self {
            Self::Literal(addr) => Arc::from([*addr]),
            Self::Name { known, .. } => Arc::clone(&known.borrow()),
        }
    }
}

/// Asks for the addresses of a [`Host`].
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    Literal(SocketAddr),
    Name(watch::Receiver<Arc<[SocketAddr]>>),
}

impl Asker {
    /// The addresses, as soon as any are known: the caller brings the time limit.
    pub(crate) async fn addresses(&mut self) -> Arc<[SocketAddr]> {
        match self {
            Self::Literal(addr) => Arc::from([*addr]),
            Self::Name(known) => match known.wait_for(|found| !found.is_empty()).await {
                Ok(found) => Arc::clone(&found),
                Err(_lookups_ended) => Arc::from([]),
            },
        }
    }
}

async fn look_up(name: Arc<str>, publish: watch::Sender<Arc<[SocketAddr]>>) {
    loop {
        match tokio::net::lookup_host((&*name, 0)).await {
            Ok(found) => publish_found(&name, found, &publish),
            Err(error) => {
                tracing::debug!(%name, %error, "name lookup failed; the last addresses stay")
            }
        }
        let wait = if publish.borrow().is_empty() {
            RETRY
        } else {
            REFRESH
        };
        tokio::time::sleep(wait).await;
    }
}

fn publish_found(
    name: &str,
    found: impl Iterator<Item = SocketAddr>,
    publish: &watch::Sender<Arc<[SocketAddr]>>,
) {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for ip in found {
        if !addresses.contains(&ip) {
            addresses.push(ip);
        }
    }
    if addresses.is_empty() {
        return;
    }
    publish.send_if_modified(|known| {
        // Resolvers shuffle: only another set is news.
        let same = known.len() == addresses.len() && addresses.iter().all(|ip| known.contains(ip));
        if !same {
            if !known.is_empty() {
                tracing::info!(name, ?addresses, "the name has new addresses");
            }
            *known = addresses.into();
        }
        !same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_one_host_are_equal() {
        assert_eq!(canonical("PG1.Example.com."), canonical("pg1.example.com"));
        assert_eq!(canonical("2001:DB8:0:0::1"), canonical("2001:db8::1"));
        assert_eq!(canonical("::ffff:10.0.0.1"), canonical("10.0.0.1"));
        assert_ne!(canonical("pg1"), canonical("pg2"));
    }

    #[tokio::test]
    async fn literals_need_no_lookup() {
        for (text, ip) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::1", "::1"),
            ("[fd00::5]", "fd00::5"),
        ] {
            let expected = SocketAddr::new(ip.parse().unwrap(), 0);
            assert_eq!(*Host::new(text).addresses(), [expected]);
        }
    }

    #[tokio::test]
    async fn a_link_local_address_keeps_its_zone() {
        let found = Host::new("fe80::1%lo").asker().addresses().await;

        let SocketAddr::V6(addr) = at_port(found[0], 8008) else {
            panic!("{found:?}");
        };
        assert_eq!((addr.port(), addr.scope_id() > 0), (8008, true));
    }

    #[tokio::test]
    async fn a_name_is_known_after_its_first_lookup() {
        let host = Host::new("localhost");

        let found = host.asker().addresses().await;

        assert!(found.iter().all(|addr| addr.ip().is_loopback()) && !found.is_empty());
    }

    #[tokio::test]
    async fn a_failed_lookup_keeps_the_last_addresses_and_an_order_is_no_news() {
        let (publish, mut known) = watch::channel(Arc::from([]));
        let both: [SocketAddr; 2] = ["10.0.0.1:0", "10.0.0.2:0"].map(|a| a.parse().unwrap());

        publish_found("db", both.into_iter(), &publish);
        known.mark_unchanged();
        publish_found("db", both.into_iter().rev(), &publish);
        publish_found("db", std::iter::empty(), &publish);

        assert!(!known.has_changed().unwrap());
        assert_eq!(**known.borrow(), both);
    }
}
