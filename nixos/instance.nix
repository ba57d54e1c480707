# The options of one proxy: those of the top level, and of each of `clusters`.
{
  lib,
  pkgs,
  # Whether it runs unless told otherwise.
  enabled,
}:
{ config, ... }:
let
  inherit (lib) literalExpression mkOption types;
  common = import ./common-options.nix { inherit lib pkgs; };
  toml = pkgs.formats.toml { };
in
{
  options = common // {
    enable = mkOption {
      type = types.bool;
      default = enabled;
      example = true;
      description = "Whether to run helios-proxy: a local PostgreSQL endpoint that always leads to the current Patroni leader.";
    };

    package = mkOption {
      type = types.package;
      default = pkgs.helios-proxy or (pkgs.callPackage ./package.nix { });
      defaultText = lib.literalMD "`pkgs.helios-proxy`, else the package that lies beside the module";
      example = literalExpression "inputs.helios-proxy.packages.x86_64-linux.default";
      description = ''
        What runs. A switch to another package hands the listening sockets and the sessions over to it: nobody is refused
        and no session is dropped. A package that does not start leaves the old one serving.
      '';
    };

    provider = mkOption {
      type = types.enum [
        "check"
        "patroni"
        "postgres"
        "static"
        "manual"
      ];
      default = "check";
      example = "patroni";
      description = ''
        Who says who leads. `check` asks each node's own Patroni; `patroni` asks for views of the whole cluster and has them
        confirmed; `postgres` asks PostgreSQL; `static` believes each node's `role`; `manual` is told. Another provider needs
        a restart.
      '';
    };

    settings = mkOption {
      type = toml.type;
      default = { };
      example = literalExpression ''
        {
          write_timeout_secs = 60;
          admin_token_file = "\''${CREDENTIALS_DIRECTORY}/admin-token";
          topology.scope = "main";
        }
      '';
      description = ''
        Everything the configuration file knows, in its own words (README, "Options"). The other options define their keys
        here as defaults, so a key that is set here wins over its option; a list, such as `listeners` or `nodes`, is replaced
        as a whole, or extended by `lib.mkDefault [ … ]`.

        The file is in the Nix store, which everybody may read: secrets are named by `credentials`, never written here.
      '';
    };

    checkConfig = mkOption {
      type = types.bool;
      default = pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform;
      defaultText = literalExpression "pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform";
      example = false;
      description = ''
        Whether the package itself checks the generated file while the system is built, so that a typo fails the build with
        the daemon's own words. Off where the package cannot run on the machine that builds (cross-compiling); turn it off for
        a package without `helios-proxy check`. A wrong file is then found at the start, or changes nothing at a reload.
      '';
    };

    admin = {
      address = mkOption {
        type = types.nullOr types.str;
        default = "127.0.0.1:9090";
        example = "10.0.0.5:9090";
        description = ''
          Address and port of the admin API with its page, health checks and Prometheus metrics; null = none. Off loopback it
          needs a token: `settings.admin_token_file`.
        '';
      };
      openFirewall = mkOption {
        type = types.bool;
        default = false;
        example = true;
        description = "Whether to open the admin API's port in the firewall.";
      };
    };

    openFirewall = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = ''
        Whether to open the ports of all listeners in the firewall, on every interface. For containers on a bridge
        `networking.firewall.interfaces.<bridge>.allowedTCPPorts` is narrower.
      '';
    };

    credentials = mkOption {
      type = types.attrsOf types.str;
      default = { };
      example = {
        admin-token = "/run/secrets/helios-proxy-admin-token";
      };
      description = ''
        Secrets by name: files outside the Nix store, readable by root alone, that systemd hands over at the start
        (`LoadCredential`). `settings` names them by path: `"''${CREDENTIALS_DIRECTORY}/admin-token"` (in a Nix string the `$`
        is escaped: `"\''${CREDENTIALS_DIRECTORY}/admin-token"`).

        systemd copies them at the start, and a reload does not refresh them (before systemd 260): a new or changed one is
        there after the next restart. TLS certificates, which are renewed, are therefore better plain paths with
        `supplementaryGroups`.
      '';
    };

    environmentFile = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "/run/secrets/helios-proxy.env";
      description = ''
        A file of lines `NAME=value` outside the Nix store, for `''${NAME}` and `''${NAME:-default}` in `settings`. It is read at
        the start.
      '';
    };

    supplementaryGroups = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "acme" ];
      description = ''
        Groups that the daemon's own user joins, such as the one that may read TLS certificates. The groups of unix-socket
        listeners are joined without being named here.
      '';
    };
  };

  config.settings = import ./settings.nix { inherit lib; } config;
}
