//! Sockets without knowing what is spoken: addresses, bind, connect, names, keepalive, TLS.

mod address;
mod connect;
mod inherited;
mod listen;
mod named_file;
mod names;
mod socket;
mod socket_file;
mod tls;

pub(crate) use address::Address;
pub(crate) use connect::connect_any;
pub(crate) use inherited::{Inherited, Unfit};
pub(crate) use listen::{BindError, BindOptions, BoundSet, Socket, bind, is_unassigned};
pub(crate) use named_file::{FileError, NamedFile, Renewable};
pub(crate) use names::{Asker, Host, at_port, bare, canonical};
pub(crate) use socket::{TcpLook, descriptor_limit, keepalive, nodelay, tcp_info};
pub(crate) use socket_file::SocketFile;
pub(crate) use tls::{ClientTls, OwnCertificate, TlsError, TlsFiles, Verify, server_name};
