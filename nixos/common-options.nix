# The options that the module patroni-leader-proxy had: same names, same defaults. Used by both option paths.
{ lib, pkgs }:
let
  inherit (lib) mkOption types;
  time = import ./time.nix { inherit lib; };

  node = types.submodule {
    # What else `[[nodes]]` knows, in the file's own words: `role`, `enabled`.
    freeformType = types.attrsOf (pkgs.formats.toml { }).type;
    options = {
      host = mkOption {
        type = types.str;
        example = "10.0.0.11";
        description = "Name or address at which this node's PostgreSQL listens.";
      };
      port = mkOption {
        type = types.nullOr types.port;
        default = null;
        example = 5433;
        description = "Its PostgreSQL port, where it is not `pgPort`.";
      };
      restHost = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "mgmt1";
        description = "Name or address of its Patroni REST API, where it is not `host` (a management network, NAT).";
      };
      restPort = mkOption {
        type = types.nullOr types.port;
        default = null;
        example = 8009;
        description = "Port of its Patroni REST API, where it is not `restApiPort`.";
      };
      weight = mkOption {
        type = types.nullOr types.ints.unsigned;
        default = null;
        example = 0;
        description = "Its share of new readers; 100 unless set, 0 = none.";
      };
    };
  };
in
{
  nodes = mkOption {
    type = types.attrsOf (types.either types.str node);
    default = { };
    example = {
      pg1 = "10.0.0.11";
      pg2 = "10.0.0.12";
      pg3 = {
        host = "10.0.0.13";
        restHost = "mgmt3";
        weight = 50;
      };
    };
    description = ''
      Every Patroni member: a name, as logs and metrics show it, and its address, or a set
      `{ host; port; restHost; restPort; weight; }` where more is to be said. Patroni says which one leads, so this is
      never edited on a failover.

      A member tagged `nofailover` still answers `/replica` while it streams, so it serves readers of a `readPort`. Leave it
      out of `nodes`, or give it `weight = 0`, if reads are not to go there.
    '';
  };

  pgPort = mkOption {
    type = types.port;
    default = 5432;
    example = 6432;
    description = "Port at which each node's PostgreSQL listens; connections are carried there.";
  };

  restApiPort = mkOption {
    type = types.port;
    default = 8008;
    example = 8009;
    description = "Port at which each node's Patroni REST API listens; it is asked who leads.";
  };

  port = mkOption {
    type = types.port;
    default = 5432;
    example = 15432;
    description = ''
      Local port that always leads to the leader. On a host that is a Patroni member itself, or runs any PostgreSQL, that
      server already owns 5432: take another one, such as 15432.

      A port below 1024 brings `CAP_NET_BIND_SERVICE` into the unit. A privilege is given at the start, so changing to such a
      port needs one `systemctl restart`.
    '';
  };

  readPort = mkOption {
    type = types.nullOr types.port;
    default = null;
    example = 5433;
    description = "If set, a local port that spreads connections over the running replicas, in turn.";
  };

  bindAddresses = mkOption {
    type = types.listOf types.str;
    default = [ "127.0.0.1" ];
    example = [
      "127.0.0.1"
      "172.20.0.1"
    ];
    description = ''
      Addresses at which `port` and `readPort` are opened. Loopback serves this host alone. For containers and microVMs on
      this host add the address of their bridge or gateway (such as 172.20.0.1 or 192.168.121.1), and let them through the
      firewall, best on that interface alone: `networking.firewall.interfaces.br0.allowedTCPPorts`.

      An address that does not exist yet is bound all the same and works as soon as a bridge or VPN brings it: no
      `net.ipv4.ip_nonlocal_bind` is needed.
    '';
  };

  checkInter = mkOption {
    type = time.type;
    default = "5s";
    example = "500ms";
    description = ''
      How often each node is asked at rest, in HAProxy's time syntax (`us ms s m h d`; a bare number is milliseconds). With
      open sessions the leader is asked every second, and in doubt every node at once, whatever this says: it is not how
      long a failover takes, so do not naively tighten it.
    '';
  };

  checkTimeout = mkOption {
    type = time.type;
    default = "8s";
    example = "15s";
    description = ''
      How long one question may take, from connecting to the last byte of the answer, in HAProxy's time syntax. It must
      comfortably exceed the slowest healthy answer over the slowest link: across a WAN of 150 ms, `/primary` takes 1 to 2 s,
      and a tight timeout would let the pool flap on every jitter. Raise it for slower links; do not lower it because the
      LAN looks fine.
    '';
  };

  checkFall = mkOption {
    type = types.ints.positive;
    default = 5;
    example = 10;
    description = ''
      Silences in a row until a node counts as down. That concerns the read pool and the next claim to lead. It never takes
      a leader's authority away early: that has a lease of its own (`settings.topology.lease_timeout_secs`), and no lost check
      closes a session.
    '';
  };

  checkRise = mkOption {
    type = types.ints.positive;
    default = 2;
    example = 1;
    description = "Answers in a row until a node counts as up (again). Nodes start down: nobody is routed to a guess.";
  };

  extraAfterUnits = mkOption {
    type = types.listOf types.str;
    default = [ ];
    example = [ "tailscaled.service" ];
    description = ''
      More units to start after. If the nodes are reached through an overlay network (Tailscale, WireGuard, …), its unit
      saves a first round of questions into nowhere. It is no condition: without the network the proxy starts as well, holds
      its clients and serves them within a round of questions once the nodes can be reached. `network-online.target` is
      always included.
    '';
  };
}
