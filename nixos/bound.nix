# Every address that a proxy binds, with the option that names it: { by; text; at; isAdmin; }. `at` as addresses.parse has it.
{ lib }:
{ cfg, option, ... }:
let
  addresses = import ./addresses.nix { inherit lib; };
  inherit (cfg) settings;

  claim = isAdmin: by: text: {
    inherit by text isAdmin;
    at = addresses.parse text;
  };
  admin = settings.admin_address or "";

  # The option's own words, where the listener is what the options make.
  ofListener =
    i: listener:
    let
      text = listener.address or "";
      isReader = (listener.route or "primary") == "replica";
      isOf = port: port != null && lib.elem text (map (host: addresses.join host port) cfg.bindAddresses);
      name =
        if isReader && isOf cfg.readPort then
          "readPort"
        else if !isReader && isOf cfg.port then
          "port"
        else
          "settings.listeners[${toString i}]";
    in
    claim false "${option}.${name}" text;
in
lib.imap0 ofListener (settings.listeners or [ ])
++ lib.optional (admin != "") (claim true "${option}.admin.address" admin)
