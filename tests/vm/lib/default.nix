# The stage of the cluster scenarios: an etcd, Patroni members, a host with the proxy and its clients.
{
  helios,
  lib,
  pkgs,
  size ? 3,
}:
let
  members = map (n: "pg${toString n}") (lib.range 1 size);
  clients = pkgs.writeShellScript "clients" ''
    exec ${pkgs.python3}/bin/python3 ${./clients} "$@"
  '';
  # What a machine of NixOS does otherwise than a guest comes from whoever runs the test.
  verbs = pkgs.testers.verbs or (builtins.readFile ./nixos.py);
in
{
  inherit members;

  nodes = {
    app = import ./app.nix { inherit helios lib members; };
    etcd = ./etcd.nix;
  }
  // lib.genAttrs members (_: import ./member.nix { inherit lib members; });

  # The scenario's own steps, after the words they are written in.
  script =
    steps:
    { nodes, ... }:
    let
      addresses = lib.mapAttrs (_: node: node.networking.primaryIPAddress) nodes;
    in
    lib.concatStrings [
      ''
        CLIENTS = "${clients}"
        NFT = "${pkgs.nftables}/bin/nft"
        ADDRESSES = ${builtins.toJSON addresses}


      ''
      verbs
      (builtins.readFile ./cluster.py)
      "cluster = Cluster(app, etcd, [${lib.concatStringsSep ", " members}])\n"
      steps
    ];
}
