# services.etcd as nixpkgs declares it, as far as the scenarios use it; run as Debian's user.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.etcd;
  urls =
    default:
    lib.mkOption {
      type = lib.types.listOf lib.types.str;
      inherit default;
    };
  named = name: value: lib.nameValuePair "ETCD_${name}" value;
  joined = lib.concatStringsSep ",";
in
{
  options.services.etcd = {
    enable = lib.mkEnableOption "etcd";
    name = lib.mkOption {
      type = lib.types.str;
      default = config.networking.hostName;
    };
    listenClientUrls = urls [ "http://127.0.0.1:2379" ];
    listenPeerUrls = urls [ "http://127.0.0.1:2380" ];
    advertiseClientUrls = urls cfg.listenClientUrls;
    initialAdvertisePeerUrls = urls cfg.listenPeerUrls;
    initialCluster = urls [ "${cfg.name}=http://127.0.0.1:2380" ];
    openFirewall = lib.mkOption {
      type = lib.types.bool;
      default = false;
    };
    extraConf = lib.mkOption {
      type = lib.types.attrsOf lib.types.str;
      default = { };
    };
    dataDir = lib.mkOption {
      type = lib.types.path;
      default = "/var/lib/etcd";
    };
  };

  config = lib.mkIf cfg.enable {
    networking.firewall.allowedTCPPorts = lib.mkIf cfg.openFirewall [
      2379
      2380
    ];
    systemd.services.etcd = {
      description = "etcd key-value store";
      wantedBy = [ "multi-user.target" ];
      after = [ "network-online.target" ];
      wants = [ "network-online.target" ];
      environment = {
        ETCD_NAME = cfg.name;
        ETCD_DATA_DIR = cfg.dataDir;
        ETCD_ADVERTISE_CLIENT_URLS = joined cfg.advertiseClientUrls;
        ETCD_LISTEN_CLIENT_URLS = joined cfg.listenClientUrls;
        ETCD_LISTEN_PEER_URLS = joined cfg.listenPeerUrls;
        ETCD_INITIAL_ADVERTISE_PEER_URLS = joined cfg.initialAdvertisePeerUrls;
        ETCD_INITIAL_CLUSTER = joined cfg.initialCluster;
        ETCD_INITIAL_CLUSTER_STATE = "new";
      }
      // lib.mapAttrs' named cfg.extraConf;
      serviceConfig = {
        Type = "notify";
        ExecStart = "${pkgs.etcd}/bin/etcd";
        User = "etcd";
        Restart = "always";
        RestartSec = "30s";
        LimitNOFILE = 40000;
      };
    };
  };
}
