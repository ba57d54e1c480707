//! Sockets without knowing what is spoken: addresses, bind, connect, names, keepalive.

mod address;
mod listen;
mod socket;
mod socket_file;

pub(crate) use address::Address;
pub(crate) use listen::{BindError, BindOptions, BoundSet, Socket, bind};
pub(crate) use socket::{TcpLook, descriptor_limit, keepalive, nodelay, tcp_info};
pub(crate) use socket_file::SocketFile;
