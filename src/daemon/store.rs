//! systemd keeps our listening sockets while no process of ours runs: what it hands us at the start, and its fd store.

use std::collections::BTreeSet;
use std::env;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use sd_notify::NotifyState;

use super::house::{House, Listening};
use crate::Config;
use crate::net::{Address, Inherited, Unfit};

/// systemd's fd store, as far as it is ours.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// How many descriptors it takes; 0 where there is none.
    room: usize,
    /// Names under which our sockets are there, so that it is told when one of them goes.
    names: BTreeSet<String>,
}

/// A socket's name in the store: its address, with what systemd does not allow in a name as `%3A`. Too long a path
/// loses its beginning.
///
/// Source: sd_notify(3), FDNAME.
fn name(address: &Address) -> String {
    const MOST: usize = 255;
    let escape = |bytes: &[u8]| -> String {
        let escaped = bytes.iter().map(|&byte| match byte {
            b':' | b'%' => format!("%{byte:02X}"),
            _ if byte.is_ascii_graphic() => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        });
        escaped.collect()
    };
    let mut name = match address {
        Address::Tcp(tcp) => escape(tcp.to_string().as_bytes()),
        Address::Unix(path) => escape(path.as_os_str().as_bytes()),
    };
    name.split_off(name.len().saturating_sub(MOST))
}

/// It is kept because we have stored it; else a socket unit keeps it.
pub(super) fn is_stored(kept_as: &str, address: &Address) -> bool {
    kept_as == name(address)
}

impl Store {
    /// systemd names the room since version 254; under an older one the unit does.
    pub(super) fn from_environment() -> Self {
        let room = env::var("FDSTORE").ok().and_then(|room| room.parse().ok());
        Self {
            room: room
                .filter(|_| env::var_os("NOTIFY_SOCKET").is_some())
                .unwrap_or(0),
            names: BTreeSet::new(),
        }
    }

    /// What systemd hands to this process, to be taken by `config`'s listeners; what they do not want is closed and
    /// forgotten. To be called once: the environment goes on saying it.
    pub(super) fn handed(config: &Config) -> Inherited {
        let mut inherited = Inherited::default();
        for (fd, name) in descriptors() {
            match inherited.offer(fd, Some(name.clone())) {
                Ok(()) => continue,
                // So it goes at each restart with a socket below a RuntimeDirectory.
                Err(error @ Unfit::Unreachable { .. }) => {
                    tracing::info!("systemd hands over {name:?}, which is bound anew: {error}");
                }
                Err(error) => {
                    tracing::warn!("systemd hands over {name:?}, which is closed: {error}");
                }
            }
            forget(&name);
        }
        let admin = config.admin.iter().map(|admin| Address::Tcp(admin.address));
        let listeners = config.listeners.iter().map(|l| l.address.clone());
        let wanted: Vec<_> = listeners.chain(admin).collect();
        Self::close_unwanted(&mut inherited, &wanted);
        inherited
    }

    /// Closes and forgets what is at none of these addresses.
    pub(super) fn close_unwanted(inherited: &mut Inherited, wanted: &[Address]) {
        for mut unwanted in inherited.unwanted(wanted) {
            let address = &unwanted.address;
            tracing::warn!(%address, "a socket is handed over that no listener wants: closed");
            let kept_elsewhere = |name: &String| !is_stored(name, address);
            let stays = unwanted.kept_as.as_ref().is_some_and(kept_elsewhere);
            if let Some(file) = &mut unwanted.file {
                file.stay(stays);
            }
            if let Some(name) = &unwanted.kept_as {
                forget(name);
            }
        }
    }

    /// Brings the store to what is open now: after the start, and after each reload.
    pub(super) fn keep(&mut self, house: &House) {
        match house.listening() {
            Ok(listening) => self.put(house, &listening),
            Err(error) => tracing::warn!(%error, "no socket can be stored"),
        }
    }

    fn put(&mut self, house: &House, listening: &[Listening]) {
        let mut names = BTreeSet::new();
        let mut left_out = 0;
        let mut room = self.room;
        for Listening {
            address,
            fd,
            kept_as,
        } in listening
        {
            let name = name(address);
            match kept_as {
                Some(kept_as) if *kept_as != name => continue,
                Some(_) => {}
                None if room == 0 => {
                    left_out += 1;
                    continue;
                }
                None => {
                    store(&name, fd);
                    house.is_kept(address, &name);
                }
            }
            room = room.saturating_sub(1);
            names.insert(name);
        }
        if self.room > 0 && left_out > 0 {
            tracing::warn!(
                "{left_out} listening sockets are not stored by systemd: FileDescriptorStoreMax={} is too small",
                self.room
            );
        }
        let before = std::mem::replace(&mut self.names, names);
        before.difference(&self.names).for_each(|gone| forget(gone));
    }
}

/// Each as its owner, with its name.
fn descriptors() -> Vec<(OwnedFd, String)> {
    let named = sd_notify::listen_fds_with_names().map(Iterator::collect::<Vec<_>>);
    let handed = named.or_else(|_names_do_not_fit| {
        let nameless = sd_notify::listen_fds()?.map(|fd| (fd, String::new()));
        Ok::<_, std::io::Error>(nameless.collect())
    });
    let handed = handed.unwrap_or_else(|error| {
        tracing::warn!(%error, "what systemd hands over cannot be used");
        Vec::new()
    });
    let owned = handed.into_iter().map(|(fd, name)| {
        // SAFETY: LISTEN_PID says that these are for this process, each was found open, and nobody else in it uses
        // or closes them: this is called once.
        (unsafe { OwnedFd::from_raw_fd(fd) }, name)
    });
    owned.collect()
}

/// Without FDPOLL=0 systemd would wake up at each client that comes.
fn store(name: &str, fd: &OwnedFd) {
    let states = [
        NotifyState::FdStore,
        NotifyState::FdName(name),
        NotifyState::Custom("FDPOLL=0"),
    ];
    if let Err(error) = sd_notify::notify_with_fds(&states, &[fd.as_fd()]) {
        tracing::warn!("systemd cannot be given {name}: {error}");
    }
}

fn forget(name: &str) {
    let states = [NotifyState::FdStoreRemove, NotifyState::FdName(name)];
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!("systemd cannot be told to forget {name}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_nothing_that_systemd_does_not_allow() {
        let tcp = |text: &str| name(&Address::Tcp(text.parse().unwrap()));
        assert_eq!(tcp("127.0.0.1:5432"), "127.0.0.1%3A5432");
        assert_eq!(tcp("[::1]:5432"), "[%3A%3A1]%3A5432");
        let unix = |path: &str| name(&Address::Unix(path.into()));
        assert_eq!(unix("/run/a b%/ü"), "/run/a%20b%25/%C3%BC");

        let long = unix(&format!("/run/{}/s", "ü".repeat(50)));
        assert_eq!(long.len(), 255);
        assert!(long.ends_with("%BC/s"));
    }

    #[test]
    fn what_a_socket_unit_keeps_is_not_in_our_store() {
        let address = Address::Tcp("127.0.0.1:5432".parse().unwrap());
        assert!(is_stored(&name(&address), &address));
        assert!(!is_stored("helios-proxy.socket", &address));
    }
}
