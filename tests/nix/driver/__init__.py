"""Runs the testScript of a NixOS VM test against Debian guests: one systemd-nspawn container a node."""
