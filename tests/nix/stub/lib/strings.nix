# Strings.
lib:
let
  b = builtins;
in
{
  inherit (b)
    concatStringsSep
    match
    replaceStrings
    split
    stringLength
    substring
    toJSON
    ;

  concatStrings = b.concatStringsSep "";
  concatMapStrings = f: list: lib.concatStrings (map f list);
  concatMapStringsSep =
    sep: f: list:
    b.concatStringsSep sep (map f list);
  optionalString = wanted: text: if wanted then text else "";
  hasPrefix = prefix: text: b.substring 0 (b.stringLength prefix) text == prefix;
  hasSuffix =
    suffix: text:
    let
      before = b.stringLength text - b.stringLength suffix;
    in
    before >= 0 && b.substring before (-1) text == suffix;
  hasInfix = infix: text: b.length (lib.splitString infix text) > 1;
  removePrefix =
    prefix: text:
    if lib.hasPrefix prefix text then b.substring (b.stringLength prefix) (-1) text else text;
  removeSuffix =
    suffix: text:
    if lib.hasSuffix suffix text then
      b.substring 0 (b.stringLength text - b.stringLength suffix) text
    else
      text;
  splitString = sep: text: b.filter b.isString (b.split (lib.escapeRegex sep) text);
  stringToCharacters = text: lib.genList (i: b.substring i 1 text) (b.stringLength text);
  escape = signs: b.replaceStrings signs (map (sign: "\\" + sign) signs);
  escapeRegex = lib.escape (lib.stringToCharacters "\\[{()^$?*+|.");
  lowerChars = lib.stringToCharacters "abcdefghijklmnopqrstuvwxyz";
  upperChars = lib.stringToCharacters "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  toLower = b.replaceStrings lib.upperChars lib.lowerChars;
  toUpper = b.replaceStrings lib.lowerChars lib.upperChars;
  trim = text: b.head (b.match "[[:space:]]*(.*[^[:space:]]|)[[:space:]]*" text);
  sanitizeDerivationName =
    text:
    b.unsafeDiscardStringContext (
      lib.concatMapStrings (part: if b.isList part then "-" else part) (
        b.split "[^[:alnum:]+._?=-]+" (toString text)
      )
    );
}
