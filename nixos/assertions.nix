# The mistakes that people make, each with words that say what to do.
{
  lib,
  config,
  options,
}:
# The places (place.nix) of all proxies that run.
places:
let
  addresses = import ./addresses.nix { inherit lib; };
  inherit (lib)
    concatLists
    concatMap
    imap0
    optional
    optionalString
    ;

  # Every address that a proxy binds, with the option that names it.
  claims =
    place:
    let
      inherit (place) cfg option;
      claim = by: text: {
        inherit by text;
        at = addresses.parse text;
      };
      admin = cfg.settings.admin_address or "";
      ofListener =
        i: listener:
        let
          text = listener.address or "";
          isReader = (listener.route or "primary") == "replica";
          mine = port: port != null && lib.elem text (map (host: addresses.join host port) cfg.bindAddresses);
        in
        claim (
          if isReader && mine cfg.readPort then
            "${option}.readPort"
          else if !isReader && mine cfg.port then
            "${option}.port"
          else
            "${option}.settings.listeners[${toString i}]"
        ) text;
    in
    imap0 ofListener (cfg.settings.listeners or [ ])
    ++ optional (admin != "") (claim "${option}.admin.address" admin);

  all = concatMap claims places;

  # Each pair once. That of one proxy's two ports has words of its own.
  pairs = concatLists (
    imap0 (i: one: concatLists (imap0 (j: other: optional (i < j) { inherit one other; }) all)) all
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
    optional (options.services ? postgresql && config.services.postgresql.enable) {
      who = "services.postgresql (listen_addresses = ${builtins.toJSON listen}, port = ${toString port})";
      at = addresses.ofPostgresql listen port;
    };
  patroni =
    let
      inherit (config.services.patroni) nodeIp postgresqlPort restApiPort;
    in
    optional (options.services ? patroni && config.services.patroni.enable) {
      who = "services.patroni (nodeIp = ${builtins.toJSON nodeIp}, postgresqlPort = ${toString postgresqlPort}, restApiPort = ${toString restApiPort})";
      at = concatMap (addresses.ofPostgresql nodeIp) [
        postgresqlPort
        restApiPort
      ];
    };
  taken = concatMap (
    neighbour:
    map (claim: { inherit neighbour claim; }) (
      lib.filter (claim: lib.any (addresses.collide claim.at) neighbour.at) all
    )
  ) (postgresql ++ patroni);

  said = texts: lib.concatStringsSep " and " (lib.unique texts);

  failed = message: {
    assertion = false;
    inherit message;
  };

  ofPlace =
    {
      cfg,
      name,
      option,
      ...
    }:
    let
      admin = addresses.parse (cfg.settings.admin_address or "");
      isProtected =
        cfg.settings ? admin_token_file || (cfg.settings.admin_allow_insecure or false) == true;
      isSecretExposed = path: lib.hasPrefix builtins.storeDir path || !(lib.hasPrefix "/" path);
    in
    [
      {
        assertion = (cfg.settings.nodes or [ ]) != [ ];
        message = ''${option}.nodes names nobody: name every Patroni member and its address, such as { pg1 = "10.0.0.11"; pg2 = "10.0.0.12"; }.'';
      }
      {
        assertion = (cfg.settings.listeners or [ ]) != [ ];
        message = "${option}.bindAddresses is empty: clients need at least one address to connect to, such as 127.0.0.1.";
      }
      {
        assertion = cfg.readPort != cfg.port;
        message = "${option}.readPort and ${option}.port are both ${toString cfg.port}: readers need a port of their own, such as ${toString (cfg.port + 1)}.";
      }
      {
        assertion = admin == null || addresses.isLoopback admin || isProtected;
        message =
          "${option}.admin.address ${
            toString (cfg.settings.admin_address or "")
          } is off loopback and there is no token: set "
          + ''${option}.credentials.admin-token to a file with one, and ${option}.settings.admin_token_file = "\''${CREDENTIALS_DIRECTORY}/admin-token".'';
      }
      {
        assertion =
          name == null || (builtins.match "[a-zA-Z0-9][a-zA-Z0-9_-]*" name != null && name != "helios-proxy");
        message = "${option}: the name becomes a part of the unit's name and of a folder's: letters, digits, - and _ are allowed, and not helios-proxy itself.";
      }
    ]
    ++ lib.mapAttrsToList (credential: path: {
      assertion = !(isSecretExposed path);
      message = "${option}.credentials.${credential} = ${builtins.toJSON path}: allowed is the absolute path of a file outside the Nix store, which everybody may read.";
    }) cfg.credentials
    ++ lib.mapAttrsToList (credential: _: {
      assertion = builtins.match "[a-zA-Z0-9._-]+" credential != null;
      message = "${option}.credentials.${credential}: the name becomes that of a file: letters, digits, dots, - and _ are allowed.";
    }) cfg.credentials;
in
concatMap ofPlace places
++ map (
  { neighbour, claim }:
  failed "${claim.by}: ${claim.text} is taken on this host by ${neighbour.who}: choose another port, such as 15432."
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
    + optionalString (lib.hasSuffix ".admin.address" other.by) " (admin.address = null: no admin API)"
    + "."
  )
) collisions
