//! How the REST API is reached: in clear text or TLS, with or without a login.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::HeaderValue;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::question::NoAnswer;
use crate::net::{ClientTls, FileError, NamedFile, Renewable, TlsFiles, Verify, server_name};

/// `[rest]` of the configuration, but for the port, which is each node's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestSettings {
    /// `None` = http.
    pub(crate) tls: Option<RestTls>,
    pub(crate) login: Option<Login>,
}

/// How https is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestTls {
    pub(crate) files: TlsFiles,
    /// What every node's certificate names; `None` = the node's host as it is written.
    pub(crate) server_name: Option<Arc<str>>,
}

/// Who we say we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) username: Arc<str>,
    pub(crate) password: NamedFile,
}

/// The settings with their files read: one for all nodes.
pub(crate) struct Rest {
    settings: RestSettings,
    /// `None` = http.
    https: Option<Https>,
    /// Ready to be sent, and marked so that nobody prints it.
    authorization: Option<Renewable<HeaderValue>>,
}

/// TLS to every node.
pub(super) struct Https {
    tls: ClientTls,
    server_name: Option<Arc<str>>,
}

impl Rest {
    /// Reads the files.
    ///
    /// # Errors
    /// [`FileError`], when one of them cannot be used.
    pub(crate) fn open(settings: RestSettings) -> Result<Self, FileError> {
        let https = settings.tls.clone().map(Https::open).transpose()?;
        let authorization = settings.login.clone().map(|login| {
            Renewable::open(vec![login.password.clone()], move || authorization(&login))
        });
        Ok(Self {
            settings,
            https,
            authorization: authorization.transpose()?,
        })
    }

    pub(super) fn https(&self) -> Option<&Https> {
        self.https.as_ref()
    }

    /// What is sent as `Authorization`, of the password file as it is now.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.as_ref().map(Renewable::get)
    }

    /// What an answer of 401 means here.
    pub(super) fn turned_away(&self) -> NoAnswer {
        NoAnswer::TurnedAway {
            login: self.settings.login.clone(),
        }
    }
}

impl Https {
    fn open(settings: RestTls) -> Result<Self, FileError> {
        Ok(Self {
            tls: ClientTls::open(settings.files, Verify::Name)?,
            server_name: settings.server_name,
        })
    }

    /// Speaks TLS over a connection to `peer`, which is the node that the configuration calls `host`.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        host: &str,
    ) -> Result<TlsStream<TcpStream>, NoAnswer> {
        let host = self.server_name.as_deref().unwrap_or(host);
        let Some(name) = server_name(host) else {
            return Err(NoAnswer::NoName { host: host.into() });
        };
        Ok(self.tls.connect(stream, peer, name).await?)
    }

    /// The word of TLS behind an exchange that broke after the handshake, where there is one.
    pub(super) fn explain(&self, error: NoAnswer, peer: SocketAddr) -> NoAnswer {
        let refused = self.tls.explain(&error, peer);
        refused.map_or(error, NoAnswer::Tls)
    }
}

impl fmt::Debug for Rest {
    /// The settings name files and never what they hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rest").field(&self.settings).finish()
    }
}

/// Source: RFC 7617 (basic authentication), section 2.
fn authorization(login: &Login) -> Result<HeaderValue, FileError> {
    let file = &login.password;
    let bytes = file.read()?;
    let text = std::str::from_utf8(&bytes).map_err(|_| file.unusable("not text"))?;
    let password = text.strip_suffix('\n').unwrap_or(text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        return Err(file.unusable("holds no password"));
    }
    if password.contains(char::is_control) {
        return Err(file.unusable("holds more than one line of text"));
    }
    let pair = BASE64_STANDARD.encode(format!("{}:{password}", login.username));
    let Ok(mut header) = HeaderValue::try_from(format!("Basic {pair}")) else {
        unreachable!("base64 makes a valid header")
    };
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(folder: &tempfile::TempDir, held: &str) -> Login {
        let path = folder.path().join("password");
        std::fs::write(&path, held).unwrap();
        Login {
            username: "proxy".into(),
            password: NamedFile {
                key: "rest.password_file",
                path,
            },
        }
    }

    #[test]
    fn a_login_is_basic_authentication_without_the_files_newline() {
        let folder = tempfile::tempdir().unwrap();
        for held in ["open sesame", "open sesame\n", "open sesame\r\n"] {
            let header = authorization(&login(&folder, held)).unwrap();
            // echo -n 'proxy:open sesame' | base64
            assert_eq!(header.to_str().unwrap(), "Basic cHJveHk6b3BlbiBzZXNhbWU=");
        }
        for (held, why) in [
            ("", "holds no password"),
            ("\n", "holds no password"),
            ("two\nlines\n", "holds more than one line of text"),
        ] {
            let words = authorization(&login(&folder, held))
                .unwrap_err()
                .to_string();
            assert!(
                words.starts_with("rest.password_file = ") && words.ends_with(why),
                "{words}"
            );
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let settings = RestSettings {
            tls: None,
            login: Some(login(&folder, "hunter2")),
        };

        let rest = Rest::open(settings).unwrap();

        let header = rest.authorization().unwrap();
        let encoded = header.to_str().unwrap().replace("Basic ", "");
        let shown = format!("{rest:?} {header:?} {}", rest.turned_away());
        assert!(
            !shown.contains("hunter2") && !shown.contains(&encoded),
            "{shown}"
        );
    }
}
