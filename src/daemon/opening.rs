//! Binding and opening what the configuration lists: all of it, or nothing.

use std::net::{SocketAddr, TcpListener};

use super::outcome::{BindFailed, Bound, FileFailed, StartError};
use crate::admin::{AdminSettings, Token};
use crate::net::{Address, BindError, BindOptions, FileError, Socket, SocketFile, bind};
use crate::session::{Command, ListenerSettings};

/// A listener as configured, and where it really is.
pub(super) struct OpenListener {
    pub(super) settings: ListenerSettings,
    /// With port 0 resolved: what the worker calls it.
    pub(super) address: Address,
    /// The name of a unix socket lives as long as its listener.
    _file: Option<SocketFile>,
}

impl OpenListener {
    /// Tells the worker to serve these sockets, or just the settings. It knows listeners by their real addresses:
    /// several may have been asked for with port 0.
    pub(super) fn serve(&self, sockets: Vec<Socket>) -> Command {
        let settings = ListenerSettings {
            address: self.address.clone(),
            ..self.settings.clone()
        };
        Command::Listen { settings, sockets }
    }

    pub(super) fn bound(&self) -> Bound {
        match &self.address {
            Address::Tcp(addr) => Bound::Tcp(*addr),
            Address::Unix(path) => Bound::Unix(path.clone()),
        }
    }
}

/// Sockets that the worker is still to be given.
pub(super) struct Opened {
    pub(super) listener: OpenListener,
    pub(super) sockets: Vec<Socket>,
}

pub(super) fn open_all(listeners: &[ListenerSettings]) -> Result<Vec<Opened>, BindFailed> {
    listeners.iter().map(open).collect()
}

fn open(settings: &ListenerSettings) -> Result<Opened, BindFailed> {
    let options = BindOptions {
        mode: settings.mode,
        group: settings.group.clone(),
    };
    let set = bind(&settings.address, &options)?;
    if set.unassigned {
        tracing::warn!(
            address = %set.address,
            "no interface carries this listener's address yet; clients reach it once one does"
        );
    }
    Ok(Opened {
        listener: OpenListener {
            settings: settings.clone(),
            address: set.address,
            _file: set.file,
        },
        sockets: set.sockets,
    })
}

/// Off loopback nobody is served without a token: then there must be one.
pub(super) fn open_admin(settings: &AdminSettings) -> Result<TcpListener, StartError> {
    if let Some(Err(error)) = settings.token_file.as_deref().map(Token::read) {
        if settings.must_have_token() {
            return Err(StartError::AdminToken(Box::new(error)));
        }
        tracing::warn!(%error, "the admin API takes no changes");
    }
    bind_admin(settings.address).map_err(StartError::Bind)
}

fn bind_admin(address: SocketAddr) -> Result<TcpListener, BindFailed> {
    let set = bind(&Address::Tcp(address), &BindOptions::default())?;
    match set.sockets.into_iter().next() {
        Some(Socket::Tcp(listener)) => Ok(listener),
        _ => unreachable!("a TCP address is bound as a TCP socket"),
    }
}

impl From<BindError> for BindFailed {
    fn from(error: BindError) -> Self {
        Self(Box::new(error))
    }
}

impl From<FileError> for FileFailed {
    fn from(error: FileError) -> Self {
        Self(Box::new(error))
    }
}
