//! Binding and opening what the configuration lists: all of it, or nothing.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use super::outcome::{BindFailed, Bound, FileFailed, StartError};
use super::store::is_stored;
use crate::admin::{AdminSettings, Token};
use crate::causes::chain;
use crate::net::{
    Address, BindError, BindOptions, BoundSet, FileError, Inherited, Socket, SocketFile, bind,
};
use crate::session::{Command, ListenerSettings};

/// For what was inherited and not wanted: it may have the port of something that is wanted.
const SETTLE: Duration = Duration::from_secs(1);

/// A bound address as long as it is ours.
pub(super) struct Door {
    /// With port 0 resolved.
    pub(super) address: Address,
    /// Our own descriptors, beside those that accept: for systemd's fd store and for the process after this one.
    pub(super) sockets: Vec<Socket>,
    /// The name of a unix socket lives as long as its listener, or as whoever else keeps the socket.
    pub(super) file: Option<SocketFile>,
    /// The name under which systemd keeps the sockets while no process of ours runs.
    pub(super) kept_as: Option<String>,
}

/// A listener as configured, and where it really is.
pub(super) struct OpenListener {
    pub(super) settings: ListenerSettings,
    pub(super) door: Door,
}

impl Door {
    /// The other descriptors of the set are for whoever accepts.
    fn of(set: BoundSet) -> io::Result<(Self, Vec<Socket>)> {
        let door = Self {
            address: set.address,
            sockets: set
                .sockets
                .iter()
                .map(Socket::try_clone)
                .collect::<Result<_, _>>()?,
            file: set.file,
            kept_as: set.kept_as,
        };
        Ok((door, set.sockets))
    }

    /// Closes it, and says where it was.
    pub(super) fn retire(mut self) -> Address {
        match (&self.kept_as, &mut self.file) {
            (Some(name), _) if !is_stored(name, &self.address) => tracing::warn!(
                address = %self.address,
                "{name} keeps this socket open: its clients wait until that is stopped"
            ),
            (_, Some(file)) => file.stay(false),
            (_, None) => {}
        }
        self.address
    }

    /// Nobody else has the socket, unless systemd keeps it.
    pub(super) fn own_file(&mut self) {
        if let Some(file) = &mut self.file {
            file.stay(self.kept_as.is_some());
        }
    }

    /// Somebody else has the socket too, and its file with it.
    pub(super) fn leave_file(&mut self) {
        if let Some(file) = &mut self.file {
            file.stay(true);
        }
    }
}

impl OpenListener {
    /// Tells the worker to serve these sockets, or just the settings. It knows listeners by their real addresses:
    /// several may have been asked for with port 0.
    pub(super) fn serve(&self, sockets: Vec<Socket>) -> Command {
        let settings = ListenerSettings {
            address: self.door.address.clone(),
            ..self.settings.clone()
        };
        Command::Listen { settings, sockets }
    }

    pub(super) fn bound(&self) -> Bound {
        match &self.door.address {
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

pub(super) fn open_all(
    listeners: &[ListenerSettings],
    inherited: &mut Inherited,
) -> Result<Vec<Opened>, BindFailed> {
    listeners.iter().map(|one| open(one, inherited)).collect()
}

fn open(settings: &ListenerSettings, inherited: &mut Inherited) -> Result<Opened, BindFailed> {
    let options = BindOptions {
        mode: settings.mode,
        group: settings.group.clone(),
    };
    let set = open_set(&settings.address, &options, inherited)?;
    if set.unassigned {
        tracing::warn!(
            address = %set.address,
            "no interface carries this listener's address yet; clients reach it once one does"
        );
    }
    let (door, sockets) = Door::of(set)?;
    let listener = OpenListener {
        settings: settings.clone(),
        door,
    };
    Ok(Opened { listener, sockets })
}

fn open_set(
    address: &Address,
    options: &BindOptions,
    inherited: &mut Inherited,
) -> Result<BoundSet, BindError> {
    if let Some(set) = inherited.take(address) {
        return Ok(set);
    }
    let until = Instant::now() + SETTLE;
    loop {
        match bind(address, options) {
            // systemd closes what it was told to forget a moment later.
            Err(BindError::InUse { .. }) if inherited.is_settling() && Instant::now() < until => {
                std::thread::sleep(SETTLE / 50);
            }
            bound => return bound,
        }
    }
}

/// Off loopback nobody is served without a token: then there must be one.
pub(super) fn open_admin(
    settings: &AdminSettings,
    inherited: &mut Inherited,
) -> Result<(Door, TcpListener), StartError> {
    if let Some(Err(error)) = settings.token_file.as_deref().map(Token::read) {
        if settings.must_have_token() {
            return Err(StartError::AdminToken(Box::new(error)));
        }
        tracing::warn!(error = %chain(&error), "the admin API takes no changes");
    }
    bind_admin(settings.address, inherited).map_err(StartError::Bind)
}

fn bind_admin(
    address: SocketAddr,
    inherited: &mut Inherited,
) -> Result<(Door, TcpListener), BindFailed> {
    let mut set = open_set(&Address::Tcp(address), &BindOptions::default(), inherited)?;
    set.sockets.truncate(1);
    let (door, sockets) = Door::of(set)?;
    match sockets.into_iter().next() {
        Some(Socket::Tcp(listener)) => Ok((door, listener)),
        _ => unreachable!("a TCP address is bound as a TCP socket"),
    }
}

impl From<io::Error> for BindFailed {
    fn from(error: io::Error) -> Self {
        Self(Box::new(error))
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
