//! Sessions on real loopback sockets, with a tracker that the test plays.
