# The development shell: `cargo test` and `cargo demo` find all that they start on PATH.
{
  mkShell,
  cargo,
  clippy,
  deadnix,
  etcd,
  iproute2,
  iptables,
  nixfmt,
  openssl,
  patroni,
  postgresql,
  prometheus,
  rust-analyzer,
  rustc,
  rustfmt,
  statix,
  util-linux,
}:
mkShell {
  packages = [
    cargo
    clippy
    rust-analyzer
    rustc
    rustfmt

    # The cluster of the tests and the demo, and its faults.
    etcd
    iproute2
    iptables
    openssl
    patroni
    postgresql
    util-linux

    # promtool
    prometheus.cli

    deadnix
    nixfmt
    statix
  ];
}
