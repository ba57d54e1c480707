# Addresses that somebody else on this host has already: another proxy, the same one, or PostgreSQL, Patroni and Prometheus.
{
  lib,
  config,
  options,
}:
# The places (place.nix) of all proxies that run.
places:
let
  addresses = import ./addresses.nix { inherit lib; };

  all = lib.concatMap (place: place.bound) places;

  # Each pair once. That of one proxy's two ports has words of its own.
  pairs = lib.concatLists (
    lib.imap0 (
      i: one: lib.concatLists (lib.imap0 (j: other: lib.optional (i < j) { inherit one other; }) all)
    ) all
  );
  isSamePort = pair: pair.other.by == lib.removeSuffix ".port" pair.one.by + ".readPort";
  collisions = lib.filter (
    pair: addresses.collide pair.one.at pair.other.at && !isSamePort pair
  ) pairs;

  # What else on this host listens, as far as its module says so: { who; at; }.
  postgresql =
    let
      settings = config.services.postgresql.settings or { };
      listen = settings.listen_addresses or "localhost";
      port = settings.port or 5432;
    in
    lib.optional (options.services ? postgresql && config.services.postgresql.enable) {
      who = "services.postgresql (listen_addresses = ${builtins.toJSON listen}, port = ${toString port})";
      at = addresses.ofPostgresql listen port;
    };
  patroni =
    let
      inherit (config.services.patroni) nodeIp postgresqlPort restApiPort;
    in
    lib.optional (options.services ? patroni && config.services.patroni.enable) {
      who = "services.patroni (nodeIp = ${builtins.toJSON nodeIp}, postgresqlPort = ${toString postgresqlPort}, restApiPort = ${toString restApiPort})";
      at = lib.concatMap (addresses.ofPostgresql nodeIp) [
        postgresqlPort
        restApiPort
      ];
    };
  # Its usual port is that of our admin API.
  prometheus =
    let
      listen = config.services.prometheus.listenAddress or "0.0.0.0";
      port = config.services.prometheus.port or 9090;
    in
    lib.optional (options.services ? prometheus && config.services.prometheus.enable) {
      who = "services.prometheus (listenAddress = ${builtins.toJSON listen}, port = ${toString port})";
      at = [ (addresses.parse (addresses.join listen port)) ];
    };
  taken = lib.concatMap (
    neighbour:
    map (claim: { inherit neighbour claim; }) (
      lib.filter (claim: lib.any (addresses.collide claim.at) neighbour.at) all
    )
  ) (postgresql ++ patroni ++ prometheus);

  said = texts: lib.concatStringsSep " and " (lib.unique texts);

  failed = message: {
    assertion = false;
    inherit message;
  };

in
map (
  { neighbour, claim }:
  failed "${claim.by}: ${claim.text} is taken on this host by ${neighbour.who}: choose another port, such as ${
    if claim.isAdmin then "9091" else "15432"
  }."
) taken
++ map (
  { one, other }:
  failed (
    "${
      said [
        one.by
        other.by
      ]
    }: ${
      said [
        one.text
        other.text
      ]
    } cannot be bound "
    + (if one.text == other.text then "twice" else "at once")
    + ": choose another port or address"
    + lib.optionalString (other.isAdmin) " (admin.address = null: no admin API)"
    + "."
  )
) collisions
