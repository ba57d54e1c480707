# The cluster's lock: one etcd, on a machine of its own so that a member can be cut off from it alone.
{ config, ... }:
let
  at = port: "http://${config.networking.primaryIPAddress}:${toString port}";
in
{
  services.etcd = {
    enable = true;
    openFirewall = true;
    listenClientUrls = [ (at 2379) ];
    listenPeerUrls = [ (at 2380) ];
    initialCluster = [ "${config.networking.hostName}=${at 2380}" ];
    # Nothing of it outlives the test.
    extraConf.UNSAFE_NO_FSYNC = "true";
  };
}
