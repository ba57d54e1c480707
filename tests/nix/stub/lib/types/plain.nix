# Types of values without parts: numbers, texts, paths.
lib:
let
  inherit (lib)
    concatStringsSep
    elem
    isAttrs
    isInt
    isString
    ;
  inherit (lib.types) mkOptionType simple;
  values = map (definition: definition.value);

  text =
    description: separator:
    mkOptionType {
      name = description;
      check = isString;
      merge = _: definitions: concatStringsSep separator (values definitions);
    };

  integer = description: check: simple description (x: isInt x && check x);
  between =
    lowest: highest:
    integer "integer between ${toString lowest} and ${toString highest} (both inclusive)" (
      x: x >= lowest && x <= highest
    );

in
rec {
  bool = simple "boolean" lib.isBool;
  int = simple "signed integer" isInt;
  float = simple "floating point number" lib.isFloat;
  number = simple "integer or floating point number" (x: isInt x || lib.isFloat x);
  ints = {
    inherit between;
    unsigned = integer "unsigned integer, meaning >=0" (x: x >= 0);
    positive = integer "positive integer, meaning >0" (x: x > 0);
    u8 = between 0 255;
    u16 = between 0 65535;
    u32 = between 0 4294967295;
  };
  port = between 0 65535;
  str = simple "string" isString;
  strMatching =
    pattern:
    simple "string matching the pattern ${pattern}" (x: isString x && lib.match pattern x != null);
  lines = text "strings concatenated with \"\\n\"" "\n";
  path = simple "absolute path" (x: lib.isStringLike x && lib.substring 0 1 (toString x) == "/");
  package = simple "package" (
    x: lib.isDerivation x || lib.isStringLike x && lib.hasPrefix builtins.storeDir (toString x)
  );
  unspecified = simple "unspecified value" (_: true);
  raw = simple "raw value" (_: true);
  attrs = mkOptionType {
    name = "attribute set";
    check = isAttrs;
    merge = _: definitions: lib.mergeAttrsList (values definitions);
    emptyValue.value = { };
  };
  enum =
    words: simple "one of ${lib.concatMapStringsSep ", " builtins.toJSON words}" (x: elem x words);
  optionType = simple "option type" (lib.isType "option-type");
}
