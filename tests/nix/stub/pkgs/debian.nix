# Packages by their names in nixpkgs. Each is a folder of the store whose `bin` is a Debian system's own: of the guest
# in which a test runs, or of this machine.
{ lib, build }:
let
  at =
    folder: name:
    build.runCommand name { meta.mainProgram = name; } ''
      mkdir "$out"
      ln -s ${folder} "$out/bin"
      ln -s /usr/sbin "$out/sbin"
    '';
  named = lib.genAttrs [
    "bash"
    "cargo"
    "clippy"
    "coreutils"
    "deadnix"
    "etcd"
    "makeWrapper"
    "nix"
    "nixfmt"
    "nixfmt-tree"
    "openssl"
    "patroni"
    "python3"
    "rust-analyzer"
    "rustc"
    "rustfmt"
    "statix"
    "systemd"
    "util-linux"
  ] (at "/usr/bin");
  inSbin = lib.genAttrs [
    "iproute2"
    "iptables"
    "nftables"
  ] (at "/usr/sbin");
  postgresql = at "/usr/lib/postgresql/17/bin" "postgresql" // {
    psqlSchema = "17";
  };
in
named
// inSbin
// {
  inherit postgresql;
  prometheus = at "/usr/bin" "prometheus" // {
    cli = at "/usr/bin" "promtool";
  };
}
