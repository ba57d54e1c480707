# The development shell: `cargo test` and `cargo demo` find all that they start on PATH.
{
  mkShell,
  helios-proxy,
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
  rustfmt,
  statix,
  util-linux,
}:
mkShell {
  # The compiler of the package, and with it cargo.
  inputsFrom = [ helios-proxy ];
  packages = [
    clippy
    rust-analyzer
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
