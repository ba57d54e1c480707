//! The PostgreSQL wire as values: no sockets, no async, no clock.
