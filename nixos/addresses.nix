# Listening addresses as the configuration file writes them, and whether two of them get in each other's way.
{ lib }:
let
  plain =
    host:
    let
      bare = lib.removePrefix "::ffff:" (lib.removeSuffix "]" (lib.removePrefix "[" (lib.toLower host)));
    in
    if bare == "localhost" then "127.0.0.1" else bare;

  isV6 = host: lib.hasInfix ":" host;
  isEverywhere = host: host == "0.0.0.0" || host == "::";
  covers = one: other: isEverywhere one && isV6 one == isV6 other;
in
rec {
  # `host` and `port` as the file writes them. HAProxy's `*` is every IPv4 address.
  join =
    host: port:
    let
      bare = lib.removeSuffix "]" (lib.removePrefix "[" host);
      written = if host == "*" then "0.0.0.0" else bare;
    in
    if isV6 written then "[${written}]:${toString port}" else "${written}:${toString port}";

  # { host; port; } or { path; }; null for what is known only at the start (`${VAR}`) or is no address.
  parse =
    text:
    let
      found = builtins.match "(.*):0*([0-9]{1,5})" text;
    in
    if lib.hasPrefix "/" text then
      { path = text; }
    else if found == null || lib.hasInfix "\${" text then
      null
    else
      {
        host = plain (builtins.elemAt found 0);
        port = builtins.fromJSON (builtins.elemAt found 1);
      };

  collide =
    one: other:
    if one == null || other == null then
      false
    else if one ? path || other ? path then
      one == other
    else
      one.port == other.port
      && one.port != 0
      && (one.host == other.host || covers one.host other.host || covers other.host one.host);

  isLoopback = at: at ? path || lib.hasPrefix "127." at.host || at.host == "::1";

  # What PostgreSQL's `listen_addresses` means.
  ofPostgresql =
    listenAddresses: port:
    lib.concatMap (
      name:
      map (host: { inherit host port; }) (
        if name == "*" then
          [
            "0.0.0.0"
            "::"
          ]
        else if name == "localhost" then
          [
            "127.0.0.1"
            "::1"
          ]
        else
          lib.optional (name != "") (plain name)
      )
    ) (map lib.trim (lib.splitString "," listenAddresses));
}
