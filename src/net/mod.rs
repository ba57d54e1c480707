//! Sockets without knowing what is spoken: addresses, bind, connect, names, keepalive.

mod address;

pub(crate) use address::Address;
