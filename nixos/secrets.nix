# Secrets stay out of the Nix store, which everybody may read, and are handed over under names that can be a file's.
{ lib }:
# A place, as place.nix makes it.
{ cfg, option, ... }:
let
  # A Nix path is copied there.
  isStored = path: builtins.isPath path || lib.hasPrefix "${builtins.storeDir}/" path;

  # The keys of the file that name a secret, wherever they stand: { key; path; }.
  isSecret =
    key:
    lib.elem key [
      "admin_token_file"
      "key_file"
      "password_file"
      "tls_key_file"
    ];
  named =
    at: value:
    if builtins.isAttrs value then
      lib.concatLists (
        lib.mapAttrsToList (
          key: inner:
          if isSecret key && (builtins.isString inner || builtins.isPath inner) then
            [
              {
                key = "${at}.${key}";
                path = inner;
              }
            ]
          else
            named "${at}.${key}" inner
        ) value
      )
    else if builtins.isList value then
      lib.concatLists (lib.imap0 (i: named "${at}[${toString i}]") value)
    else
      [ ];
in
lib.mapAttrsToList (name: path: {
  assertion = lib.hasPrefix "/" path && !isStored path;
  message = "${option}.credentials.${name} = ${builtins.toJSON path}: allowed is the absolute path of a file outside the Nix store, which everybody may read.";
}) cfg.credentials
++ lib.mapAttrsToList (name: _: {
  assertion = builtins.match "[a-zA-Z0-9._-]+" name != null;
  message = "${option}.credentials.${name}: the name becomes that of a file: letters, digits, dots, - and _ are allowed.";
}) cfg.credentials
++ map (
  { key, path }:
  {
    assertion = !isStored path;
    message = ''${key} = ${builtins.toJSON (toString path)} ${
      if builtins.isPath path then "is copied to" else "is in"
    } the Nix store, which everybody may read: hand the secret over by ${option}.credentials and name it "\''${CREDENTIALS_DIRECTORY}/NAME".'';
  }
) (named "${option}.settings" cfg.settings)
++ lib.optional (cfg.environmentFile != null) {
  assertion = !isStored cfg.environmentFile;
  message = "${option}.environmentFile = ${builtins.toJSON cfg.environmentFile} is in the Nix store, which everybody may read: name a file outside it.";
}
