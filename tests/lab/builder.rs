//! Which kind of cluster: its net, its timings and what else it shall have.

use std::sync::Mutex;

use super::{
    LabError,
    cluster::Lab,
    config::{Settings, Timings},
    home::Home,
    install,
    net::Net,
};

/// What kind of cluster is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    net: Net,
    settings: Settings,
    /// Another version of Patroni than the usual one.
    patroni: Option<&'static str>,
}

impl Builder {
    pub fn net(mut self, net: Net) -> Self {
        self.net = net;
        self
    }

    pub fn timings(mut self, timings: Timings) -> Self {
        self.settings.timings = timings;
        self
    }

    pub fn fast(self) -> Self {
        self.timings(Timings::FAST)
    }

    pub fn synchronous(mut self) -> Self {
        self.settings.synchronous = true;
        self
    }

    pub fn failsafe(mut self) -> Self {
        self.settings.failsafe = true;
        self
    }

    pub fn max_connections(mut self, most: u16) -> Self {
        self.settings.max_connections = most;
        self
    }

    pub fn tls(mut self) -> Self {
        self.settings.tls = true;
        self
    }

    pub fn patroni(mut self, version: &'static str) -> Self {
        self.patroni = Some(version);
        self
    }

    /// REST over https: own CA, a client certificate required, and a login for changes.
    pub fn https(mut self) -> Self {
        self.settings.https = true;
        self
    }

    /// A healthy cluster whose first leader is `n1`, with the database `app` and its users.
    pub fn up(self) -> Result<Lab, LabError> {
        let mut programs = install::ensure()?;
        if let Some(version) = self.patroni {
            programs.patroni = install::ensure_patroni(version)?;
        }
        let mut lab = Lab {
            home: Home::take(self.net)?,
            settings: self.settings,
            programs,
            daemons: Mutex::default(),
            outside: None,
            https: None,
        };
        lab.home.place.make()?;
        lab.outside = lab.home.place.enter()?;
        if self.settings.https {
            lab.https = Some(lab.begin_https()?);
        }
        lab.bring_up()?;
        Ok(lab)
    }
}

impl Lab {
    /// Three nodes on 127.0.X.1 to 3 with Patroni's default timings, unless told otherwise.
    pub fn builder() -> Builder {
        Builder {
            net: Net::Loopback,
            settings: Settings {
                timings: Timings::DEFAULT,
                synchronous: false,
                failsafe: false,
                max_connections: 300,
                tls: false,
                https: false,
            },
            patroni: None,
        }
    }
}
