# The mistakes that people make with one proxy, each with words that say what to do.
{ lib }:
# A place, as place.nix makes it.
{
  bound,
  cfg,
  name,
  option,
  ...
}:
let
  addresses = import ./addresses.nix { inherit lib; };
  inherit (cfg) settings;
  isExposed = claim: claim.isAdmin && claim.at != null && !addresses.isLoopback claim.at;
  isProtected = settings ? admin_token_file || (settings.admin_allow_insecure or false) == true;
in
[
  {
    assertion = (settings.nodes or [ ]) != [ ];
    message = ''${option}.nodes names nobody: name every Patroni member and its address, such as { pg1 = "10.0.0.11"; pg2 = "10.0.0.12"; }.'';
  }
  {
    assertion = (settings.listeners or [ ]) != [ ];
    message = "${option}.bindAddresses is empty: clients need at least one address to connect to, such as 127.0.0.1.";
  }
  {
    assertion = cfg.readPort != cfg.port;
    message = "${option}.readPort and ${option}.port are both ${toString cfg.port}: readers need a port of their own, such as ${toString (cfg.port + 1)}.";
  }
  {
    assertion = isProtected || !lib.any isExposed bound;
    message =
      "${option}.admin.address ${settings.admin_address or ""} is off loopback and there is no token: set "
      + ''${option}.credentials.admin-token to a file with one, and ${option}.settings.admin_token_file = "\''${CREDENTIALS_DIRECTORY}/admin-token".'';
  }
  {
    assertion =
      name == null || (builtins.match "[a-zA-Z0-9][a-zA-Z0-9_-]*" name != null && name != "helios-proxy");
    message = "${option}: the name becomes a part of the unit's name and of a folder's: letters, digits, - and _ are allowed, and not helios-proxy itself.";
  }
]
