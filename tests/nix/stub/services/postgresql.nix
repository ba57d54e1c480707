# The options of NixOS's PostgreSQL by which a module sees that it listens here.
{ lib, ... }:
let
  inherit (lib) mkOption types;
in
{
  options.services.postgresql = {
    enable = lib.mkEnableOption "PostgreSQL Server";
    enableTCPIP = lib.mkEnableOption "PostgreSQL on all addresses";
    settings = mkOption {
      type = types.submodule {
        freeformType = types.attrsOf (
          types.oneOf [
            types.bool
            types.float
            types.int
            types.str
          ]
        );
        options.port = mkOption {
          type = types.port;
          default = 5432;
        };
      };
      default = { };
    };
  };
}
