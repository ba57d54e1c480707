//! Sessions on real loopback sockets, with a tracker that the test plays.

mod drain;
mod forward;
mod hold;
mod moves;
mod stand;
