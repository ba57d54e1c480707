//! Sockets without knowing what is spoken: addresses, bind, connect, names, keepalive.

mod address;
mod connect;
mod names;

pub(crate) use address::Address;
pub(crate) use connect::connect_any;
pub(crate) use names::{Asker, Host};
